"""Scenes for all simulators, and how they are measured. Lengths in metres, masses in kilograms.

A peg in a hole, a nut on a bolt, a ball on the bunny, a box at rest, a chain of links; one second each. No simulator is
imported here: its module has `FIELDS`, names of ways to make fields, the first one "sdfcli", and

    played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result

which cooks the scene's meshes into the folder and gives `watched` a function for steps and one for poses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import trimesh

import sdfcli
from cook_bench.shapes import (
    AROUND,
    Floats,
    Tetrahedra,
    circle,
    nut_profile,
    revolved,
    rod,
    sectors,
    slabs,
    solid_nut,
    solid_ring,
    threaded,
)
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.target import target_of

ROOT = Path(__file__).resolve().parents[2]
STEP, STEPS, SEEN = 0.001, 1000, 25
"""Time step in seconds; steps; steps between two looks."""
DENSITY, GRAVITY = 1000.0, 9.81
"""Of moving bodies, in kg/m³; along -z, in m/s²."""
LINK = 0.02
"""Radius of a link's centre line."""
WIRE = 0.004
"""Radius of a link's wire."""
HANG = 2 * (LINK - WIRE)
"""From a link's centre to that of the link which hangs in it."""
PITCH = 0.002
"""Of the bolt's thread."""
CLEARANCE = 1e-4
"""Between peg and bore."""
SLABS, CORNERS = 6, 24
"""Pieces of the peg; corners around a link's wire."""
PRESET = CookConfig()
"""The target's."""
State = Callable[[], tuple[Floats, Floats]]
"""Poses of all bodies (n, 4, 4) and their velocities (n, 6): of the origin, then angular, in the world's axes."""


@dataclass(frozen=True)
class Body:
    """A body with its centre of mass, if it is free, at its origin.

    mesh      its name in the scene; None: a ball.
    position  (3,), at the start.
    free      it moves; else it is fixed.
    turn      quaternion (w, x, y, z), at the start.
    radius    of a ball.
    """

    mesh: str | None
    position: tuple[float, float, float]
    free: bool = True
    turn: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    radius: float = 0.0


@dataclass(frozen=True)
class Scene:
    """Meshes, the bodies that have them, and what is measured.

    pairs   (moving, other) by number: bodies that touch.
    words   the end in words, from poses (n, 4, 4) and turns of the last body around z.
    ground  height of a plane; None: there is none.
    pieces  corners (n, 3) of convex pieces by mesh, for simulators whose moving bodies are convex.
    solids  tetrahedra by mesh, for simulators that need them.
    """

    meshes: dict[str, trimesh.Trimesh]
    bodies: Sequence[Body]
    pairs: Sequence[tuple[int, int]]
    words: Callable[[Floats, float], str]
    friction: float = 0.5
    ground: float | None = None
    pieces: dict[str, list[Floats]] = field(default_factory=dict)
    solids: dict[str, Tetrahedra] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A scene after a second.

    cook         seconds until fields, or what a simulator has in their place, are loaded.
    size         bytes of fields; None: unknown.
    penetration  depth of the deepest vertex of a moving mesh, or of a ball, in the mesh that it touches; negative:
                 the smallest gap.
    energy       largest increase of the total energy over its first value, in joules.
    rate         steps per second.
    poses        (n, 4, 4), at the end.
    turns        of the last body around z.
    words        the end in words.
    """

    cook: float
    size: int | None
    penetration: float
    energy: float
    rate: float
    poses: Floats
    turns: float
    words: str


def scenes() -> dict[str, Scene]:
    """All scenes, by name."""
    bore = 0.005 + CLEARANCE
    plate = revolved(np.array([[bore, -0.01], [0.1, -0.01], [0.1, 0.01], [bore, 0.01]]))
    peg = revolved(rod(0.005, 0.03, SLABS))
    depth = 0.0006
    bolt = revolved(threaded(0.008, 0.05, PITCH / 12), depth, PITCH)
    profile = nut_profile(0.0081, 0.014, 0.01, PITCH / 12)
    nut = revolved(profile, depth, PITCH)
    bunny = trimesh.load(ROOT / "sample_meshes" / "bunny.ply", process=False)
    crown = bunny.vertices[bunny.vertices[:, 2].argmax()]
    x, y, z = (crown + np.array([0.002, 0.001, 0.011])).tolist()
    box, floor = trimesh.creation.box((0.04, 0.03, 0.02)), trimesh.creation.box((0.2, 0.2, 0.02))
    ring = circle(LINK, WIRE, CORNERS)
    link = revolved(ring)
    turns = (0.5, 0.5, 0.5, 0.5), (0.5**0.5, 0.5**0.5, 0.0, 0.0)
    chain = [Body("link", (0.0, 0.0, k * (0.0002 - HANG)), free=k > 0, turn=turns[k % 2]) for k in range(4)]
    return {
        "peg in hole": Scene(
            {"plate": plate, "peg": peg},
            [Body("plate", (0, 0, 0), free=False), Body("peg", (0, 0, 0.0251))],
            [(1, 0)],
            lambda poses, _: "in" if np.abs(poses[1, :3, 3]).max() < 0.005 else "not in",
            ground=-0.015,
            pieces={"peg": slabs(peg, SLABS)},
        ),
        "nut on bolt": Scene(
            {"bolt": bolt, "nut": nut},
            [Body("bolt", (0, 0, 0), free=False), Body("nut", (0, 0, 0))],
            [(1, 0)],
            lambda poses, turns: f"down {-1e3 * poses[1, 2, 3]:.2f} mm in {abs(turns):.2f} turns",
            friction=0.01,
            pieces={"nut": sectors(nut, AROUND)},
            solids={"nut": solid_nut(profile, 0.011, depth, PITCH)},
        ),
        "ball on bunny": Scene(
            {"bunny": bunny},
            [Body("bunny", (0, 0, 0), free=False), Body(None, (x, y, z), radius=0.01)],
            [(1, 0)],
            lambda poses, _: f"{1e3 * np.linalg.norm(poses[1, :3, 3] - crown):.0f} mm away",
        ),
        "box at rest": Scene(
            {"floor": floor, "box": box},
            [Body("floor", (0, 0, -0.01), free=False), Body("box", (0, 0, 0.0101))],
            [(1, 0)],
            lambda poses, _: f"at {1e3 * poses[1, 2, 3]:.2f} mm",
        ),
        "chain of links": Scene(
            {"link": link},
            chain,
            [(1, 0), (2, 1), (3, 2)],
            lambda poses, _: f"end at {1e3 * poses[3, 2, 3]:.1f} mm",
            pieces={"link": sectors(link, AROUND)},
            solids={"link": solid_ring(ring, LINK)},
        ),
    }


def part_of(scene: Scene, name: str) -> Part:
    """A mesh of a scene as `cook` has it."""
    mesh = scene.meshes[name]
    return Part(name, np.array(mesh.vertices), np.array(mesh.faces, np.int64), name, name)


def cooked(name: str, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Builds a part's field and has a target, by name, write it."""
    target = target_of(name)
    made = sdfcli.build((part.vertices, part.faces), **target.parameters(config, part))
    return target.write(made, part, config, folder)


def inertia(scene: Scene, body: Body) -> tuple[float, Floats]:
    """A body's mass, and its inertia (3, 3) about its origin."""
    if body.mesh is None:
        mass = DENSITY * 4 / 3 * np.pi * body.radius**3
        return mass, 0.4 * mass * body.radius**2 * np.eye(3)
    mesh = scene.meshes[body.mesh]
    return DENSITY * float(mesh.volume), DENSITY * np.asarray(mesh.moment_inertia)


def watched(scene: Scene, cook: float, size: int | None, step: Callable[[], object], state: State) -> Result:
    """Steps a scene that is loaded, and measures it. cook, size: the result's."""
    exact = {name: sdfcli.MeshDistance((mesh.vertices, mesh.faces)) for name, mesh in scene.meshes.items()}
    masses = [inertia(scene, body) if body.free else (0.0, np.zeros((3, 3))) for body in scene.bodies]
    poses, velocities = state()
    first = _energy(masses, poses, velocities)
    most = seconds = turns = 0.0
    deepest = -np.inf
    for _ in range(STEPS // SEEN):
        begun, before = time.perf_counter(), poses
        for _ in range(SEEN):
            step()
        seconds += time.perf_counter() - begun
        poses, velocities = state()
        most = max(most, _energy(masses, poses, velocities) - first)
        moved = poses[-1, :3, :3] @ before[-1, :3, :3].T
        turns += float(np.arctan2(moved[1, 0], moved[0, 0])) / (2 * np.pi)
        for moving, other in scene.pairs:
            deepest = max(deepest, _depth(scene, exact, poses, moving, other))
    return Result(cook, size, deepest, most, STEPS / seconds, poses, turns, scene.words(poses, turns))


def _energy(masses: Sequence[tuple[float, Floats]], poses: Floats, velocities: Floats) -> float:
    """Potential and kinetic energy, in joules."""
    total = 0.0
    for (mass, moments), pose, velocity in zip(masses, poses, velocities, strict=True):
        spin = pose[:3, :3].T @ velocity[3:]
        total += mass * (GRAVITY * pose[2, 3] + velocity[:3] @ velocity[:3] / 2) + spin @ moments @ spin / 2
    return float(total)


def _depth(scene: Scene, exact: dict[str, sdfcli.MeshDistance], poses: Floats, moving: int, other: int) -> float:
    """Depth of a body's deepest point in another one's mesh; negative: their distance, from the vertices."""
    body, mesh = scene.bodies[moving], scene.bodies[other].mesh
    assert mesh is not None
    points = np.zeros((1, 3)) if body.mesh is None else np.asarray(scene.meshes[body.mesh].vertices)
    there = points @ poses[moving, :3, :3].T + poses[moving, :3, 3]
    local = (there - poses[other, :3, 3]) @ poses[other, :3, :3]
    return body.radius - float(exact[mesh].signed_distance(local).min())
