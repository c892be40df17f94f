"""Poses: mesh placements as matrices (4, 4) with a rotation, a uniform scale and a translation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import is_cupy
from sdfcli.mesh.arrays import Floats, unmasked
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable

RIGID = 1e-5
"""Maximum deviation of a pose's axes from orthogonal axes with a uniform scale, as a fraction of it: slightly above the
rounding of float32 or five printed digits."""


def checked_poses(poses: Any) -> tuple[Floats, Floats]:
    """Poses (t, 4, 4) float64, and for each an upper bound on its length scale (t,), exact to RIGID.

    poses: (t, 4, 4) or a single (4, 4). Raises InputError for other shapes, non-finite numbers, a last row other than
    0, 0, 0, 1, reflections, and axes that are not orthogonal or not uniformly scaled: distances would not be the
    mesh's.
    """
    if is_cupy(poses):
        poses = poses.get()  # few numbers, and host arithmetic is the same everywhere
    unmasked(poses, "poses")
    try:
        given = np.asarray(poses, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"poses must be numbers, (t, 4, 4): {error}") from error
    if given.shape[-2:] != (4, 4) or given.ndim not in (2, 3):
        raise InputError(f"poses must be (t, 4, 4) or (4, 4), not {given.shape}")
    given = np.ascontiguousarray(given.reshape(-1, 4, 4))
    if len(wrong := np.flatnonzero(~np.isfinite(given).all(axis=(1, 2)))):
        raise InputError(f"pose {wrong[0]}: a number is not finite")
    if len(wrong := np.flatnonzero((given[:, 3] != (0, 0, 0, 1)).any(axis=1))):
        raise InputError(f"pose {wrong[0]}: the last row must be 0, 0, 0, 1; are the matrices transposed?")
    axes = given[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        # For scale s: s^2 times the identity. Fixed summation order: einsum's depends on the CPU.
        x, y, z = (axes[:, k, :, None] * axes[:, k, None, :] for k in range(3))
        products = x + y + z
        squared = (products[:, 0, 0] + products[:, 1, 1] + products[:, 2, 2]) / 3
        off = np.abs(products - squared[:, None, None] * np.eye(3)).max(axis=(1, 2), initial=0.0)
        turned = np.linalg.slogdet(axes).sign  # the determinant itself could underflow
    if len(wrong := np.flatnonzero(~((squared > 1e-300) & (squared < 1e300) & (off <= RIGID * squared)))):
        raise InputError(
            f"pose {wrong[0]}: the axes are sheared, or scaled differently, which changes distances; use a rotation, a "
            "translation and one scale"
        )
    if len(wrong := np.flatnonzero(turned < 0)):
        raise InputError(f"pose {wrong[0]}: a mirror image; mirror the mesh instead")
    rows = np.abs(products[:, :, 0]) + np.abs(products[:, :, 1]) + np.abs(products[:, :, 2])
    return given, np.sqrt(rows.max(axis=1, initial=0.0))


def pose_at(words: str) -> Floats:
    """Parses TX,TY,TZ[,RX,RY,RZ] to a pose (4, 4): rotations about the fixed axes x, then y, then z, in degrees, then a
    translation.

    Raises UsageError for other words.
    """
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 6) or not all(map(math.isfinite, numbers)):
        raise UsageError(f"--at {words}: use TX,TY,TZ or TX,TY,TZ,RX,RY,RZ: a translation, and angles in degrees")
    pose = np.eye(4)
    for axis, angle in enumerate(numbers[3:]):
        cosine, sine = _turn(angle)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(4)
        turn[i, i] = turn[j, j] = cosine
        turn[i, j], turn[j, i] = -sine, sine
        pose = turn @ pose
    pose[:3, 3] = numbers[:3]
    return pose


def _turn(degrees: float) -> tuple[float, float]:
    """Cosine and sine of an angle, exact for multiples of 90 degrees."""
    quarters, rest = divmod(degrees, 90.0)
    cosine, sine = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters % 4)):
        cosine, sine = -sine, cosine
    return cosine, sine


def load_poses(path: str | Path) -> Floats:
    """Reads poses from a .npy file. Raises InputError if it cannot be read, fails `checked_poses`, or holds no poses: a
    check without poses would always pass."""
    file = existing_file(path)
    try:
        found = np.lib.format.open_memmap(file, mode="r")  # unlike np.load, names the fault in a bad file
        if found.dtype.kind not in "fiu":
            raise InputError(f"holds {found.dtype}, no numbers; poses are (t, 4, 4)")
        poses = checked_poses(np.array(found, np.float64))[0]
    except Exception as error:  # NumPy's header parser raises exceptions from several modules
        raise unreadable(file, "cannot be read as a .npy file of poses (t, 4, 4)", error) from error
    if len(poses) == 0:
        raise InputError(f"{file}: holds no poses")
    return poses
