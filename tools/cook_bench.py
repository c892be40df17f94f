"""Fields cooked for a simulator beside the simulator's own: `python tools/cook_bench.py TABLE.csv [SCENE ...]`.

Scenes made by formula (the bunny is in sample_meshes): a peg in a hole, a nut on a bolt, a ball on the bunny, a box at
rest, a chain of links; one second each. For each kind of field: seconds to cook, bytes, penetration, energy gained and
steps per second. Penetration is measured on the meshes: the deepest vertex of a moving mesh in the mesh it touches, by
exact distances. Other rows of TABLE.csv stay.

Needs the extra `simulators`.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
import numpy.typing as npt
import trimesh

import sdfcli
import sdfcli.mujoco
from sdfcli.cook import mujoco as target
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Part

ROOT = Path(__file__).resolve().parents[1]
STEP, STEPS, SEEN = 0.001, 1000, 25
"""Time step in seconds; steps; steps between two looks at penetration."""
AROUND = 96
"""Corners of round shapes."""
NODE = 148
"""Bytes of a node in MuJoCo's octrees."""
DEPTHS = (6, 8)
"""Depths of MuJoCo's octrees: the default, and one that many need."""
COLUMNS = (
    "target",
    "scene",
    "fields",
    "to cook, s",
    "MB",
    "penetration, mm",
    "energy gained, mJ",
    "steps/s",
    "after 1 s",
)

Floats = npt.NDArray[np.float64]


@dataclass
class Scene:
    """Meshes, bodies that have them, pairs of bodies that touch, and a function that describes the end.

    bodies  (mesh, position, whether it is free); `pairs`: (moving, other) by number. ball: radius of a sphere
    that falls on the bunny. ground: height of a plane.
    """

    meshes: dict[str, trimesh.Trimesh]
    bodies: list[tuple[str, tuple[float, float, float], bool]]
    pairs: list[tuple[int, int]]
    result: Callable[[Any, float], str]
    turns: dict[int, str] = field(default_factory=dict)
    friction: float = 0.5
    ball: float | None = None
    ground: float | None = None


def revolved(profile: Floats, thread: float = 0.0, pitch: float = 1.0) -> trimesh.Trimesh:
    """A closed polygon of (radius, height) around the z axis. thread: depth of a helical thread, by which points with a
    third column of 1 go in and out."""
    angle = np.arange(AROUND) * 2 * np.pi / AROUND
    radius = np.broadcast_to(profile[:, 0], (AROUND, len(profile))).copy()
    if thread:
        phase = (profile[:, 1] / pitch - angle[:, None] / (2 * np.pi)) % 1
        radius += profile[:, 2] * thread * (np.clip(np.abs(4 * phase - 2), 0.5, 1.5) - 1)
    height = np.broadcast_to(profile[:, 1], radius.shape)
    vertices = np.stack((radius * np.cos(angle)[:, None], radius * np.sin(angle)[:, None], height), axis=-1)
    i, j = np.indices(radius.shape)
    here, up = i * len(profile) + j, i * len(profile) + (j + 1) % len(profile)
    right, both = (each % (AROUND * len(profile)) for each in (here + len(profile), up + len(profile)))
    faces = np.concatenate((np.stack((here, right, both), -1), np.stack((here, both, up), -1))).reshape(-1, 3)
    made = trimesh.Trimesh(vertices.reshape(-1, 3), faces)
    made.update_faces(made.nondegenerate_faces())
    if made.volume < 0:
        made.invert()
    return made


def rod(radius: float, length: float) -> Floats:
    """A cylinder's profile, from the axis to the axis."""
    half = length / 2
    return np.array([[0, -half], [radius, -half], [radius, half], [0, half]])


def levels(low: float, high: float, step: float) -> Floats:
    """Heights for a thread."""
    return np.linspace(low, high, 1 + round((high - low) / step))


def threaded(radius: float, length: float, step: float) -> Floats:
    """The profile of a rod with a thread."""
    height = levels(-length / 2, length / 2, step)
    side = np.stack((np.full_like(height, radius), height, np.ones_like(height)), axis=1)
    return np.concatenate(([[0, height[0], 0]], side, [[0, height[-1], 0]]))


def nut_profile(inner: float, outer: float, length: float, step: float) -> Floats:
    """The profile of a round nut with a thread inside."""
    height = levels(-length / 2, length / 2, step)
    inside = np.stack((np.full_like(height, inner), height, np.ones_like(height)), axis=1)[::-1]
    return np.concatenate(([[outer, height[0], 0], [outer, height[-1], 0]], inside))


def scenes() -> dict[str, Scene]:
    """All scenes, by name. Lengths in metres."""
    plate = revolved(np.array([[0.0051, -0.01], [0.1, -0.01], [0.1, 0.01], [0.0051, 0.01]]))
    peg = revolved(rod(0.005, 0.03))
    pitch, depth = 0.002, 0.0006
    bolt = revolved(threaded(0.008, 0.05, pitch / 12), depth, pitch)
    nut = revolved(nut_profile(0.0081, 0.014, 0.01, pitch / 12), depth, pitch)
    bunny = trimesh.load(ROOT / "sample_meshes" / "bunny.ply", process=False)
    crown = bunny.vertices[bunny.vertices[:, 2].argmax()]
    box, floor = trimesh.creation.box((0.04, 0.03, 0.02)), trimesh.creation.box((0.2, 0.2, 0.02))
    link = trimesh.creation.torus(0.02, 0.004, major_sections=64, minor_sections=24)
    hang = 2 * (0.02 - 0.004) - 0.0002
    chain = [("link", (0.0, 0.0, -k * hang), k > 0) for k in range(4)]
    turns = {k: "0.70711 0.70711 0 0" if k % 2 else "0.5 0.5 0.5 0.5" for k in range(4)}

    def height(data: Any, turn: float) -> str:
        return f"at {1e3 * data.qpos[2]:.2f} mm"

    def turned(data: Any, turn: float) -> str:
        return f"down {-1e3 * data.qpos[2]:.2f} mm in {abs(turn) / (2 * np.pi):.2f} turns"

    rest = [("floor", (0, 0, -0.01), False), ("box", (0, 0, 0.0101), True)]
    return {
        "peg in hole": Scene(
            {"plate": plate, "peg": peg},
            [("plate", (0, 0, 0), False), ("peg", (0, 0, 0.0251), True)],
            [(1, 0)],
            lambda data, turn: "in" if data.qpos[2] < 0.01 else "stuck",
            ground=-0.015,
        ),
        "nut on bolt": Scene(
            {"bolt": bolt, "nut": nut},
            [("bolt", (0, 0, 0), False), ("nut", (0, 0, 0), True)],
            [(1, 0)],
            turned,
            friction=0.01,
        ),
        "ball on bunny": Scene(
            {"bunny": bunny},
            [("bunny", (0, 0, 0), False)],
            [(1, 0)],
            lambda data, turn: f"{1e3 * np.linalg.norm(data.qpos[:3] - crown):.0f} mm away",
            ball=0.01,
        ),
        "box at rest": Scene({"floor": floor, "box": box}, rest, [(1, 0)], height),
        "chain of links": Scene(
            {"link": link},
            chain,
            [(1, 0), (2, 1), (3, 2)],
            lambda data, turn: f"end at {1e3 * data.xpos[-1][2]:.1f} mm",
            turns,
        ),
    }


def xml(scene: Scene, cooked: dict[str, ElementTree.Element]) -> str:
    """The scene in MJCF, with cooked geoms, or geoms of type `sdf` with the meshes."""
    root = ElementTree.fromstring(
        f'<mujoco><option timestep="{STEP}"><flag energy="enable"/></option>'
        f'<default><geom friction="{scene.friction}"/></default>'
        "<extension/><asset/><worldbody/></mujoco>"
    )
    asset, world, extension = (root.find(each) for each in ("asset", "worldbody", "extension"))
    assert None not in (asset, world, extension)
    for name, mesh in scene.meshes.items():
        if name in cooked:
            extension.extend(cooked[name].find("extension") or [])
            asset.extend(cooked[name].find("asset") or [])
        else:
            numbers = {"vertex": mesh.vertices, "face": mesh.faces}
            words = {key: " ".join(map(repr, rows.reshape(-1).tolist())) for key, rows in numbers.items()}
            ElementTree.SubElement(asset, "mesh", words, name=name)
    if scene.ground is not None:
        ElementTree.SubElement(world, "geom", type="plane", size="0 0 1", pos=f"0 0 {scene.ground}")
    for number, (name, position, free) in enumerate(scene.bodies):
        place = {"pos": " ".join(map(repr, map(float, position))), "quat": scene.turns.get(number, "1 0 0 0")}
        body = ElementTree.SubElement(world, "body", place)
        if free:
            ElementTree.SubElement(body, "freejoint")
        if name in cooked:
            body.extend(cooked[name].findall(".//body/geom"))
        else:
            ElementTree.SubElement(body, "geom", type="sdf", mesh=name)
    if scene.ball is not None:
        top = scene.meshes["bunny"].vertices[scene.meshes["bunny"].vertices[:, 2].argmax()]
        words = {"pos": " ".join(map(repr, (top + np.array([0.002, 0.001, scene.ball + 0.001])).tolist()))}
        body = ElementTree.SubElement(world, "body", words)
        ElementTree.SubElement(body, "freejoint")
        ElementTree.SubElement(body, "geom", type="sphere", size=f"{scene.ball}")
    return ElementTree.tostring(root, "unicode")


def cook(scene: Scene, folder: Path) -> tuple[Any, int]:
    """The scene with cooked fields, and the files' bytes."""
    cooked, size = {}, 0
    for name, mesh in scene.meshes.items():
        part = Part(name, np.array(mesh.vertices), np.array(mesh.faces, np.int64), name, name)
        made = sdfcli.build((part.vertices, part.faces), **target.parameters(CookConfig(), part))
        target.write(made, part, CookConfig(), folder)
        size += (folder / f"{name}.oct").stat().st_size
        cooked[name] = ElementTree.parse(folder / f"{name}.xml").getroot()
    (folder / "scene.xml").write_text(xml(scene, cooked))
    return sdfcli.mujoco.load(folder / "scene.xml"), size


def own(scene: Scene, depth: int) -> tuple[Any, int]:
    """The scene with MuJoCo's octrees, and their bytes."""
    spec = mujoco.MjSpec.from_string(xml(scene, {}))
    for mesh in spec.meshes:
        mesh.octree_maxdepth = depth
    model = spec.compile()
    return model, NODE * int(model.noct)


def run(scene: Scene, model: Any) -> tuple[float, float, float, str]:
    """Deepest penetration in metres, energy gained in joules, steps per second, and the end."""
    data = mujoco.MjData(model)
    exact = {name: sdfcli.MeshDistance((mesh.vertices, mesh.faces)) for name, mesh in scene.meshes.items()}
    mujoco.mj_forward(model, data)
    first = float(data.energy.sum())
    most = deepest = seconds = turn = 0.0
    for _ in range(STEPS // SEEN):
        begun = time.perf_counter()
        for _ in range(SEEN):
            mujoco.mj_step(model, data)
            most = max(most, float(data.energy.sum()) - first)
            turn += STEP * float(data.qvel[5])
        seconds += time.perf_counter() - begun
        for moving, other in scene.pairs:
            mesh = scene.meshes[scene.bodies[moving][0]] if moving < len(scene.bodies) else None
            points = np.zeros((1, 3)) if mesh is None else np.asarray(mesh.vertices)
            there = points @ data.xmat[moving + 1].reshape(3, 3).T + data.xpos[moving + 1]
            local = (there - data.xpos[other + 1]) @ data.xmat[other + 1].reshape(3, 3)
            distance = exact[scene.bodies[other][0]].signed_distance(local).min() - (scene.ball or 0.0)
            deepest = max(deepest, -float(distance))
    return deepest, most, STEPS / seconds, scene.result(data, turn)


def main() -> None:
    """Runs the scenes and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("scenes", nargs="*")
    options = parser.parse_args()
    rows = []
    for name, scene in scenes().items():
        if options.scenes and name not in options.scenes:
            continue
        for fields in ("sdfcli", *(f"MuJoCo, depth {depth}" for depth in DEPTHS)):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.perf_counter()
                model, size = cook(scene, Path(folder)) if fields == "sdfcli" else own(scene, int(fields[-1]))
                seconds = time.perf_counter() - begun
                deepest, energy, rate, end = run(scene, model)
            figures = (
                f"{seconds:.1f}",
                f"{size / 1e6:.1f}",
                f"{1e3 * deepest:.2f}",
                f"{1e3 * energy:.2f}",
                f"{rate:.0f}",
            )
            rows.append(dict(zip(COLUMNS, ("MuJoCo", name, fields, *figures, end), strict=True)))
            print(*rows[-1].values(), sep=" | ", flush=True)
    if options.table.exists():
        with open(options.table, newline="") as file:
            done = {(row["target"], row["scene"]) for row in rows}
            rows += [row for row in csv.DictReader(file) if (row["target"], row["scene"]) not in done]
    with open(options.table, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
