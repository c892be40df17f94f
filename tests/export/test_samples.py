"""Training samples: where they lie, that their distances are exact, and many meshes at a time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import commands
import oracle
import sdfcli
import shapes
from commands import reports
from sdfcli.errors import CheckFailedError, InputError, UsageError
from sdfcli.params import SampleParams

CPU = ["--device", "cpu"]
STAR = shapes.star(np.random.default_rng(5), 2)
FAR = shapes.moved(STAR, 3.0, [4000.0, -700.0, 10000.0])
"""Far from the origin, single precision moves points."""


def run(*words: object, **options: Any) -> Any:
    return commands.run("samples", *words, *CPU, **options)


def lines(*words: object) -> list[dict[str, Any]]:
    return reports("samples", run(*words, "--json").stdout)


def write(path: Path, shape: shapes.Shape) -> Path:
    trimesh.Trimesh(*shape, process=False).export(path)
    return path


@pytest.mark.parametrize(
    "shape", [STAR, FAR, shapes.overlapping(np.random.default_rng(1), 2)], ids=["star", "far", "two"]
)
@pytest.mark.parametrize("normalized", [False, True])
def test_distances_are_exact_at_the_stored_points(shape: shapes.Shape, normalized: bool) -> None:
    found = sdfcli.samples(shape, count=1500, normalized=normalized, device="cpu")
    points, distance = found.points.astype(np.float64), found.distance.astype(np.float64)
    if normalized:
        points, distance = points / found.scale - found.offset, distance / found.scale
    corners = shapes.triangles(shape)
    size = np.ptp(shape[0], axis=0).max()
    assert np.abs(np.abs(distance) - oracle.distance(points, corners)).max() < 1e-6 * size
    assert np.array_equal(found.inside, oracle.winding(points, corners) > 0.5)
    assert 0.1 < found.inside.mean() < 0.9


def test_the_file(tmp_path: Path) -> None:
    mesh = write(tmp_path / "star.ply", STAR)
    options = ["--count", 2001, "--surface", 0.25, "--normals", "--seed", 3, "--normalized"]
    (told,) = lines(mesh, "-o", tmp_path / "s.npz", *options)
    found = sdfcli.samples(mesh, count=2001, surface=0.25, normals=True, seed=3, normalized=True, device="cpu")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as read:
        arrays = {name: read[name] for name in read}
    assert found.save(tmp_path / "t.npz").read_bytes() == (tmp_path / "s.npz").read_bytes()
    index = sdfcli.MeshDistance(mesh, device="cpu")
    drawn = sdfcli.samples(index, count=2001, surface=0.25, normals=True, seed=3, normalized=True)
    assert (drawn.mesh_sha256, drawn.facts) == (found.mesh_sha256, found.facts)
    names = {"pos", "neg", "pos_normals", "neg_normals", "surface", "surface_normals", "offset", "scale", "info"}
    assert set(arrays) == names
    assert [len(arrays[name]) for name in ("pos", "neg", "surface")] == [told["pos"], told["neg"], told["surface"]]
    assert told["pos"] + told["neg"] + told["surface"] == 2001
    assert told["surface"] == 500
    assert arrays["pos"].dtype == arrays["neg"].dtype == arrays["surface"].dtype == np.float32
    assert arrays["pos"][:, 3].min() >= 0 > arrays["neg"][:, 3].max()
    rows = np.column_stack((found.points, found.distance))
    assert np.array_equal(arrays["neg"], rows[found.inside])
    assert np.array_equal(arrays["neg_normals"], found.normals[found.inside])
    assert np.array_equal(arrays["surface"], found.surface)
    info = json.loads(str(arrays["info"]))
    assert info["parameters"]["seed"] == 3
    assert info["facts"]["sign"] == "pseudonormal"
    vertices = sdfcli.MeshDistance(mesh).mesh.vertices
    farthest = np.linalg.norm((vertices + arrays["offset"]) * arrays["scale"], axis=1).max()
    assert farthest == pytest.approx(1 / 1.03)


def test_where_samples_lie() -> None:
    """Beside a ball's surface, distances are nearly the noise along the normal, of which the distribution is known; the
    uniform ones lie in the sphere's cube."""
    ball = shapes.moved(shapes.icosphere(4), 3.0)
    sigma = (0.1, 0.02)
    near = sdfcli.samples(ball, count=40_000, uniform=0, sigma=sigma, normalized=True, device="cpu")
    for limit in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        expected = sum(0.5 * math.erf(limit / (2**0.5 * each)) for each in sigma)
        assert (np.abs(near.distance) < limit).mean() == pytest.approx(expected, abs=0.012)
    uniform = sdfcli.samples(ball, count=40_000, uniform=1, normalized=True, device="cpu").points
    assert np.abs(uniform).max() <= 1
    for axis in range(3):
        assert np.histogram(uniform[:, axis], 10, (-1, 1))[0] == pytest.approx(4000, abs=300)


def test_normals() -> None:
    ball = shapes.icosphere(5)
    found = sdfcli.samples(ball, count=3000, uniform=0.2, surface=0.3, normals=True, device="cpu")
    for points, normals in ((found.points, found.normals), (found.surface, found.surface_normals)):
        assert normals is not None
        assert np.linalg.norm(normals, axis=1) == pytest.approx(1, abs=1e-6)
        out = points / np.linalg.norm(points, axis=1, keepdims=True)
        assert (np.sum(out * normals, axis=1) > 0.99).mean() > 0.97  # not near the centre
    assert oracle.distance(found.surface, shapes.triangles(ball)).max() < 1e-6


def test_normals_are_the_gradient() -> None:
    found = sdfcli.samples(STAR, count=2000, normals=True, device="cpu")
    index, step = sdfcli.MeshDistance(STAR, device="cpu"), 1e-3
    there, here = (index.signed_distance(found.points + k * step * found.normals) for k in (1, 0))
    assert np.mean(np.abs(there - here - step) < 0.05 * step) > 0.95  # not across the medial axis


def test_normals_at_the_surface_are_the_faces() -> None:
    found = sdfcli.samples(shapes.cube(), count=500, uniform=0, sigma=(1e-9,), normals=True, device="cpu")
    assert found.normals is not None
    assert np.sort(np.abs(found.normals), axis=1) == pytest.approx(np.tile([0, 0, 1], (500, 1)), abs=1e-6)
    inner = found.points - found.points.mean(axis=0)
    assert (np.sum(inner * found.normals, axis=1) > 0).all()


def test_the_same_bytes(tmp_path: Path) -> None:
    meshes = [write(tmp_path / f"{name}.ply", shape) for name, shape in (("a", STAR), ("b", FAR))]
    for out, seed in (("one", 1), ("again", 1), ("other", 2)):
        assert run(*meshes, "-o", tmp_path / out, "--count", 999, "--seed", seed).returncode == 0
    assert run(meshes[0], "-o", tmp_path / "alone.npz", "--count", 999, "--seed", 1, "--threads", 1).returncode == 0
    for name in ("a.npz", "b.npz"):
        one, again, other = ((tmp_path / out / name).read_bytes() for out in ("one", "again", "other"))
        assert one == again != other
    assert (tmp_path / "alone.npz").read_bytes() == (tmp_path / "one" / "a.npz").read_bytes()


def test_devices(gpu: Any) -> None:
    for shape in (STAR, shapes.overlapping(np.random.default_rng(1), 2)):
        one, other = (
            sdfcli.samples(shape, count=5000, surface=0.1, normals=True, device=device) for device in ("cpu", "cuda")
        )
        for name in ("points", "distance", "normals", "surface", "surface_normals"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_an_index_serves_many_draws() -> None:
    index = sdfcli.MeshDistance(STAR, device="cpu")
    for seed in (0, 1):
        one, other = (sdfcli.samples(each, count=300, seed=seed, device="cpu") for each in (index, STAR))
        assert np.array_equal(one.points, other.points)
        assert np.array_equal(one.distance, other.distance)


def test_a_mesh_without_an_inside(tmp_path: Path) -> None:
    sheet = shapes.sheet(np.random.default_rng(4), 4)
    with pytest.raises(InputError, match="--sign none"):
        sdfcli.samples(sheet, count=10, device="cpu")
    found = sdfcli.samples(sheet, count=100, sign="none", device="cpu")
    assert not found.inside.any()
    done = run(write(tmp_path / "sheet.ply", sheet), "-o", tmp_path / "s.npz")
    assert done.returncode == InputError.exit_code
    assert "sheet.ply: no signs" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "s.npz").exists()


def test_a_folder_goes_on_after_a_failure(tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    write(scans / "star.ply", STAR)
    write(scans / "far.ply", FAR)
    (scans / "faceless.obj").write_text("v 0 0 0\n")
    page = tmp_path / "page.html"
    done = run(scans, "-o", tmp_path / "train", "--count", 500, "--json", "--report", page)
    found = {Path(each["input"]).stem: each for each in reports("samples", done.stdout)}
    assert done.returncode == InputError.exit_code
    assert {name: each["status"] for name, each in found.items()} == {"star": "ok", "far": "ok", "faceless": "failed"}
    assert sorted(path.name for path in (tmp_path / "train").iterdir()) == ["far.npz", "star.npz"]
    assert "3 meshes: 2 sampled, 1 failed" in done.stderr
    text = page.read_text()
    assert "<th>picture</th>" not in text
    assert text.count("<tr class") == 3
    heads, rows = text.count("<th data-kind"), text.split("<tbody>")[1].split("</tbody>")[0]
    assert [row.count("<td") for row in rows.strip().splitlines()] == [heads] * 3


def test_resuming(tmp_path: Path) -> None:
    mesh = write(tmp_path / "star.ply", STAR)
    out = tmp_path / "s.npz"
    words = [mesh, "-o", out, "--count", 500]
    assert lines(*words)[0]["status"] == "ok"
    first, told = out.read_bytes(), lines(*words, "--skip-existing")[0]
    assert told["status"] == "skipped"
    assert {"seconds", "device"}.isdisjoint(told)
    assert run(*words).returncode == 2
    other = run(*words, "--seed", 5, "--skip-existing")
    assert other.returncode == 2
    assert "s.npz: exists, and has other parameters (seed 0, asked for 5); add --force" in other.stderr
    other = run(*words[:3], "--count", 600, "--sigma", 0.1, "--skip-existing")
    assert "(count 500, asked for 600, sigma 0.05,0.0158, asked for 0.1)" in other.stderr
    write(mesh, FAR)
    other = run(*words, "--skip-existing")
    assert other.returncode == 2
    assert "exists, and was drawn from another mesh" in other.stderr
    assert out.read_bytes() == first
    assert run(*words, "--skip-existing", "--force").returncode == 0
    assert out.read_bytes() != first
    for content in (out.read_bytes()[:-2000], b"mine", out.read_bytes().replace(b"NUMPY", b"NUMBY")):
        out.write_bytes(content)
        other = run(*words, "--skip-existing")
        assert other.returncode == 2
        assert "exists, and is damaged" in other.stderr
        assert out.read_bytes() == content


def test_required_verdicts(tmp_path: Path) -> None:
    """As of build: the file is written in any case."""
    good = write(tmp_path / "star.ply", STAR)
    half = write(tmp_path / "half.ply", shapes.holed(np.random.default_rng(1), shapes.icosphere(2), 0.35))
    assert run(good, "-o", tmp_path / "a.npz", "--count", 50, "--require", "good").returncode == 0
    for more in ([], ["--skip-existing"]):
        done = run(half, "-o", tmp_path / "b.npz", "--count", 50, "--require", "usable", *more)
        assert done.returncode == CheckFailedError.exit_code
        assert done.stderr == f"sdfcli: {half}: doubtful, worse than usable\n"
        assert (tmp_path / "b.npz").exists()
    done = run(good, half, "-o", tmp_path / "all/", "--count", 50, "--require", "good", "--json")
    told = {Path(each["input"]).stem: each for each in reports("samples", done.stdout)}
    assert (told["star"]["exit_code"], told["half"]["exit_code"], done.returncode) == (0, 6, 6)
    assert "error" in told["half"]
    assert "2 meshes: 1 sampled, 1 below --require, in " in done.stderr
    assert run(good, "--require", "fine").returncode == 2


def test_the_summary_names_ten_at_most(tmp_path: Path) -> None:
    for k in range(12):
        (tmp_path / f"bad{k:02}.obj").write_text("v 0 0 0\n")
    done = run(tmp_path, "-o", tmp_path / "out/", "--jobs", 1)
    told = done.stderr.splitlines()
    assert sum(line.startswith("  failed (3): ") for line in told) == 10
    assert told[-1] == "  and 2 others, named above"
    assert all(f"bad{k:02}.obj" in done.stderr for k in range(12))


def test_a_number_is_no_mesh(tmp_path: Path) -> None:
    mesh = write(tmp_path / "star.ply", STAR)
    done = run(mesh, "-o", tmp_path / "out/", "--sigma", "0.05", "0.01")
    assert done.returncode == UsageError.exit_code
    assert done.stderr == "sdfcli: 0.01: no such file; an option's values are one word, as in --sigma 0.05,0.0158\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--count", "0"], "--count"),
        (["--uniform", "1.5"], "--uniform"),
        (["--surface", "-0.1"], "--surface"),
        (["--uniform", "0.6", "--surface", "0.6"], "sum"),
        (["--sigma", "0.1,0"], "--sigma"),
        (["--sigma", "a"], "--sigma"),
        (["--sigma", "nan"], "--sigma"),
        (["--seed", "-1"], "--seed"),
        (["--sign", "some"], "--sign"),
        (["-o", "s.h5"], ".npz"),
    ],
)
def test_bad_options(words: list[str], says: str, tmp_path: Path) -> None:
    mesh = write(tmp_path / "star.ply", STAR)
    done = run(mesh, *([] if "-o" in words else ["-o", tmp_path / "s.npz"]), *words)
    assert done.returncode == UsageError.exit_code
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "s.npz").exists()


@pytest.mark.parametrize("name", ["count", "seed"])
def test_whole_numbers(name: str) -> None:
    assert getattr(SampleParams(**{name: 10.0}), name).__class__ is int
    for value in (1.5, "10", float("nan"), np.random.default_rng(0)):
        with pytest.raises(UsageError, match=f"--{name}"):
            SampleParams(**{name: value})


@pytest.mark.parametrize("sigma", [0.05, np.float64(0.05), [0.05], np.array([0.05]), "0.05"])
def test_one_deviation(sigma: Any) -> None:
    assert SampleParams.of(sigma=sigma).sigma == (0.05,)


@pytest.mark.parametrize(
    ("sigma", "named"), [("0.1,a,0", "a in 0.1,a,0"), (0, "0"), (1e7, "10000000"), ([0.1, None], "None in"), ("", "''")]
)
def test_a_wrong_deviation_is_named(sigma: Any, named: str) -> None:
    with pytest.raises(UsageError, match=f"--sigma {named}"):
        SampleParams.of(sigma=sigma)


@settings(deadline=None)
@given(count=st.integers(1, 10_000), uniform=st.floats(0, 1), rest=st.floats(0, 1))
def test_counts_by_share(count: int, uniform: float, rest: float) -> None:
    params = SampleParams(count=count, uniform=uniform, surface=(1 - uniform) * rest)
    near, everywhere, on = params.counts
    assert near + everywhere + on == count
    assert min(near, everywhere, on) >= 0
    assert abs(everywhere - params.uniform * count) <= 1
    assert abs(on - params.surface * count) <= 0.5


@pytest.mark.parametrize("wrong", ["no", "yes", 3, None])
def test_flags_are_true_or_false(wrong: Any) -> None:
    for name in ("normals", "normalized"):
        with pytest.raises(UsageError, match=f"{name} {wrong}: use True or False"):
            sdfcli.samples(shapes.icosphere(0), count=10, device="cpu", **{name: wrong})
    with pytest.raises(UsageError, match=f"why {wrong}: use True or False"):
        sdfcli.build(shapes.icosphere(0), device="cpu", why=wrong)


def test_an_index_has_its_own_sign(tmp_path: Path) -> None:
    index = sdfcli.MeshDistance(shapes.icosphere(1), sign="none", device="cpu")
    with pytest.raises(UsageError, match="has its own"):
        sdfcli.samples(index, sign="auto")
    drawn = sdfcli.samples(index, count=100)
    assert drawn.params.sign == "none"
    assert repr(drawn) == "<Samples: 100, 0 inside, 0 on the surface>"
    with pytest.raises(UsageError, match=r"\.npz"):
        drawn.save(tmp_path / "a.pt")
