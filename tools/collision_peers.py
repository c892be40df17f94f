"""Minimum distances of a mesh at poses, compared with collision libraries: same poses, one process, interleaved runs.

    python tools/collision_peers.py MOVING FIXED [--poses N] [--repeat N] [--tolerance T] [--check] [--points N]

Uses coal and python-fcl where installed. FIXED becomes a field in sdfcli and a bounding box tree in the libraries.
MOVING is placed at random poses: `anywhere`, with its centre up to one diagonal of FIXED from FIXED's centre, and
`touching`, moved from there to within a hundredth of the diagonal of first contact. Each library has one thread; sdfcli
has a second row with all CPUs. Output: poses per second (medians of interleaved runs) and the ratio to coal's distance.
Below: pose count by verdict, how many of these cross by exact triangle tests, and how many of the libraries' distances
lie within the bounds; contradicting poses count as wrong.

--check also compares minimum distances with exact ones of points on MOVING's surface and all its vertices. The exit
status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sdfcli
from sdfcli.field.field import Field
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.quality.accuracy import on_surface
from sdfcli.query.contacts import VERDICTS, Contacts, contacts
from sdfcli.query.sphere_tree import SphereTree

NEAR = 0.01
"""Maximum displacement of `touching` poses from first contact, in diagonals of the fixed mesh."""

BISECTIONS = 12

CELLS, ROUNDING = 64, 1e-6
"""Cells per edge, and maximum rounding of distances in diagonals, for the points of --check."""

Query = Callable[[Any], Any]
"""Poses (t, 4, 4) to distances (t,), or for a crossing test to whether triangles cross (t,)."""


def of_coal(moving: Mesh, fixed: Mesh) -> Iterator[tuple[str, Query]]:
    """Coal, the successor of hpp-fcl: trees of oriented boxes and rectangle swept spheres."""
    coal = importlib.import_module("coal")

    def model(mesh: Mesh) -> Any:
        made = coal.BVHModelOBBRSS()
        made.beginModel(len(mesh.faces), len(mesh.vertices))
        made.addVertices(mesh.vertices)
        made.addTriangles(mesh.faces)
        made.endModel()
        return made

    one, two, still = model(moving), model(fixed), coal.Transform3s()
    exactly = coal.DistanceRequest(False, 0.0, 0.0)  # no nearest points, at no cost

    def distance(poses: Any) -> Any:
        found = np.empty(len(poses))
        for i, pose in enumerate(poses):
            place = coal.Transform3s(pose[:3, :3], pose[:3, 3])
            found[i] = coal.distance(one, place, two, still, exactly, coal.DistanceResult())
        return found

    def crosses(poses: Any) -> Any:
        found = np.empty(len(poses), bool)
        for i, pose in enumerate(poses):
            place = coal.Transform3s(pose[:3, :3], pose[:3, 3])
            found[i] = coal.collide(one, place, two, still, coal.CollisionRequest(), coal.CollisionResult()) > 0
        return found

    yield "coal distance", distance
    yield "coal crossing", crosses


def of_fcl(moving: Mesh, fixed: Mesh) -> Iterator[tuple[str, Query]]:
    """FCL: trees of oriented boxes and rectangle swept spheres."""
    fcl = importlib.import_module("fcl")

    def model(mesh: Mesh) -> Any:
        made = fcl.BVHModel()
        made.beginModel(len(mesh.vertices), len(mesh.faces))
        made.addSubModel(mesh.vertices, mesh.faces)
        made.endModel()
        return fcl.CollisionObject(made)

    one, two = model(moving), model(fixed)

    def distance(poses: Any) -> Any:
        found = np.empty(len(poses))
        for i, pose in enumerate(poses):
            one.setTransform(fcl.Transform(pose[:3, :3], pose[:3, 3]))
            found[i] = fcl.distance(one, two, fcl.DistanceRequest(), fcl.DistanceResult())
        return found

    def crosses(poses: Any) -> Any:
        found = np.empty(len(poses), bool)
        for i, pose in enumerate(poses):
            one.setTransform(fcl.Transform(pose[:3, :3], pose[:3, 3]))
            found[i] = fcl.collide(one, two, fcl.CollisionRequest(), fcl.CollisionResult()) > 0
        return found

    yield "fcl distance", distance
    yield "fcl crossing", crosses


LIBRARIES = {"coal": of_coal, "fcl": of_fcl}


def random_poses(moving: Mesh, fixed: Mesh, count: int) -> Any:
    """Poses (count, 4, 4): random rotations, the centre of `moving` up to one diagonal from the centre of `fixed`."""
    rng = np.random.default_rng(12345)
    poses = np.tile(np.eye(4), (count, 1, 1))
    turned, upper = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    turned *= np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None]
    turned[:, 0] *= np.linalg.det(turned)[:, None]
    way = rng.normal(size=(count, 3))
    way *= fixed.diagonal * rng.random((count, 1)) / np.linalg.norm(way, axis=1)[:, None]
    poses[:, :3, :3] = turned
    poses[:, :3, 3] = fixed.bounds.mean(axis=0) + way - turned @ moving.bounds.mean(axis=0)
    return poses


def touching_poses(field: Field, tree: SphereTree, fixed: Mesh, poses: Any) -> Any:
    """Moves poses along the line between both centres to about first contact, by bisection between a separation of two
    diagonals and none."""
    middle = poses[:, :3, :3] @ tree.mesh.bounds.mean(axis=0) + poses[:, :3, 3]
    way = middle - fixed.bounds.mean(axis=0)
    way /= np.linalg.norm(way, axis=1)[:, None]
    moved, low, high = poses.copy(), np.zeros(len(poses)), np.full(len(poses), 2 * fixed.diagonal)

    def put(at: Any) -> Any:
        moved[:, :3, 3] = poses[:, :3, 3] + fixed.bounds.mean(axis=0) - middle + at[:, None] * way
        return moved

    for _ in range(BISECTIONS):
        half = (low + high) / 2
        apart = contacts(field, tree, put(half)).distance > 0
        low, high = np.where(apart, low, half), np.where(apart, half, high)
    return put(high + fixed.diagonal * np.random.default_rng(54321).uniform(-NEAR, NEAR, len(poses)))


def seconds(queries: dict[str, Query], poses: Any, repeat: int) -> dict[str, float]:
    """Median time of each query."""
    times: dict[str, list[float]] = {name: [] for name in queries}
    for turn in range(repeat + 1):
        for name, ask in queries.items():
            start = time.perf_counter()
            ask(poses)
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def judged(found: Contacts, answers: dict[str, Any], hidden: Any) -> int:
    """Prints the libraries' answers by verdict and returns the number of contradicting poses.

    answers: by query, (t,). hidden: whether the first vertex lies inside (t,); for a connected mesh without crossings,
    then every vertex does.
    """
    wrong = np.zeros(len(found), bool)
    crossing = np.any([answer for answer in answers.values() if answer.dtype == bool], axis=0)
    distances = {name: answer for name, answer in answers.items() if answer.dtype != bool}
    crossings = {name: answer for name, answer in answers.items() if answer.dtype == bool}
    for number, verdict in enumerate(VERDICTS):
        of = found.verdict == number
        facts = [f"{verdict:12} {of.sum():6}"]
        for name, crosses in crossings.items():
            facts.append(f"{name} {(of & crosses).sum()}")
            if verdict == "clear":
                wrong |= of & (crosses | hidden)
            elif verdict == "penetrating":
                wrong |= of & ~crosses & ~hidden
        if verdict == "clear":
            for name, distance in distances.items():
                inside = (found.low <= distance) & (distance <= found.high)
                facts.append(f"{name} in bounds {(of & inside).sum()}")
                wrong |= of & ~inside
        facts.append(f"wholly inside {(of & hidden & ~crossing).sum()}")
        print("  " + ", ".join(facts))
    return int(wrong.sum())


class Cloud:
    """Points on a mesh's surface and its vertices, sorted by lattice cell."""

    def __init__(self, mesh: Mesh, count: int) -> None:
        points = np.concatenate((on_surface(mesh, count, np.random.default_rng(1)), mesh.vertices))
        cell = (mesh.domain.to_unit(points) * CELLS).astype(np.int64) @ (1, CELLS, CELLS**2)
        self.points = points[np.argsort(cell, kind="stable")]
        _, self.first, self.count = np.unique(np.sort(cell), return_index=True, return_counts=True)
        self.centre = np.add.reduceat(self.points, self.first) / self.count[:, None]
        away = np.linalg.norm(self.points - np.repeat(self.centre, self.count, axis=0), axis=1)
        self.radius = np.maximum.reduceat(away, self.first)

    def least(self, index: sdfcli.MeshDistance, pose: Any) -> float:
        """Minimum signed distance of all points at a pose. Cells whose centre distance proves that another cell is
        nearer are skipped."""

        def distance(points: Any) -> Any:
            return index.signed_distance(points @ pose[:3, :3].T + pose[:3, 3])

        of_centre = distance(self.centre)
        most = (of_centre + self.radius).min() + ROUNDING * index.mesh.diagonal
        asked = np.repeat(of_centre - self.radius <= most, self.count)
        return float(distance(self.points[asked]).min())


def checked(index: sdfcli.MeshDistance, moving: Mesh, poses: Any, found: Contacts, count: int) -> int:
    """Prints where the minimum distances of surface points and vertices lie relative to the bounds; returns how many
    lie below. index: of the fixed mesh."""
    cloud = Cloud(moving, count)
    points, least = cloud.points, np.array([cloud.least(index, pose) for pose in poses])
    width, above = found.high - found.low, np.maximum(least - found.high, 0)
    print(
        f"  least of {len(points)} points: below the bounds {(least < found.low).sum()}, above {(above > 0).sum()} "
        f"(by up to {above.max():.2g}), widths of the bounds {np.median(width):.2g} (median) to {width.max():.2g}"
    )
    return int((least < found.low).sum())


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moving", metavar="MOVING")
    parser.add_argument("fixed", metavar="FIXED")
    parser.add_argument("--poses", type=int, default=1000, help="in each set")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of the field")
    parser.add_argument("--check", action="store_true", help="compare with exact distances of points")
    parser.add_argument("--points", type=int, default=1_000_000, help="for --check, on the surface")
    options = parser.parse_args()
    moving, fixed = load_mesh(options.moving), load_mesh(options.fixed)
    made: dict[str, float] = {}

    def timed(name: str, make: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = make()
        made[name] = time.perf_counter() - start
        return result

    field = timed("field", lambda: sdfcli.build(options.fixed, device="cpu", tolerance=options.tolerance))
    one = timed("tree of spheres", lambda: SphereTree(moving, "cpu", 1))
    tree = SphereTree(moving, "cpu")
    queries: dict[str, Query] = {
        "sdfcli": lambda poses: contacts(field, one, poses).distance,
        "sdfcli, all CPUs": lambda poses: contacts(field, tree, poses).distance,
    }
    for name, library in LIBRARIES.items():
        if importlib.util.find_spec(name):
            queries.update(timed(f"trees of {name}", lambda library=library: dict(library(moving, fixed))))
    print(f"{options.moving}: {len(moving.faces)} triangles; {options.fixed}: {len(fixed.faces)}")
    print("made once, seconds: " + ", ".join(f"{name} {took:.2f}" for name, took in made.items()))

    index, wrong = sdfcli.MeshDistance(fixed, sign="winding", device="cpu"), 0
    poses = random_poses(moving, fixed, options.poses)
    sets = {"anywhere": poses, "touching": touching_poses(field, tree, fixed, poses)}
    for kind, at in sets.items():
        took = seconds(queries, at, options.repeat)
        for name, spent in took.items():
            ratio = f"{took['coal distance'] / spent:7.2f}x" if "coal distance" in took else ""
            print(f"{kind:9} {name:18} {len(at) / spent:9.1f} poses/s {ratio}")
        found = contacts(field, tree, at)
        hidden = index.signed_distance(at[:, :3, :3] @ moving.vertices[0] + at[:, :3, 3]) < 0
        wrong += judged(found, {name: ask(at) for name, ask in queries.items() if "sdfcli" not in name}, hidden)
        if options.check:
            wrong += checked(index, moving, at, found, options.points)
    print(f"wrong: {wrong}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
