"""Poses: mesh placements as matrices (4, 4) with a rotation, a uniform scale and a translation."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import is_cupy
from sdfcli.mesh.arrays import Floats, unmasked
from sdfcli.query.pose_files import TABLES, poses_of, read_json, read_table
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable

RIGID = 1e-5
"""Maximum deviation of a pose's axes from orthogonal axes with a uniform scale, as a fraction of it: slightly above the
rounding of float32 or five printed digits."""


def checked_poses(poses: Any) -> tuple[Floats, Floats]:
    """Poses (t, 4, 4) float64, and for each an upper bound on its length scale (t,), exact to RIGID.

    poses: (t, 4, 4) or a single (4, 4); or translations and quaternions x, y, z, w: (t, 7), (7,).

    Raises InputError for other shapes, non-finite numbers, a last row other than 0, 0, 0, 1, reflections, and axes that
    are not orthogonal or not uniformly scaled: distances would not be the mesh's.
    """
    if is_cupy(poses):
        poses = poses.get()  # few numbers, and host arithmetic is the same everywhere
    unmasked(poses, "poses")
    try:
        given = np.asarray(poses, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"poses must be numbers, (t, 4, 4): {error}") from error
    if given.ndim in (1, 2) and given.shape[-1] == 7:
        given = poses_of(given.reshape(-1, 7))
    if given.shape[-2:] != (4, 4) or given.ndim not in (2, 3):
        raise InputError(f"poses must be (t, 4, 4), (4, 4) or (t, 7), not {given.shape}")
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
    """Parses TX,TY,TZ, with ,RX,RY,RZ or ,QX,QY,QZ,QW, to a pose (4, 4): rotations about the fixed axes x, then y, then
    z, in degrees, or a quaternion of length 1; then a translation.

    Raises UsageError for other words.
    """
    try:
        numbers = [float(word) for word in words.split(",")]
        if len(numbers) not in (3, 6, 7):
            raise ValueError
        pose: Floats = poses_of(np.array([numbers]))[0]
    except InputError as error:
        raise UsageError(f"--at {words}: {str(error).removeprefix('pose 0: ')}") from error
    except ValueError:
        raise UsageError(
            f"--at {words}: use TX,TY,TZ, a translation, with RX,RY,RZ, angles in degrees, or QX,QY,QZ,QW, a quaternion"
        ) from None
    return pose


def load_poses(path: str | PathLike[str]) -> Floats:
    """Reads poses from a file, for `sdfcli.contacts` and `first_contact`; lengths stay in the file's unit.

    Args:
        path: a `.npy` file of matrices (t, 4, 4), or of translations and quaternions x, y, z, w (t, 7); a table
            (`.csv`, `.txt`, `.tum`) or `.json` with quaternions, angles in degrees or matrices, as ROS, TUM and KITTI
            write them: see `sdfcli collide`.

    Returns:
        (t, 4, 4) float64, t >= 1, each a rotation, a uniform scale and a translation.

    Raises:
        InputError: the file cannot be read, holds no poses, or one that shears or mirrors.
    """
    file = existing_file(path)
    if file.suffix.lower() not in READERS:
        raise InputError(f"{file}: poses are read from {', '.join(READERS)}")
    kind, read = READERS[file.suffix.lower()]
    try:
        poses = checked_poses(read(file))[0]
    except Exception as error:  # NumPy's header parser raises exceptions from several modules
        raise unreadable(file, f"cannot be read as {kind}", error) from error
    if len(poses) == 0:
        raise InputError(f"{file}: holds no poses")
    return poses


def _npy(file: Path) -> Floats:
    found = np.lib.format.open_memmap(file, mode="r")  # unlike np.load, names the fault in a bad file
    if found.dtype.kind not in "fiu":
        raise InputError(f"holds {found.dtype}, no numbers; poses are (t, 4, 4), or (t, 7)")
    numbers = np.array(found, np.float64)
    return poses_of(numbers) if numbers.ndim == 2 and numbers.shape[1] == 7 else numbers


READERS: dict[str, tuple[str, Callable[[Path], Floats]]] = {
    ".npy": ("a .npy file of poses (t, 4, 4)", _npy),
    ".json": ("JSON with poses", read_json),
    **dict.fromkeys(TABLES, ("a table of poses", read_table)),
}
"""A file's content, and its reader, by ending."""
