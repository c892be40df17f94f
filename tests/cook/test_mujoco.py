"""Fields in MuJoCo: the plugin, octrees of models, and scenes that `cook` writes, asked by MuJoCo's own code."""

from __future__ import annotations

import copy
import ctypes
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed")

from typer.testing import CliRunner  # noqa: E402

import sdfcli  # noqa: E402
import sdfcli.mujoco as fields  # noqa: E402
import shapes  # noqa: E402
from conftest import ROOT  # noqa: E402
from sdfcli.cli.app import app  # noqa: E402
from sdfcli.cook import mujoco as target  # noqa: E402
from sdfcli.cook import mujoco_warp as warp_target  # noqa: E402
from sdfcli.cook.config import BAND, CookConfig  # noqa: E402
from sdfcli.cook.part import Part  # noqa: E402
from sdfcli.cook.target import placed  # noqa: E402
from sdfcli.errors import DeviceError, InputError, UsageError  # noqa: E402
from sdfcli.field.field import Field  # noqa: E402
from sdfcli.mujoco.oct_file import predicted_size, read_oct, write_oct  # noqa: E402
from sdfcli.mujoco.octree import Octree  # noqa: E402

POINTS = 100_000
LIBRARY = ctypes.CDLL(str(next(Path(mujoco.__file__).parent.glob("*mujoco*.[sd][oyl]*"))))
HEADERS = Path(mujoco.__file__).parent / "include"
Floats = npt.NDArray[np.float64]


class Sdf(ctypes.Structure):
    """MuJoCo's mjSDF."""

    _fields_ = [
        ("plugin", ctypes.POINTER(ctypes.c_void_p)),
        ("id", ctypes.POINTER(ctypes.c_int)),
        ("type", ctypes.c_int),
        ("relpos", ctypes.c_void_p),
        ("relmat", ctypes.c_void_p),
        ("geomtype", ctypes.POINTER(ctypes.c_int)),
    ]


def asked(model: Any, points: Floats, plugin: bool, number: int) -> tuple[Floats, Floats]:
    """Distances and gradients at points, from MuJoCo's functions for signed distances: of a plugin's instance, or a
    mesh's octree."""
    data = mujoco.MjData(model)
    LIBRARY.mjp_getPlugin.restype = ctypes.c_void_p
    registered = LIBRARY.mjp_getPlugin(b"sdfcli.field", ctypes.byref(ctypes.c_int())) if plugin else None
    kind = int(mujoco.mjtGeom.mjGEOM_SDF)
    sdf = Sdf((ctypes.c_void_p * 1)(registered), (ctypes.c_int * 1)(number), 0, None, None, (ctypes.c_int * 1)(kind))
    distance, gradient = LIBRARY.mjc_distance, LIBRARY.mjc_gradient
    distance.restype, gradient.restype = ctypes.c_double, None
    places = [ctypes.c_void_p(each.ctypes.data) for each in points]
    slopes = np.empty_like(points)
    m, d, s = ctypes.c_void_p(model._address), ctypes.c_void_p(data._address), ctypes.byref(sdf)
    found = np.array([distance(m, d, s, each) for each in places])
    for place, slope in zip(places, slopes, strict=True):
        gradient(m, d, s, ctypes.c_void_p(slope.ctypes.data), place)
    return found, slopes


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


def star(rng: np.random.Generator) -> shapes.Shape:
    """A rough closed mesh of a tenth of a metre, away from the origin, turned at random."""
    vertices, faces = shapes.moved(shapes.star(rng, 1), 0.1, rng.normal(size=3) * 0.1, shapes.turn(rng))
    return vertices, np.asarray(faces, np.int64)


def part_of(mesh: shapes.Shape, name: str = "thing") -> Part:
    return Part(name, mesh[0], np.asarray(mesh[1], np.int64), f"{name}.ply", f"{name}.ply")


def cooked(
    mesh: shapes.Shape, folder: Path, name: str = "thing", module: Any = target, tolerance: float | None = 1e-4
) -> Field:
    """Cooks a mesh into a folder; returns its field."""
    part, chosen = part_of(mesh, name), CookConfig(tolerance)
    moved = placed(module, part)
    field = sdfcli.build((moved.vertices, moved.faces), **module.parameters(chosen, moved))
    made = module.write(field, part, chosen, folder)
    assert made.files == [f"{name}.oct", f"{name}.xml", f"{name}.obj"]
    assert sorted(each.name for each in folder.iterdir() if each.stem == name) == sorted(made.files)
    return field


def mesh_model(mesh: shapes.Shape, kind: str = "sdf", name: str = "thing") -> Any:
    spec = mujoco.MjSpec()
    spec.add_mesh(name=name, uservert=mesh[0].reshape(-1), userface=mesh[1].reshape(-1))
    spec.worldbody.add_body(name="b").add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}"), meshname=name)
    return spec.compile()


def test_layout_of_the_plugin(tmp_path: Path) -> None:
    """Sizes and offsets in the declarations here and in MuJoCo's header."""
    own = ROOT / "sdfcli" / "mujoco" / "plugin" / "mujoco_api.h"
    text = re.search(r"struct mjpPlugin \{(.*?)\n\};", own.read_text(), re.DOTALL)[1]
    names = re.findall(r"\(\*(\w+)\)|(\w+);", re.sub(r"\)\(.*?\);", ");", text))
    names = [pointer or plain for pointer, plain in names]
    assert len(names) == 20
    prints = "".join(f'printf("{each} %zu\\n", offsetof(mjpPlugin, {each}));' for each in names)
    outputs = []
    for header in (own, HEADERS / "mujoco" / "mujoco.h"):
        code = f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\n'
        code += f'int main() {{ printf("%zu %d\\n", sizeof(mjpPlugin), (int)mjPLUGIN_SDF); {prints} }}\n'
        (tmp_path / "layout.cpp").write_text(code)
        command = [
            "g++",
            "-std=c++20",
            "-w",
            f"-I{HEADERS}",
            str(tmp_path / "layout.cpp"),
            "-o",
            str(tmp_path / "layout"),
        ]
        subprocess.run([*command, "-ldl"], check=True)
        outputs.append(subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout)
    assert outputs[0] == outputs[1]


def test_the_plugin_gives_the_field(rng: np.random.Generator, tmp_path: Path) -> None:
    field = cooked(star(rng), tmp_path)
    points = rng.uniform(*(field.bounds + np.array([[-0.02], [0.02]])), (POINTS, 3))
    distance, gradient = asked(fields.load(tmp_path / "thing.xml"), points, True, 0)
    np.testing.assert_allclose(distance, field.sample(points), rtol=0, atol=1e-14)
    wanted = field.gradient(points)
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-9)


def test_octrees_give_the_field(rng: np.random.Generator) -> None:
    model = mesh_model(star(rng))
    field = sdfcli.build(fields.mesh_of(model, "thing"), tolerance=5e-4)
    points = rng.uniform(*field.bounds, (POINTS, 3))
    distance, _ = asked(fields.put(model, {"thing": field}), points, False, 0)
    np.testing.assert_allclose(distance, field.sample(points), rtol=0, atol=1e-14)
    own, _ = asked(model, points[:1000], False, 0)  # MuJoCo's own octree is another one
    assert np.abs(own - field.sample(points[:1000])).max() > 1e-4


def test_other_meshes_keep_their_octrees(rng: np.random.Generator, tmp_path: Path) -> None:
    spec = mujoco.MjSpec()
    for name in ("a", "b", "c"):
        mesh = star(rng)
        spec.add_mesh(name=name, uservert=mesh[0].reshape(-1), userface=mesh[1].reshape(-1))
        kind = mujoco.mjtGeom.mjGEOM_MESH if name == "c" else mujoco.mjtGeom.mjGEOM_SDF
        spec.worldbody.add_body(name=name).add_geom(type=kind, meshname=name, name=f"geom {name}")
    model = spec.compile()
    before = {each: np.array(getattr(model, each)) for each in ("mesh_octadr", "oct_coeff", "mesh_vert", "geom_pos")}
    made = fields.put(model, {2: sdfcli.build(fields.mesh_of(model, 2)), "a": sdfcli.build(fields.mesh_of(model, "a"))})
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value)
    low, high = model.mesh_vert.min(axis=0), model.mesh_vert.max(axis=0)
    points = rng.uniform(low, high, (1000, 3)).astype(np.float64)
    np.testing.assert_array_equal(asked(made, points, False, 1)[0], asked(model, points, False, 1)[0])
    assert [made.geom(k).name for k in range(3)] == ["geom a", "geom b", "geom c"]
    for name in ("mesh_vert", "mesh_face", "body_inertia", "geom_quat", "names_map", "mesh_polyvert"):
        np.testing.assert_array_equal(getattr(made, name), getattr(model, name))
    write_oct(tmp_path / "b.oct", Octree.of(sdfcli.build(fields.mesh_of(model, "b"))))
    again = fields.put(made, {"b": tmp_path / "b.oct"})
    np.testing.assert_array_equal(asked(again, points, False, 2)[0], asked(made, points, False, 2)[0])
    octree = read_oct(tmp_path / "b.oct")
    inside = points[((points > octree.origin) & (points < octree.origin + octree.length)).all(axis=1)]
    np.testing.assert_allclose(asked(again, inside, False, 1)[0], octree.sample(inside), rtol=0, atol=1e-14)


def test_fields_that_do_not_belong(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = star(rng)
    model = mesh_model(mesh)
    with pytest.raises(InputError, match=r"outside the field's surface.*sdfcli\.mujoco\.mesh_of"):
        fields.put(model, {"thing": sdfcli.build((mesh[0] + 0.1, mesh[1]))})
    with pytest.raises(UsageError, match="mesh other: not in the model, whose meshes are: thing"):
        fields.put(model, {"other": tmp_path / "no.oct"})
    with pytest.raises(InputError, match="cannot be read"):
        fields.put(model, {"thing": tmp_path / "no.oct"})
    good = sdfcli.build(fields.mesh_of(model, 0))
    save = mujoco.mj_saveModel

    def other(model: Any, path: None, buffer: npt.NDArray[np.uint8]) -> None:
        save(model, path, buffer)
        buffer[:] = np.roll(buffer, 8)

    monkeypatch.setattr(mujoco, "mj_saveModel", other)
    with pytest.raises(UsageError, match=r"stores models in a way that this sdfcli does not know"):
        fields.put(model, {"thing": good})


@pytest.mark.parametrize("module", [target, warp_target])
def test_cooked_geoms_stay_where_they_were(rng: np.random.Generator, tmp_path: Path, module: Any) -> None:
    """Mass and inertia of the mesh geom; balls that touch the original mesh touch the cooked geom there."""
    mesh = star(rng)
    cooked(mesh, tmp_path, module=module)
    root = ElementTree.parse(tmp_path / "thing.xml").getroot()
    body = root.find(".//body")
    assert body is not None
    body.set("pos", "0.1 0.2 0.3")
    for geom in body.findall("geom"):  # a pose of the geom's own, which both have
        geom.attrib.update(pos="0.3 -0.2 0.1", quat="0.5 0.1 -0.7 0.5")
    ball = ElementTree.SubElement(root.find("worldbody"), "body", mocap="true", name="ball")  # type: ignore[arg-type]
    ElementTree.SubElement(ball, "geom", type="sphere", size="0.01", margin="0.02")
    (tmp_path / "thing.xml").write_bytes(ElementTree.tostring(root))
    model = fields.load(tmp_path / "thing.xml")
    if module is warp_target:
        model = fields.put(model, {"thing_sdf": tmp_path / "thing.oct"})
    for geom in body.findall("geom"):
        body.remove(geom)
    ElementTree.SubElement(body, "geom", type="mesh", mesh="thing", pos="0.3 -0.2 0.1", quat="0.5 0.1 -0.7 0.5")
    (tmp_path / "original.xml").write_bytes(ElementTree.tostring(root))
    original = fields.load(tmp_path / "original.xml")
    for name in ("body_mass", "body_inertia", "body_ipos"):
        np.testing.assert_allclose(getattr(model, name)[1], getattr(original, name)[1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(inertia(model), inertia(original), rtol=0, atol=1e-6 * float(model.body_inertia.max()))
    turn = rotation(np.array([0.5, 0.1, -0.7, 0.5]))
    place = np.array([0.4, 0.0, 0.4])
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.1, 0.2, 0.3
    number = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_SDF)[0])
    exact = sdfcli.MeshDistance(mesh)
    triangles = mesh[0][mesh[1][rng.integers(0, len(mesh[1]), 12)]]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    for at, normal in zip(triangles.mean(axis=1), normals, strict=True):
        point = at + 0.006 * normal / np.linalg.norm(normal)
        data.mocap_pos[0] = turn @ point + place
        mujoco.mj_forward(model, data)
        touching = np.array([each.pos for each in data.contact if number in (each.geom1, each.geom2)])
        assert len(touching)
        # Where the ball, of 10 mm, meets the mesh: MuJoCo puts contacts between the surfaces.
        local = (touching - place) @ turn
        assert np.abs(exact.signed_distance(local)).max() < 0.006
        assert np.linalg.norm(local - point, axis=1).max() < 0.014


def rotation(quaternion: Floats) -> Floats:
    found = np.empty(9)
    mujoco.mju_quat2Mat(found, quaternion)
    return found.reshape(3, 3)


def inertia(model: Any) -> Floats:
    """The first body's inertia tensor (3, 3)."""
    turn = rotation(model.body_iquat[1])
    return np.asarray(turn @ np.diag(model.body_inertia[1]) @ turn.T)


def scene_of(folder: Path, *parts: str, option: str = "") -> Any:
    """A scene of bodies, each cooked into `folder` before: `NAME POS... [free]`."""
    roots = {}
    made = ElementTree.fromstring(
        f'<mujoco><option timestep="0.001" {option}/><extension/><asset/><worldbody/></mujoco>'
    )
    for words in parts:
        name, *pos = words.split()
        if name not in roots:
            roots[name] = ElementTree.parse(folder / f"{name}.xml").getroot()
            for each in ("extension", "asset"):
                made.find(each).extend(roots[name].find(each) or [])  # type: ignore[union-attr]
        body = ElementTree.SubElement(made.find("worldbody"), "body", pos=" ".join(pos[:3]))  # type: ignore[arg-type]
        if pos[3:]:
            ElementTree.SubElement(body, "freejoint")
        body.extend(roots[name].findall(".//body/geom"))
    (folder / "scene.xml").write_bytes(ElementTree.tostring(made))
    return fields.load(folder / "scene.xml")


def bored_plate(size: float, radius: float, height: float = 0.02) -> shapes.Shape:
    """A square plate with a round hole, which the polygon of 128 corners surrounds."""
    sides = 128
    square = size / 2 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    corners = zip(square, np.roll(square, -1, axis=0), strict=True)
    outline = np.concatenate([a + (b - a) * np.linspace(0, 1, sides // 4, endpoint=False)[:, None] for a, b in corners])
    inner = np.roll(shapes.ring(sides, radius / np.cos(np.pi / sides)), sides * 3 // 8, axis=0)
    vertices, faces = shapes.bored(outline, inner, height)
    return vertices - [0, 0, height / 2], faces


def peg(radius: float, length: float) -> shapes.Shape:
    vertices, faces = shapes.prism(shapes.ring(64, radius), length)
    return vertices - [0, 0, length / 2], faces


@pytest.mark.parametrize("size", [0.04, 0.2, 1.0])
def test_peg_in_hole(tmp_path: Path, size: float) -> None:
    """A peg of 10 mm falls into a bore with 0.1 mm of clearance, with the preset."""
    cooked(bored_plate(size, 0.0051), tmp_path, "plate", tolerance=None)
    cooked(peg(0.005, 0.03), tmp_path, "peg", tolerance=2e-5)
    model = scene_of(tmp_path, "plate 0 0 0", "peg 0 0 0.0251 free")
    data = mujoco.MjData(model)
    for _ in range(1500):
        mujoco.mj_step(model, data)
    assert data.qpos[2] < 0.01, data.qpos
    assert np.hypot(*data.qpos[:2]) < 0.0005  # within or below the bore
    assert data.xmat[2].reshape(3, 3)[2, 2] > 0.99


def test_box_at_rest(rng: np.random.Generator, tmp_path: Path) -> None:
    size = rng.uniform(0.02, 0.06, 3)
    cooked(shapes.box(-size / 2, size / 2), tmp_path, "box")
    cooked(shapes.box([-0.1, -0.1, -0.01], [0.1, 0.1, 0.01]), tmp_path, "plate")
    model = scene_of(tmp_path, "plate 0 0 0", f"box 0 0 {0.011 + size[2] / 2} free")
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert abs(data.qpos[2] - (0.01 + size[2] / 2)) < 3e-4
    assert data.xmat[2].reshape(3, 3)[2, 2] > 0.999
    assert np.abs(data.qvel).max() < 0.02


def test_where_files_are_found(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder by `load`; else in the working directory, and in SDFCLI_FIELDS."""
    fields.load_plugin()
    folder = tmp_path / "a folder"
    folder.mkdir()
    cooked(star(rng), folder)
    text, mesh = (folder / "thing.xml").read_text(), (folder / "thing.obj").read_bytes()

    def compiled() -> int:
        return int(mujoco.MjModel.from_xml_string(text, {"thing.obj": mesh}).nplugin)

    monkeypatch.delenv("SDFCLI_FIELDS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert fields.load(folder / "thing.xml").nplugin == 1
    with pytest.raises(ValueError, match=r"sdfcli\.field: thing\.oct: cannot be opened.*SDFCLI_FIELDS"):
        compiled()
    monkeypatch.chdir(folder)
    assert compiled() == 1
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDFCLI_FIELDS", os.pathsep.join(["", "/nowhere", str(folder)]))
    assert compiled() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "ends too early"),
        (lambda content: content + b"\0", "after its end"),
        (lambda content: b"nonsense" + content[8:], r"not an \.oct file"),
    ],
)
def test_damaged_files_are_one_line(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    cooked(shapes.moved(shapes.cube(), 0.01), tmp_path)
    (tmp_path / "thing.oct").write_bytes(change((tmp_path / "thing.oct").read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        fields.load(tmp_path / "thing.xml")
    assert "\n" not in str(error.value)


def test_models_outlive_files(rng: np.random.Generator, tmp_path: Path) -> None:
    """Where a file is gone, data goes on, and new data fails with one line."""
    cooked(star(rng), tmp_path)
    model = fields.load(tmp_path / "thing.xml")
    first = mujoco.MjData(model)
    second = copy.copy(first)
    del first
    (tmp_path / "thing.oct").unlink()
    mujoco.mj_resetData(model, second)
    mujoco.mj_step(model, second)
    with pytest.raises(mujoco.FatalError, match=r"sdfcli\.field: .*thing\.oct: cannot be opened"):
        mujoco.MjData(model)


def test_a_missing_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.mujoco import plugin_library

    monkeypatch.setattr(plugin_library, "LIBRARY", "libsdfcli_absent.so")
    with pytest.raises(DeviceError, match=r"missing; install the package"):
        fields.plugin_path()


def test_presets(rng: np.random.Generator) -> None:
    part = part_of(star(rng))
    metre, ten = (part_of(shapes.moved(shapes.tetrahedron(), size / np.sqrt(12))) for size in (1.0, 10.0))
    plain = target.parameters(CookConfig(), part)
    sizes = [plain["tolerance"], *(target.parameters(CookConfig(), larger)["tolerance"] for larger in (metre, ten))]
    assert sizes == pytest.approx([2e-4, 1.4e-4, 1e-4])
    assert plain["band"] == BAND * plain["tolerance"]
    given = target.parameters(CookConfig(tolerance=1e-4, band=3e-4), part)
    assert given["tolerance"] * part.diagonal == pytest.approx(1e-4)
    assert given["band"] * part.diagonal == pytest.approx(3e-4)
    field = sdfcli.build((part.vertices, part.faces), **given)
    assert 0.5 < target.predicted_bytes(CookConfig(1e-4, 3e-4), part) / predicted_size(field.leaves) < 2


def test_warp_gives_the_field(rng: np.random.Generator, tmp_path: Path) -> None:
    wp = pytest.importorskip("warp", reason="Warp is not installed")
    mjw = pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed")
    from mujoco_warp._src import collision_sdf

    cooked(star(rng), tmp_path, module=warp_target)
    model = fields.load(tmp_path / "thing.xml")
    octree = read_oct(tmp_path / "thing.oct")
    with wp.ScopedDevice("cpu"):
        warp_model = mjw.put_model(model)
        fields.put_warp(warp_model, model, {"thing_sdf": tmp_path / "thing.oct"})

        @wp.kernel(module="unique")
        def distances(
            points: wp.array[wp.vec3],
            child: wp.array[collision_sdf.vec8i],
            aabb: wp.array2d[wp.vec3],
            coeff: wp.array[collision_sdf.vec8],
            root: int,
            result: wp.array[float],
        ):
            i = wp.tid()
            volume = collision_sdf.VolumeData()
            volume.center = aabb[root, 0]
            volume.half_size = aabb[root, 1]
            volume.root = root
            volume.oct_aabb = aabb
            volume.oct_child = child
            volume.oct_coeff = coeff
            result[i] = collision_sdf.sample_volume_sdf(points[i], volume)

        points = rng.uniform(octree.origin, octree.origin + octree.length, (POINTS, 3)).astype(np.float32)
        result = wp.empty(POINTS, dtype=float)
        root = int(warp_model.mesh_octadr.numpy()[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MESH, "thing_sdf")])
        arrays = [
            wp.array(points, dtype=wp.vec3),
            warp_model.oct_child,
            warp_model.oct_aabb,
            warp_model.oct_coeff,
            root,
        ]
        wp.launch(distances, POINTS, inputs=arrays, outputs=[result])
        found = result.numpy()
    assert warp_model.noct == len(warp_model.oct_child)
    np.testing.assert_allclose(found, octree.sample(points.astype(np.float64)), rtol=0, atol=1e-6 * octree.length)


def test_the_recipe_of_a_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the guide: the rod falls through the ring, which convex hulls would hold."""
    text = (ROOT / "docs" / "guides" / "simulators.md").read_text().partition("### A robot of the Menagerie")[2]
    makes, command = re.findall(r"```(?:python|sh)\n(.*?)```", text, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    exec(makes, {})
    words = command.splitlines()[0].split()[1:]
    done = CliRunner().invoke(app, [*words, "--cache", "fields"])
    assert done.exit_code == 0, done.output
    model = fields.load(tmp_path / words[-1] / "robot.xml")
    data = mujoco.MjData(model)
    for _ in range(100):
        mujoco.mj_step(model, data)
    assert data.qpos[0] == pytest.approx(-(model.opt.timestep**2) * 9.81 * 100 * 101 / 2, rel=1e-3)
    original = mujoco.MjModel.from_xml_path("robot.xml")
    data = mujoco.MjData(original)
    mujoco.mj_step(original, data)
    assert data.ncon
