"""The Python interface: as complete as the command line, by the same names, and without internal ones."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import numpy as np
import pytest
from PIL import Image

import sdfcli
import shapes
from commands import run
from conftest import ROOT
from sdfcli.cli import build as build_command
from sdfcli.cli import check as check_command
from sdfcli.cli import compare as compare_command
from sdfcli.cli import export as export_command
from sdfcli.cli import samples as samples_command
from sdfcli.cli import sequence as sequence_command
from sdfcli.cli import solidify as solidify_command
from sdfcli.cli import verify as verify_command
from sdfcli.errors import InputError, UsageError
from sdfcli.export import FORMATS
from sdfcli.params import BuildKeywords, BuildParams
from sdfcli.pictures.render import shot_of
from sdfcli.pictures.slice import scale_of
from sdfcli.quality.check import MeshCheck

SMALL: dict[str, Any] = {"device": "cpu", "tolerance": 1e-2}
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text()

FILES = {"output", "force", "json", "quiet", "verbose"}
MANY = {"meshes", "recursive", "jobs", "fail_fast", "skip_existing", "timeout", "report", "require", "scheduler"}
COMMANDS: list[tuple[Callable[..., Any], Callable[..., Any], set[str], set[str]]] = [
    (build_command.build, sdfcli.build, FILES | MANY | {"dry_run", "pages"}, {"source", "progress"}),
    (
        build_command.build,
        sdfcli.estimate,
        FILES
        | MANY
        | {"dry_run", "pages", "nearest", "previous", "prove", "prove_leaves", "why"},  # no estimate changes
        {"source"},
    ),
    (
        sequence_command.sequence,
        sdfcli.build_sequence,
        FILES | {"frames", "fps", "times", "faces", "resume", "jobs"},
        {"frames", "progress", "gap", "holes"},
    ),
    (
        check_command.check,
        sdfcli.check,
        (FILES | MANY) - {"output", "verbose", "skip_existing", "scheduler"},
        {"source", "octree", "query", "domain", "scale", "units", "gap"},
    ),
    (
        solidify_command.solidify,
        sdfcli.solidify,
        {"mesh", "output", "force", "json", "quiet"},
        {"source", "progress"},
    ),
    (
        samples_command.samples,
        sdfcli.samples,
        (FILES | MANY | {"max_memory", "sigma", "shard_size"}) - {"verbose"},
        {"source", "sigma"},  # a text and numbers: test_samples.py
    ),
    (
        compare_command.compare,
        sdfcli.compare,
        {"picture", "size", "view", "up", "force", "json", "quiet"},
        {"progress"},
    ),
    (verify_command.verify, sdfcli.verify, {"named", "frame", "recursive", "json", "quiet"}, {"field", "progress"}),
    (
        export_command.export,
        sdfcli.Field.export,
        {"named", "output", "samples", "frame", "time", "json", "quiet"},
        {"self", "path"},
    ),
]
"""A command and its function, with the parameters that only the one has, and that only the other has."""


@cache
def field() -> sdfcli.Field:
    return sdfcli.build(shapes.star(np.random.default_rng(0), 2), **SMALL)


@pytest.mark.parametrize(("command", "function", "commands", "functions"), COMMANDS)
def test_options_are_keywords(
    command: Callable[..., Any], function: Callable[..., Any], commands: set[str], functions: set[str]
) -> None:
    """Of the same name and default, and of a type that includes the option's."""
    options, keywords = inspect.signature(command).parameters, inspect.signature(function).parameters
    assert set(options) - commands == set(keywords) - functions
    assert commands - FILES <= set(options)
    assert functions <= set(keywords)
    kinds, wider = get_type_hints(command), {**get_type_hints(BuildKeywords), **get_type_hints(function)}
    for name in set(options) - commands - functions:
        assert options[name].default == keywords[name].default, name
        given, taken = (set(get_args(each)) or {each} for each in (kinds[name], wider[name]))
        assert given - {Path} <= taken, name
        assert Path not in given or taken & {str}, name


def test_build_parameters_are_keywords() -> None:
    names = {each.name for each in dataclasses.fields(BuildParams)}
    assert set(BuildKeywords.__annotations__) == {*names, "max_error"}


OPTIONS: list[dict[str, Any]] = [
    {"octree": "bvh"},
    {"depth": 4},
    {"tolerance": 0.02},
    {"band": 0.1},
    {"thin": 0.05},
    {"sign": "winding"},
    {"query": "cct"},
    {"domain": "-4,-4,-4,8"},
    {"unit": 2.0},
    {"max_error": 0.05},
    {"max_memory": "1.5G"},
    {"threads": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_options_mean_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    shape = shapes.icosphere(1)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    mesh = tmp_path / "mesh.obj"
    mesh.write_text(
        "".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in shape[0].tolist())
        + "".join(f"f {a} {b} {c}\n" for a, b, c in (shape[1] + 1).tolist())
    )
    run("build", mesh, "-o", tmp_path / "a.h5", "--device", "cpu", *words)
    built, found = sdfcli.build(mesh, device="cpu", **options), sdfcli.load(tmp_path / "a.h5")
    assert built.content_sha256 == found.content_sha256
    assert built.info == found.info


def test_sizes_and_domains_as_text_and_as_numbers() -> None:
    shape = shapes.cube()
    one = sdfcli.build(shape, domain="-2, -2, -2, 4", max_memory="64G", **SMALL)
    two = sdfcli.build(shape, domain=np.array([-2, -2, -2, 4]), max_memory=64 * 10**9, **SMALL)
    assert one.content_sha256 == two.content_sha256
    for memory in ("", "2X", "-1", 0, -5):
        with pytest.raises(UsageError, match="--max-memory"):
            sdfcli.build(shape, max_memory=memory, **SMALL)
    with pytest.raises(UsageError, match="--max-error and --unit"):
        sdfcli.build(shape, max_error=0.1, unit=1.0, **SMALL)
    with pytest.raises(TypeError, match="tolernce"):
        sdfcli.build(shape, tolernce=1)  # type: ignore[call-arg]


def test_a_previous_field_by_its_path(tmp_path: Path) -> None:
    first = sdfcli.build(shapes.cube(), nearest=True, **SMALL)
    path = first.save(tmp_path / "a.h5")
    for previous in (first, path, str(path)):
        found = sdfcli.build(shapes.moved(shapes.cube(), 1.0, [0.1, 0, 0]), previous=previous, **SMALL)
        assert found.run["previous"]
        assert found.nearest is not None  # as with the command


# Shapes


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (4, 0, 2), (2, 2, 2)])
def test_points_of_any_shape(shape: tuple[int, ...]) -> None:
    points = np.random.default_rng(1).uniform(-1, 1, (*shape, 3))
    flat = points.reshape(-1, 3)
    exact = sdfcli.MeshDistance(shapes.icosphere(1), device="cpu")
    answers: list[Callable[[Any], Any]] = [
        field().sample,
        field().gradient,
        field().leaf_at,
        field().cell_at,
        field().sample_with_gradient,
        exact.distance,
        exact.signed_distance,
        exact.closest,
        lambda points: exact.nearest_triangles(points, 2),
        lambda points: exact.nearest_triangles(points, 2, approximate="ball"),
    ]
    for answer in answers:
        for given in (points, points.astype(np.float32), points.tolist()):
            if not np.asarray(given).size and isinstance(given, list):
                continue  # an empty list has no shape of its own
            found, expected = answer(given), answer(np.asarray(given).reshape(-1, 3))
            for one, other in zip(
                *(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True
            ):
                assert one.shape == (*shape, *other.shape[1:])
                assert one.dtype == other.dtype
                assert one.tobytes() == other.tobytes()
    starts, faces, distances = exact.triangles_within(points, 0.5)
    expected = exact.triangles_within(flat, 0.5)
    assert starts.shape == (len(flat) + 1,)
    assert [each.tobytes() for each in (starts, faces, distances)] == [each.tobytes() for each in expected]


def test_a_single_point() -> None:
    assert f"{field().sample([0, 0, 0]):.3f}" == f"{float(field().sample([[0, 0, 0]])[0]):.3f}"


# Fields


def test_bounds_and_error() -> None:
    low, high = field().bounds
    assert np.array_equal(low, field().domain.origin)
    assert np.array_equal(high - low, np.full(3, field().domain.length))
    assert field().max_error == field().info["max_error"] * field().info["mesh"]["diagonal"]
    assert sdfcli.build(shapes.cube(), max_error=0.02, device="cpu").max_error <= 0.02
    with pytest.raises(InputError, match="does not state its error"):
        _ = dataclasses.replace(field(), info={}).max_error


def test_grid() -> None:
    whole = field().grid(9)
    assert (whole.distance.shape, whole.distance.dtype) == ((9, 9, 9), np.float32)
    at = np.stack(np.meshgrid(*[np.arange(9)] * 3, indexing="ij"), axis=-1) * whole.spacing + whole.origin
    assert np.allclose(whole.distance, field().sample(at), rtol=1e-6)
    for window in ((0, 0, 0, 1, 0.5, 0.25), [[0, 0, 0], [1, 0.5, 0.25]]):
        part = field().grid(5, window)
        assert (part.distance.shape, part.spacing) == ((5, 3, 2), 0.25)
        assert part.distance[0, 0, 0] == np.float32(field().sample([0, 0, 0]))
    part.origin[:] = 0  # the caller's own
    with pytest.raises(UsageError, match="--resolution"):
        field().grid(1)


@pytest.mark.parametrize("ending", [".npz", ".vti", ".raw", ".vtkhdf"])
def test_export_is_the_command(tmp_path: Path, ending: str) -> None:
    path = field().save(tmp_path / "a.h5")
    grid: dict[str, Any] = {} if ending == ".vtkhdf" else {"resolution": 17}
    (tmp_path / "one").mkdir()
    found = field().export(tmp_path / "one" / f"a{ending}", **grid)
    run(
        "export",
        path,
        tmp_path / f"a{ending}",
        *[word for name, value in grid.items() for word in (f"--{name}", value)],
    )
    assert found == tmp_path / "one" / f"a{ending}"
    assert found.read_bytes() == (tmp_path / f"a{ending}").read_bytes()
    with pytest.raises(UsageError, match=r"exists; use --force \(in Python force=True\)"):
        field().export(found, **grid)
    assert field().export(str(found), **grid, force=True) == found
    if ending == ".raw":
        assert (tmp_path / "one" / "a.raw.json").read_bytes() == (tmp_path / "a.raw.json").read_bytes()
    if ending == ".npz":
        with np.load(found) as file:
            for name, value in vars(field().grid(17)).items():
                assert file[name].tobytes() == np.asarray(value).tobytes()


def test_export_names_all_formats() -> None:
    assert set(re.findall(r"`(\.[\w.]+)`", inspect.getdoc(sdfcli.Field.export) or "")) == set(FORMATS)


def test_export_refuses(tmp_path: Path) -> None:
    for name, options, said in (
        ("a.ply", {}, "use a name that ends in"),
        ("a.vtkhdf", {"resolution": 3}, "for grids"),
        ("a.vti", {"dtype": "float16"}, "--dtype"),
        ("a.npz", {"dtype": "int8"}, "--dtype"),
    ):
        with pytest.raises(UsageError, match=said):
            field().export(tmp_path / name, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_picture_in_a_notebook() -> None:
    content = field()._repr_png_()
    assert content is not None
    with Image.open(io.BytesIO(content)) as picture:
        assert picture.format == "PNG"
        assert 400 <= picture.width < 600
        assert len(picture.getcolors(1 << 20) or ()) > 100
    assert field().content_sha256  # unchanged
    nothing = dataclasses.replace(field(), info={}, distance=np.full_like(field().distance, 1.0))
    assert nothing._repr_png_() is None or nothing._repr_png_()  # never an exception


def test_short_representations(tmp_path: Path) -> None:
    shape, made = shapes.icosphere(1), field()
    index, poses = sdfcli.MeshDistance(shape, device="cpu"), np.eye(4)
    frames = tmp_path / "frames.npy"
    np.save(frames, np.stack([shape[0], shape[0] + 0.1]))
    np.savetxt(tmp_path / "faces.obj", shape[1] + 1, "f %d %d %d")
    shown = [
        made,
        made.grid(3),
        made.device_arrays("cpu"),
        index,
        index.mesh,
        sdfcli.SphereTree(shape, "cpu"),
        sdfcli.contacts(made, shape, poses, margin=1.0, device="cpu"),
        sdfcli.contacts(made, shape, poses, margin=1.0, device="cpu").manifold,
        sdfcli.first_contact(made, shape, poses, device="cpu"),
        sdfcli.isosurface(made, cells=16, device="cpu"),
        sdfcli.verify(made, shape, samples=30, device="cpu"),
        next(iter(sdfcli.flow(made, tuple(made.bounds.ravel()), 0.35, device="cpu", time=0.1, frames=1))),
    ]
    for each in shown:
        text = repr(each)
        assert re.fullmatch(rf"<{type(each).__name__}: [^\n]+>", text)
        assert len(text) < 100


# Checks


def test_check() -> None:
    report = sdfcli.check(shapes.holed(np.random.default_rng(1), shapes.icosphere(2), 0.35), device="cpu")
    assert set(report) == set(MeshCheck.__annotations__)
    assert (report["verdict"], report["watertight"]) == ("doubtful", False)
    assert report["findings"][0]["what"].endswith("open edges")


def test_verify(tmp_path: Path) -> None:
    shape = shapes.star(np.random.default_rng(0), 2)
    path = field().save(tmp_path / "a.h5")
    found = sdfcli.verify(field(), shape, samples=3000, device="cpu")
    assert (found.passed, found.same_mesh, found.tolerance) == (True, True, 1e-2)
    assert found.error == max(region.largest for region in found.regions.values()) <= 1e-2
    assert found.max_error == found.error * field().unit
    again = sdfcli.verify(path, shape, samples=3000, tolerance=found.error / 2, device="cpu")
    assert (again.passed, again.regions) == (False, found.regions)
    other = sdfcli.verify(str(path), shapes.cube(), samples=300, seed=1, device="cpu")
    assert (other.passed, other.same_mesh) == (False, False)
    for options, said in (({"tolerance": 2.0}, "--tolerance"), ({"samples": 2}, "--samples")):
        with pytest.raises(UsageError, match=said):
            sdfcli.verify(path, shape, **options)  # type: ignore[arg-type]


def test_estimate() -> None:
    found = sdfcli.estimate(shapes.icosphere(2), max_memory="64G", **SMALL)
    assert found.limit_bytes == 64 * 10**9
    assert found.fits


# Logs


def test_doubts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def logged(shape: shapes.Shape, **options: Any) -> str:
        caplog.clear()
        sdfcli.build(shape, **{**SMALL, **options})
        assert {record.name for record in caplog.records} <= {"sdfcli"}
        return " ".join(record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)

    with caplog.at_level(logging.DEBUG, "sdfcli"):
        assert logged(shapes.cube()) == ""
        assert "measuring the error" in caplog.text  # the stages
        assert "distances without signs: " in logged(shapes.sheet(np.random.default_rng(1), 6))
        assert logged(shapes.sheet(np.random.default_rng(1), 6), sign="none") == ""
        assert "is doubtful" in logged(shapes.holed(np.random.default_rng(1), shapes.icosphere(2), 0.35))
        assert "exceeds the tolerance, 0.0001" in logged(shapes.icosphere(3), tolerance=1e-4, depth=3)


def test_nothing_is_printed_by_default() -> None:
    script = (
        "import numpy as np, sdfcli\n"
        "sdfcli.build((np.eye(3), np.array([[0, 1, 2]])), device='cpu', tolerance=1e-2)\n"
        "import logging; assert logging.getLogger('sdfcli').handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


# Names


def public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_names() -> None:
    assert set(dir(sdfcli)) == set(sdfcli.__all__)
    space: dict[str, Any] = {}
    exec("from sdfcli import *", space)
    assert {name for name in space if name != "__builtins__"} == set(sdfcli.__all__)
    assert all(callable(space[name]) for name in sdfcli.__all__ if name != "__version__")


def test_commands_are_functions_after_their_use() -> None:
    """A folder of the package named as a function would hide it once it is imported."""
    script = "import pkgutil, sdfcli; print(*[each.name for each in pkgutil.iter_modules(sdfcli.__path__)])"
    folders = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "quality" in folders
    assert set(folders) & set(sdfcli.__all__) == set()


@pytest.mark.parametrize("name", ["Field", "FieldSequence", "MeshDistance"])
def test_members_are_documented(name: str) -> None:
    """All public ones, and few."""
    owner = getattr(sdfcli, name)
    members = public(owner) - {each.name for each in getattr(owner, "__dataclass_fields__", {}).values()}
    assert len(members) <= 18
    [documented] = re.findall(
        rf"^::: sdfcli\.{name}\n    options:\n      members: \[(.+?)\]$", PAGE, re.MULTILINE | re.DOTALL
    )
    assert members == set(documented.replace("\n", " ").replace(",", " ").split())


def classes_in(kind: Any) -> set[type]:
    """The package's classes in a type."""
    found = {each for part in get_args(kind) for each in classes_in(part)}
    ours = inspect.isclass(kind) and kind.__module__.startswith("sdfcli.")
    return found | ({kind} if ours else set())


def test_classes_of_results_are_public() -> None:
    """Of functions, of methods of public classes, and of results' attributes that have methods of their own."""
    functions = [getattr(sdfcli, name) for name in sdfcli.__all__ if name != "__version__"]
    owners = [each for each in functions if inspect.isclass(each)]
    functions += [getattr(owner, name) for owner in owners for name in public(owner)]
    found: set[type] = set()
    for each in functions:
        if inspect.isfunction(each):
            wanted = {**vars(sys.modules[each.__module__]), **{name: getattr(sdfcli, name) for name in sdfcli.__all__}}
            found |= classes_in(get_type_hints(each, localns=wanted).get("return"))
    assert {each.__name__ for each in found} <= {*sdfcli.__all__}
    assert {sdfcli.Samples, sdfcli.Grid, sdfcli.Contacts, sdfcli.State, sdfcli.MeshCheck} <= found


def test_a_path_where_a_field_is_needed(tmp_path: Path) -> None:
    """Is loaded by all; other objects are refused in a line."""
    path, ball, pose = field().save(tmp_path / "a.h5"), shapes.moved(shapes.icosphere(1), 0.1, (3, 0, 0)), np.eye(4)
    functions: list[Callable[[Any], Any]] = [
        lambda source: sdfcli.contacts(source, ball, pose, device="cpu").distance,
        lambda source: sdfcli.first_contact(source, ball, pose, device="cpu").least,
        lambda source: sdfcli.render(source, width=8, height=8, device="cpu"),
        lambda source: sdfcli.slice_image(source, size=64, device="cpu"),
        lambda source: shot_of([source], width=8, height=8, device="cpu").reach,
        lambda source: scale_of([source], size=64, device="cpu").at,
    ]
    for function in functions:
        assert np.array_equal(function(path), function(field()))
        assert np.array_equal(function(str(path)), function(field()))
        with pytest.raises(InputError, match=r"^a Field, or the path that sdfcli\.load takes, is needed, not object$"):
            function(object())
        with pytest.raises(InputError, match="no such file"):
            function("none.h5")
    for build in (
        lambda: sdfcli.build(ball, previous=1, **SMALL),  # type: ignore[arg-type]
        lambda: sdfcli.verify(1, ball),  # type: ignore[arg-type]
        lambda: sdfcli.flow(1, (0, 0, 0, 1, 1, 1), 0.1),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=r"a Field, or the path that sdfcli\.load takes, is needed, not int"):
            build()


def test_a_mesh_without_an_inside_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once, by a warning and by `signed`; not where `none` was asked for, nor for unsigned distances."""
    sheet = (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]), np.array([[0, 1, 2]]))
    for source, sign, signed, told in (
        (sheet, "auto", False, 1),
        (sheet, "none", False, 0),
        (shapes.icosphere(1), "auto", True, 0),
    ):
        caplog.clear()
        index = sdfcli.MeshDistance(source, sign=sign, device="cpu")
        index.distance([[0, 0, 1]])
        assert caplog.records == []
        for _ in range(2):
            index.signed_distance([[0, 0, 1], [0, 0, -1]])
        assert index.signed == signed
        assert [each.name for each in caplog.records] == told * ["sdfcli"]
        assert all("distances without signs: " in each.message for each in caplog.records)


def test_poses_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,z\n3,0,0\n0,4,0\n")
    poses = sdfcli.load_poses(str(tmp_path / "a.csv"))
    assert poses.dtype == np.float64
    assert np.array_equal(poses[:, :3, 3], [[3, 0, 0], [0, 4, 0]])
    assert len(sdfcli.contacts(field(), shapes.icosphere(1), poses, device="cpu")) == 2
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        sdfcli.load_poses("none.csv")


JSON = {"info", "run", "as_dict"}
"""Entries of any kind."""


@pytest.mark.parametrize("name", sorted({*sdfcli.__all__} - {"__version__"}))
def test_types_are_known(name: str) -> None:
    """No parameter and no result of a public name is anything whatever."""
    owner = getattr(sdfcli, name)
    if is_typeddict(owner):
        return
    functions = [owner]
    if inspect.isclass(owner):
        functions += [getattr(owner, each) for each in public(owner) if each not in JSON]
    for function in functions:
        called = getattr(function, "fget", None) or getattr(function, "func", None) or function
        if callable(called):
            signature = inspect.signature(called)
            kinds = {
                each.name: each.annotation for each in signature.parameters.values() if each.name not in {"self", *JSON}
            }
            if not inspect.isclass(called):
                kinds["return"] = signature.return_annotation
            assert [
                key
                for key, kind in kinds.items()
                if kind is inspect.Signature.empty or re.search(r"\bAny\b", str(kind))
            ] == []


@pytest.mark.parametrize("value", ["x", [1, 2], object(), float("nan"), -3])
def test_wrong_values_are_usage_errors(value: Any) -> None:
    """Of any type, for every option that is a number, and for devices."""
    for name in ("depth", "tolerance", "band", "thin", "unit", "max_error", "scale", "units", "device", "threads"):
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} "):
            sdfcli.build(shapes.tetrahedron(), **{name: value})
    for name in ("count", "uniform", "surface", "seed", "device"):
        with pytest.raises(UsageError, match=f"--{name} "):
            sdfcli.samples(shapes.tetrahedron(), **{name: value})
    for name in ("resolution", "window"):
        with pytest.raises(UsageError, match=f"--{name}"):
            field().grid(**{name: value})
    with pytest.raises(UsageError, match="--cells"):
        sdfcli.isosurface(field(), cells=value)
    for name, option in (("width", "size"), ("height", "size"), ("view", "view"), ("up", "up")):
        with pytest.raises(UsageError, match=f"--{option} "):
            sdfcli.render(field(), **{name: value})
    with pytest.raises(UsageError, match="--size "):
        sdfcli.slice_image(field(), size=value)
    volume = field().grid(4).distance
    with pytest.raises(UsageError, match="--spacing"):
        sdfcli.isosurface(volume, spacing=value)
    for name in ("samples", "seed"):
        with pytest.raises(UsageError, match=f"--{name} "):
            sdfcli.verify(field(), shapes.tetrahedron(), **{name: value})
    with pytest.raises(UsageError, match="radius"):
        sdfcli.neighbours_within(volume[0, :, :3], volume[0, :, :3], value)
    with pytest.raises(UsageError):
        sdfcli.flow(field(), (0, 0, 0, 1, 1, 1), value)


def test_numbers_must_be_whole() -> None:
    with pytest.raises(UsageError, match=r"--resolution 16\.5: use a whole number"):
        field().grid(resolution=16.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"--cells 16\.5: use a whole number"):
        sdfcli.isosurface(field(), cells=16.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"--threads 1\.5: use"):
        sdfcli.build(shapes.tetrahedron(), threads=1.5)  # type: ignore[arg-type]


def test_numpy_numbers_are_numbers() -> None:
    options: dict[str, Any] = {"depth": np.int64(3), "tolerance": np.float64(0.05), "unit": np.float32(2)}
    built = sdfcli.build(shapes.tetrahedron(), device="cpu", **options)
    assert json.dumps(built.info["parameters"])
    assert built.info == sdfcli.build(shapes.tetrahedron(), device="cpu", depth=3, tolerance=0.05, unit=2).info


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        (sdfcli.build, "tol", "tolerance"),
        (sdfcli.check, "toleranse", "tolerance"),
        (sdfcli.estimate, "max_err", "max_error"),
        (sdfcli.build_sequence, "dept", "depth"),
        (sdfcli.samples, "normalised", "normalized"),
        (sdfcli.flow, "viscosty", "viscosity"),
    ],
)
def test_misspelt_keywords(function: Any, wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) .* '{wrong}'; did you mean '{right}'\?"):
        function(shapes.tetrahedron(), **{wrong: 1})
    with pytest.raises(TypeError, match=r"argument 'zzz'$"):
        function(shapes.tetrahedron(), zzz=1)


@pytest.mark.parametrize("name", ["ball.npz", "ball", "ball.vti"])
def test_a_field_is_saved_by_its_ending(name: str, tmp_path: Path) -> None:
    """Other formats are those of `export`."""
    with pytest.raises(UsageError, match=r"use a name that ends in \.h5, \.hdf5"):
        field().save(tmp_path / name, force=True)
    assert not any(tmp_path.iterdir())


def test_the_surface_of_a_grid() -> None:
    """In the field's place, as that of the exported grid."""
    grid = field().grid(24, window=(-3, -3, -3, 3, 2.5, 3))
    surface = sdfcli.isosurface(grid, iso=0.01, device="cpu")
    bare = sdfcli.isosurface(grid.distance, iso=0.01, spacing=grid.spacing, device="cpu")
    assert np.array_equal(surface.faces, bare.faces)
    assert np.allclose(surface.vertices, bare.vertices + grid.origin, atol=1e-5)
    assert np.abs(field().sample(surface.vertices) - 0.01).max() < grid.spacing / 2
    with pytest.raises(UsageError, match="a Grid"):
        sdfcli.isosurface(grid, spacing=2)
