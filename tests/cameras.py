"""Cameras in the unit cube, and ray results per pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.field.field import Field
from sdfcli.pictures.posed import PosedMesh, company_of
from sdfcli.pictures.render import Camera, trace

Floats = npt.NDArray[np.float64]


@dataclass
class Traced:
    """Results per pixel of one ray: colours, depths in domain edges, normals."""

    pixel: Any
    depth: Floats
    normal: Floats


def look(
    backend: Backend,
    field: Field,
    iso: float,
    camera: Camera,
    size: int,
    reach: float = 0.1,
    mesh: Any = None,
    contacts: Any = None,
) -> Traced:
    """A square picture with one ray per pixel."""
    xp = backend.xp
    company = company_of(backend, field.domain, mesh and PosedMesh(mesh), contacts, camera.frame[0])
    pixel, depth = xp.zeros((size, size, 3), np.uint8), xp.empty((size, size), np.float64)
    normal = xp.empty((size, size, 3), np.float64)
    trace(backend, field, iso, camera, reach, pixel, company, depth=depth, normal=normal)
    return Traced(*(backend.to_host(a) for a in (pixel, depth, normal)))


def rays(camera: Camera, size: int) -> tuple[Floats, Floats]:
    """The eye, and unit directions (size, size, 3), row by row from the top."""
    x = (np.arange(size) + 0.5 - size / 2) * camera.pixel_size
    eye, right, up, forward = camera.frame
    way = forward + x[None, :, None] * right - x[:, None, None] * up
    return eye, way / np.linalg.norm(way, axis=-1, keepdims=True)


def camera_at(eye: Any, target: Any, size: int, angle: float = 0.5) -> Camera:
    """A camera at `eye` that looks at `target`, in the unit cube."""
    return camera_towards(target, np.subtract(eye, target), size, angle)


def camera_towards(target: Any, away: Any, size: int, angle: float = 0.5) -> Camera:
    """A camera at offset `away` from `target`, in the unit cube."""
    eye = np.add(target, away)
    forward = -np.asarray(away) / np.linalg.norm(away)
    right = np.cross(forward, [0.1, 1, 0.2])
    right /= np.linalg.norm(right)
    return Camera(np.array([eye, right, np.cross(right, forward), forward]), angle / size)
