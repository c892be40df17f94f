"""Meshes by formula, in metres."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import trimesh

Floats = npt.NDArray[np.float64]
AROUND = 96
"""Corners of round shapes."""


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
