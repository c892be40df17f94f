"""Looks for points at which a proven field's error exceeds its bound.

    python tools/attack_proofs.py [MESH...] [--points N] [--device D] [--tolerance T] [--seed S]

Without meshes: crossing boxes, nested shells and needles, of ordinary size, at 1e-29 and at 3e29. N points per mesh, in
random leaves; every fourth million at their corners, edges' midpoints and centres, where interpolation is exact. Errors
are measured by MeshDistance, whose rounding is a ten-millionth of the mesh's extent; where that may decide, again in
float64. A line per mesh: leaves, the largest proven error in tolerances, the largest error of a point as a share of its
bound, the points that were decided in float64, and those above their bounds. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import sdfcli
from sdfcli.backend import Backend, select_backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.load import load_mesh
from sdfcli.quality.as_given import GivenMesh

CHUNK = 1 << 20
"""Points at a time."""
ROUNDING = 1e-6
"""Exceeds the errors of MeshDistance, in diagonals."""

Arrays = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

BOX = np.array([[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]])
"""Quadrangles (6, 4) of a box whose corners are numbered x fastest, seen from outside counter-clockwise."""


def boxes(low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], turned: npt.NDArray[np.bool_]) -> Arrays:
    """Boxes with lower and upper corners (k, 3); those `turned` (k,) have faces that point inwards."""
    corner = np.arange(8)[:, None] >> np.arange(3) & 1
    vertices = np.where(corner, high[:, None], low[:, None]).reshape(-1, 3)
    faces = np.concatenate((BOX[:, [0, 1, 2]], BOX[:, [0, 2, 3]]))
    each = np.where(turned[:, None, None], faces[:, ::-1], faces) + 8 * np.arange(len(low))[:, None, None]
    return vertices, each.reshape(-1, 3)


def shapes(rng: np.random.Generator) -> Iterator[tuple[str, Arrays]]:
    """Hostile meshes, all closed."""
    low = rng.random((6, 3))
    crossing = boxes(low, low + rng.random((6, 3)), np.zeros(6, bool))
    yield "crossing boxes", crossing
    half = np.array([1.0, 0.999, 0.5, 0.4995])[:, None] * np.ones(3)
    yield "nested shells", boxes(-half, half, np.array([False, True, False, True]))
    base, along = rng.random((300, 3)), 0.3 * rng.standard_normal((300, 3))
    across = 1e-5 * rng.standard_normal((300, 3))
    corners = np.stack([base, base + along, base + along + across, base + across], axis=1)
    faces = np.array([[0, 1, 2], [0, 3, 1], [1, 3, 2], [0, 2, 3]])
    yield "needles", (corners.reshape(-1, 3), (faces + 4 * np.arange(300)[:, None, None]).reshape(-1, 3))
    yield "boxes at 1e-29", (1e-29 * crossing[0], crossing[1])
    yield "boxes at 3e29", (3e29 * crossing[0], crossing[1])


def attack(mesh: Any, field: Field, points: int, backend: Backend, seed: int) -> tuple[float, int, int]:
    """The largest share of its bound that a point's error has, the points decided in float64, and those above."""
    xp: Any = backend.xp
    xp.random.seed(seed)
    distance = sdfcli.MeshDistance(mesh, device=backend.name)
    exact = GivenMesh(load_mesh(mesh, backend, 1.0, None), field.info["sign"] != "none", backend)
    low, size = lattice_position(field.leaf_key), 0.5 ** field.leaf_level.astype(np.float64)
    corner, edge = xp.asarray(low * field.domain.length + field.domain.origin), xp.asarray(size * field.domain.length)
    share, decided, above = 0.0, 0, 0
    for k, first in enumerate(range(0, points, CHUNK)):
        count = min(CHUNK, points - first)
        leaf, weight = xp.random.randint(0, len(size), count), xp.random.random_sample((count, 3))
        if k % 4 == 3:
            weight = xp.round(2.0 * weight) / 2.0
        at = corner[leaf] + weight * edge[leaf][:, None]
        value, bound = field.sample(at), field.bound(at)
        error = xp.abs(value - distance.signed_distance(at))
        close = xp.flatnonzero(error > bound - ROUNDING * field.unit)
        if len(close):
            at, value, limit = (backend.to_host(each[close]) for each in (at, value, bound))
            there = np.abs(value - exact.signed_distance(at))
            above += int((there > limit).sum())
            error[close] = backend.from_host(there)
        decided += len(close)
        share = max(share, float((error / bound).max()))
    return share, decided, above


def main() -> int:
    """The command."""
    usage, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=usage, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("meshes", nargs="*", type=Path)
    parser.add_argument("--points", type=float, default=1e6)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    backend = select_backend(words.device)
    of_files = ((path.name, path) for path in words.meshes)
    wrong = 0
    for name, mesh in of_files if words.meshes else shapes(np.random.default_rng(words.seed)):
        began = time.perf_counter()
        field = sdfcli.build(mesh, tolerance=words.tolerance, prove=True, device=words.device)
        share, decided, above = attack(mesh, field, int(words.points), backend, words.seed)
        proven = field.info["proven_error"] / words.tolerance
        print(
            f"{name}: {field.leaves:,} leaves, proven {proven:.4f} tolerances; {int(words.points):,} points: largest "
            f"share of a bound {share:.6f}, {decided:,} decided in float64, {above:,} above "
            f"({time.perf_counter() - began:.1f} s)",
            flush=True,
        )
        wrong += above
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
