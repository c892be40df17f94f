"""Holes: the loops of an open surface's border, closed by faces."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdfcli.mesh.arrays import Bools, Ints
from sdfcli.mesh.fill import filled, pair_keys
from sdfcli.mesh.mesh import Mesh, bounds_of, diagonal_of, face_normals
from sdfcli.mesh.repair import repair
from sdfcli.mesh.vectors import length
from sdfcli.params import CAP


@dataclass(frozen=True)
class Holes:
    """The holes that were closed. Lengths are in the mesh's units.

    count   number of holes.
    faces   number of faces that close them.
    widest  diagonal of the largest hole's bounding box.
    area    area of these faces.
    """

    count: int = 0
    faces: int = 0
    widest: float = 0.0
    area: float = 0.0


def capped(mesh: Mesh) -> tuple[Mesh, Holes]:
    """The mesh with faces that close its holes, after its own; the mesh itself if it has none.

    A hole is a closed loop of open edges, once faces agree with their neighbours. Its faces have the loop's vertices,
    the least area (see fill.py), and the orientation of the faces around it.
    """
    ends, excess = repair(mesh).edges.open_edges
    if not len(ends):
        return mesh, Holes()
    runs = np.repeat(np.where((excess > 0)[:, None], ends[:, ::-1], ends), np.abs(excess), axis=0)
    loops = loops_of(runs)
    around = _half_edges(mesh, ends)
    triangles = filled(loops, mesh.vertices, pair_keys(around[:, 0], around[:, 1], len(mesh.vertices)))
    turn = _turned(loops, around, len(mesh.vertices))
    triangles = [each[:, ::-1] if back else each for each, back in zip(triangles, turn, strict=True)]
    faces = np.concatenate(triangles).astype(np.uint32)
    made = mesh.with_faces(np.concatenate((mesh.faces, faces)))
    widest = max(diagonal_of(bounds_of(mesh.vertices[loop])) for loop in loops)
    area = math.fsum(length(face_normals(mesh.vertices[faces].reshape(-1, 9)))) / 2
    return made, Holes(len(loops), len(faces), widest, area)


def treated(mesh: Mesh, holes: str) -> Mesh:
    """The mesh to which distances are measured. holes: one of params.HOLES."""
    return capped(mesh)[0] if holes == CAP else mesh


def loops_of(runs: Ints) -> list[Ints]:
    """Loops (n,) of distinct vertices, in the direction of edges (e, 2), of which as many start at each vertex as end
    there. A loop ends where it meets itself."""
    runs = runs[np.lexsort((runs[:, 1], runs[:, 0]))]
    starts, first = np.unique(runs[:, 0], return_index=True)
    following = {
        start: part[::-1].tolist() for start, part in zip(starts.tolist(), np.split(runs[:, 1], first[1:]), strict=True)
    }
    loops = []
    for start in starts.tolist():
        path, place = [start], {start: 0}
        while following[path[-1]]:
            at = following[path[-1]].pop()
            if at in place:
                loop = path[place[at] :]
                loops.append(np.array(loop))
                del path[place[at] + 1 :]
                for each in loop[1:]:
                    del place[each]
            else:
                place[at] = len(path)
                path.append(at)
    return loops


def _half_edges(mesh: Mesh, ends: Ints) -> Ints:
    """The half-edges (h, 2) of the mesh's faces between welded vertices of open edges (e, 2)."""
    position = np.asarray(mesh.backend.to_host(mesh.position)).astype(np.int64)
    at_rim = np.zeros(len(position), bool)
    at_rim[ends] = True
    welded = position[mesh.faces[at_rim[position[mesh.faces]].sum(axis=1) > 1]]
    pairs = np.stack((welded, np.roll(welded, -1, axis=1)), axis=2).reshape(-1, 2)
    return np.asarray(pairs[at_rim[pairs].all(axis=1)])


def _turned(loops: list[Ints], around: Ints, vertices: int) -> Bools:
    """Loops (l,) whose direction is that of most of the faces along them, as given: `repair` turned these. around:
    half-edges (h, 2)."""
    start, end = np.concatenate(loops), np.concatenate([np.roll(loop, -1) for loop in loops])
    known = around @ [vertices, 1]
    same, opposite = (np.isin(a * vertices + b, known).astype(np.int64) for a, b in ((start, end), (end, start)))
    owner = np.repeat(np.arange(len(loops)), [len(loop) for loop in loops])
    return np.asarray(np.bincount(owner, weights=same - opposite) > 0)
