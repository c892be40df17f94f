"""Mesh tests that need a tree: crossing faces, nested shells, surfaces that enclose nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdfcli.backend import Backend
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.mesh import Mesh, face_normals
from sdfcli.spatial.moments import BETA, WindingIndex
from sdfcli.spatial.radix_tree import Bvh

SIDES_SAMPLES = 2000
FARTHEST_OFFSET, NEAREST_OFFSET = 1e-3, 1e-5
"""Maximum and minimum offset from a face, in the unit cube, at which the winding numbers on its sides are sampled:
smaller for small faces, larger than rounding."""


def crossing_faces(backend: Backend, bvh: Bvh, tree: Callable[[], Bvh] | None = None) -> Callable[[], int]:
    """Starts searching for triangles that cross or overlap another by more than rounding; the device may take
    milliseconds. Returns a function that waits for their count.

    tree: the same tree, needed again if boxes meet too many others; None: `bvh`, which is then retained.
    """
    crowded, found = _look_for_crossing(backend, bvh, every=False)
    again = tree or (lambda: bvh)

    def number() -> int:
        if crowded()[0]:
            return int(_look_for_crossing(backend, again(), every=True)[1]()[0])
        return int(found()[0])

    return number


def _look_for_crossing(backend: Backend, bvh: Bvh, every: bool) -> tuple[Callable[[], Ints], Callable[[], Ints]]:
    """Two functions: one waits for whether boxes meet too many others, one for the count of triangles that cross
    another. every: whether each triangle is tested against all others, not only later ones."""
    xp, order = backend.xp, bvh.order
    crosses, crowded = xp.zeros(len(order), np.uint8), xp.zeros(1, np.uint8)
    meets = None if every else xp.zeros(len(order), np.uint32)
    shared = {"triangle": order.triangle, "child": bvh.child, "box": bvh.box, "crowded": crowded, "crosses": crosses}
    backend.run("sdf_crossing", len(order), all=int(every), meets=meets, **shared)
    count = xp.zeros(1, np.uint32)  # by a kernel: CuPy's sum takes seconds to compile
    backend.run("sdf_crossing_count", len(order), crosses=crosses, count=count)
    return backend.copy_async(crowded), backend.copy_async(count)


def sides(index: WindingIndex, mesh: Mesh, faces: Ints) -> tuple[Floats, Floats, Floats]:
    """Winding numbers (k,) just behind and in front of the centroids of faces (k,); and twice the face areas."""
    triangles = mesh.triangles(faces)
    normals = face_normals(triangles)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    centre = (triangles[:, 0:3] + triangles[:, 3:6] + triangles[:, 6:9]) / 3.0
    offset = np.clip(0.05 * np.sqrt(length), NEAREST_OFFSET, FARTHEST_OFFSET)
    step = offset * normals / np.where(length > 0, length, 1.0)
    both = index.backend.from_host(np.concatenate((centre - step, centre + step)), np.float32)
    behind, before = np.split(index.backend.to_host(index.winding(both, BETA)), 2)
    return behind, before, length[:, 0]


def enclosing_share(index: WindingIndex, mesh: Mesh, left_out: Ints | None) -> float:
    """Share of the surface with clearly different winding numbers on its two sides: above 0.7 just behind a face, and
    below 0.3 just in front. About 1 for a solid with holes, about 0 for a sheet.

    left_out: (k,) excluded faces; None: all are included.
    """
    faces = np.arange(len(mesh.faces))
    if left_out is not None:
        faces = np.delete(faces, left_out)
    faces = faces[:: max(1, len(faces) // SIDES_SAMPLES)]
    behind, before, area = sides(index, mesh, faces)
    total = area.sum()
    return float(area[(behind > 0.7) & (before < 0.3)].sum() / total) if total > 0 else 0.0


def nested_shells(backend: Backend, bvh: Bvh, mesh: Mesh) -> int:
    """Counts the shells inside another solid, in a closed surface without crossings: winding numbers on their sides are
    2 and 1 instead of 1 and 0."""
    if mesh.health.shells == 1:
        return 0
    shell, largest, areas = backend.to_host(mesh.shell), np.zeros(mesh.health.shells), mesh.areas()
    np.maximum.at(largest, shell, areas)
    faces = np.flatnonzero(areas == largest[shell])  # only the first in each shell is tested
    faces = faces[np.unique(shell[faces], return_index=True)[1]]
    del shell, largest, areas
    behind, before, _ = sides(WindingIndex.of(backend, bvh), mesh, faces)
    return int(np.sum((np.rint(behind) != 1) | (np.rint(before) != 0)))
