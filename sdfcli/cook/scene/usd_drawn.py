"""Vertices of meshes that are drawn, as Newton's importer splits them: the keys of its fields are hashes of these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.polygons import Polygons, triangulated

ANGLE = math.cos(math.radians(25))
"""Cosine from which normals at a vertex share it."""
FLAT = ("none", "bilinear")
"""Subdivision schemes whose meshes, without normals, have facets."""


def is_faceted(mesh: Any, time: Any) -> bool:
    """Whether a `UsdGeom.Mesh` is drawn in facets: each triangle has vertices of its own."""
    return _normals(mesh, time)[0] is None and mesh.GetSubdivisionSchemeAttr().Get(time) in FLAT


def split(mesh: Any, points: Floats, time: Any) -> tuple[Floats, Ints] | None:
    """Vertices and triangles of a mesh with normals per corner or face; None for another, or for damaged normals.

    In the order of corners, each joins the first vertex at its point whose mean normal is within 25 degrees, or else is
    a new one."""
    normals, kind = _normals(mesh, time)
    if normals is None or kind not in ("uniform", "faceVarying"):
        return None
    counts, corners = mesh.GetFaceVertexCountsAttr().Get(time), mesh.GetFaceVertexIndicesAttr().Get(time)
    count, corner = (np.asarray(each or [], np.int64) for each in (counts, corners))
    if kind == "uniform" and len(normals) == len(count):
        normals = np.repeat(normals, count, axis=0)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    if len(normals) != len(corner) or not (np.isfinite(length).all() and length.all()):
        return None
    units = normals / length
    shared: dict[int, list[list[float]]] = {}
    origin: list[int] = []
    vertex = np.empty(len(corner), np.int64)
    for number, (at, (x, y, z)) in enumerate(zip(corner.tolist(), units.tolist(), strict=True)):
        known = shared.setdefault(at, [])
        for one in known:
            if one[0] * x + one[1] * y + one[2] * z >= ANGLE * math.hypot(*one[:3]):
                one[0], one[1], one[2] = one[0] + x, one[1] + y, one[2] + z
                vertex[number] = one[3]
                break
        else:
            known.append([x, y, z, len(origin)])
            vertex[number] = len(origin)
            origin.append(at)
    vertices = points[origin]
    faces = triangulated(vertices, Polygons(vertex, count))
    return vertices, faces[:, ::-1] if mesh.GetOrientationAttr().Get(time) == "leftHanded" else faces


def _normals(mesh: Any, time: Any) -> tuple[Floats | None, str]:
    """Normals (n, 3) and their interpolation. The primvar comes first."""
    from pxr import UsdGeom

    primvar = UsdGeom.PrimvarsAPI(mesh.GetPrim()).GetPrimvar("normals")
    found = primvar.ComputeFlattened(time) if primvar else None
    if found is not None:
        return np.asarray(found, np.float64).reshape(-1, 3), str(primvar.GetInterpolation())
    found = mesh.GetNormalsAttr().Get(time)
    return None if found is None else np.asarray(found, np.float64).reshape(-1, 3), str(mesh.GetNormalsInterpolation())
