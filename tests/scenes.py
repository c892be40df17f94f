"""Small meshes for tests of scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.cook.scene import read_scene
from sdfcli.errors import InputError

CORNERS = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.25, 0.5, 3.0]]
"""A tetrahedron without symmetries."""
FACES = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]


def write_obj(path: Path, corners: npt.ArrayLike = CORNERS, faces: npt.ArrayLike = FACES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.asarray(corners, float).tolist()]
    lines += [f"f {a} {b} {c}" for a, b, c in (np.asarray(faces) + 1).tolist()]
    path.write_text("\n".join(lines) + "\n")
    return path


def is_told_in_a_line(path: Path) -> bool:
    """Whether a scene can be read, or raises an InputError of one line."""
    try:
        read_scene(path)
    except InputError as error:
        return "\n" not in str(error)
    return True


def volume(vertices: npt.ArrayLike, faces: npt.ArrayLike) -> float:
    """Signed volume: above 0 with outward normals."""
    a, b, c = np.asarray(vertices)[np.asarray(faces)].transpose(1, 0, 2)
    return float((a * np.cross(b, c)).sum() / 6)


def posed(points: npt.NDArray[np.float64], place: npt.ArrayLike, angles: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Points (n, 3) turned by roll, pitch and yaw about fixed axes, then moved."""
    (a, b, c), (d, e, f) = np.cos(angles), np.sin(angles)
    x = np.array([[1, 0, 0], [0, a, -d], [0, d, a]])
    y = np.array([[b, 0, e], [0, 1, 0], [-e, 0, b]])
    z = np.array([[c, -f, 0], [f, c, 0], [0, 0, 1]])
    return points @ (z @ y @ x).T + place
