"""Pictures of a field's surface, by tracing rays through the octree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.extract.sources import leaf_group
from sdfcli.field.field import Field
from sdfcli.pictures.level import is_unsigned, leaves_at, shown_level, stated_error

Floats = npt.NDArray[np.float64]

MOST_PIXELS = 8192
"""Along each side of a picture."""

VIEWS = {
    "front": (0.0, 0.0),
    "right": (90.0, 0.0),
    "back": (180.0, 0.0),
    "left": (-90.0, 0.0),
    "top": (0.0, 90.0),
    "bottom": (0.0, -90.0),
    "iso": (45.0, math.degrees(math.atan(math.sqrt(0.5)))),
}
"""Azimuth and elevation of the eye, in degrees."""

DEFAULT_VIEW = "-30,20"
AXES = {"y": ((1, 0, 0), (0, 1, 0), (0, 0, 1)), "z": ((1, 0, 0), (0, 0, 1), (0, -1, 0))}
"""Right, up, and towards the eye of the front view, by what is up in the mesh."""

ANGLE = 28.0
"""Of view, in degrees, along the shorter side of the picture."""

MARGIN = 1.06
BAND = 1 << 19
"""Pixels drawn at a time."""

REACH = 0.1
"""How far ambient occlusion looks, as a part of the surface's extent."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera in the unit cube of a domain.

    frame       (4, 3) the eye; then, of length 1: to the right, up, forward.
    pixel_size  the edge of a square pixel at distance 1.
    """

    frame: Floats
    pixel_size: float


def render(
    source: Field | str | Path,
    *,
    width: int = 800,
    height: int = 600,
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    iso: float | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> npt.NDArray[np.uint8]:
    """A shaded picture (height, width, 3) of the surface at the distance `iso`, as large as it fits.

    Args:
        source: a Field, or a path to one.
        width: in pixels.
        height: in pixels.
        view: `front`, `back`, `left`, `right`, `top`, `bottom`, `iso`, or the azimuth and elevation of the eye in
            degrees, "30,20" or (30, 20); azimuth 0 is the front, 90 the right side.
        up: `y` or `z`, the mesh's axis that points up; the front is towards +z or -y then.
        iso: the distance of the surface; 0 by default, in a field without signs twice its stated error.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. The picture does not depend on it.
        threads: of the CPU; by default all.

    Raises:
        InputError: a source that cannot be used, or has no surface there.
        UsageError: parameters out of range.
        DeviceError: a device that is not there.
        OutOfMemoryError: the picture does not fit into memory.
    """
    check_size(width, height)
    axes = view_axes(view, up)
    if not isinstance(source, Field):
        from sdfcli.field.store import load

        source = load(source)
    level = shown_level(source, iso)
    backend = select_backend(device, threads)
    try:
        with backend.active():
            camera, extent = aim(leaves_at(backend, source, level), axes, width, height)
            return draw(backend, source, level, camera, REACH * extent, width, height)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --size") from error


def check_size(width: int, height: int) -> None:
    """Raises UsageError for a picture that is too small or too large."""
    if not (1 <= width <= MOST_PIXELS and 1 <= height <= MOST_PIXELS):
        raise UsageError(f"--size {width}x{height}: use 1 to {MOST_PIXELS} pixels along each side")


def view_axes(view: str | tuple[float, float], up: str) -> Floats:
    """(3, 3): right, up and towards the eye, of length 1, in the mesh's axes. Raises UsageError for bad words."""
    if up not in AXES:
        raise UsageError(f"--up {up}: use y or z")
    told = ",".join(map(str, view)) if isinstance(view, tuple) else view
    try:
        azimuth, elevation = VIEWS[told] if told in VIEWS else map(float, told.split(","))
    except ValueError:
        azimuth = elevation = math.nan
    if not (abs(azimuth) <= 360 and abs(elevation) <= 90):
        names = ", ".join(VIEWS)
        raise UsageError(f"--view {told}: use {names}, or AZIMUTH,ELEVATION in degrees, up to 360 and 90")
    a, e = math.radians(azimuth), math.radians(elevation)
    right = (math.cos(a), 0.0, -math.sin(a))
    eye = (math.sin(a) * math.cos(e), math.sin(e), math.cos(a) * math.cos(e))
    above = (-math.sin(a) * math.sin(e), math.cos(e), -math.cos(a) * math.sin(e))
    basis = np.array(AXES[up], np.float64)
    return np.array([sum(part * basis[k] for k, part in enumerate(way)) for way in (right, above, eye)])


def aim(leaves: Floats, axes: Floats, width: int, height: int) -> tuple[Camera, float]:
    """The camera from which leaves (n, 4), lower corners and edges, fill a picture; and the diagonal of their box."""
    low, high = leaves[:, :3].min(axis=0), (leaves[:, :3] + leaves[:, 3:]).max(axis=0)
    centre = 0.5 * (low + high)
    middle = leaves[:, :3] + 0.5 * leaves[:, 3:] - centre
    x, y, z = (sum(middle[:, k] * way[k] for k in range(3)) for way in axes)
    radius = 0.5 * math.sqrt(3) * leaves[:, 3]
    pixel = 2 * math.tan(math.radians(ANGLE / 2)) / min(width, height)
    eye, distance = centre.copy(), 0.0
    for along, axis, pixels in ((x, axes[0], width), (y, axes[1], height)):
        # A ball touches the plane on one side of the view if its eye is at this distance, less its shift / slope.
        slope = 0.5 * pixels * pixel / MARGIN
        ball = radius * math.hypot(1, slope)
        ahead, behind = float((z + (ball + along) / slope).max()), float((z + (ball - along) / slope).max())
        eye += 0.5 * (ahead - behind) * slope * axis
        distance = max(distance, 0.5 * (ahead + behind))
    eye += distance * axes[2]
    return Camera(np.array([eye, axes[0], axes[1], -axes[2]]), pixel), float(np.linalg.norm(high - low))


def draw(
    backend: Backend, field: Field, iso: float, camera: Camera, reach: float, width: int, height: int
) -> npt.NDArray[np.uint8]:
    """The picture (height, width, 3): with one ray a pixel, then with nine where colours change."""
    rough = backend.xp.empty((height, width, 3), np.uint8)
    trace(backend, field, iso, camera, reach, rough)
    picture = backend.xp.empty_like(rough)
    trace(backend, field, iso, camera, reach, picture, rough=rough)
    return backend.to_host(picture)


def trace(
    backend: Backend,
    field: Field,
    iso: float,
    camera: Camera,
    reach: float,
    pixel: Array,
    rough: Array | None = None,
    depth: Array | None = None,
    normal: Array | None = None,
) -> None:
    """Fills pixels (h, w, 3); where asked for, the ways (h, w) from the eye, negative where a ray meets nothing, and
    normals (h, w, 3), float64. `rough` is the picture with one ray a pixel, which tells where to take more."""
    error, slack = _safety(field)
    height, width = pixel.shape[:2]
    values = {
        "leaves": leaf_group(backend, field.on(backend)),
        "width": width,
        "height": height,
        "length": field.domain.length,
        "iso": iso,
        "error": error,
        "slack": slack,
        "error_at_level": max(error, slack * abs(iso) / field.domain.length),
        "reach": reach,
        "smoothing": iso / field.domain.length if is_unsigned(field) else 0.0,
        "pixel_size": camera.pixel_size,
        "camera": backend.from_host(camera.frame),
        "rough": rough,
        "pixel": pixel,
        "depth": depth,
        "normal": normal,
    }
    for first in range(0, width * height, BAND):  # an interrupt comes through between them
        backend.run("sdf_render", min(BAND, width * height - first), first=first, **values)


def _safety(field: Field) -> tuple[float, float]:
    """The field's error near the surface, in edges of the domain, and farther away, as a part of the distance.

    A field that states none is given one that lets no ray leave a leaf without looking at the next.
    """
    error = stated_error(field)
    try:
        band = float(field.info["parameters"]["band"]) * float(field.info["mesh"]["diagonal"])
    except (KeyError, TypeError, ValueError):
        band = 0.0
    if error is None or not error < band:
        return math.inf, 0.0
    return error / field.domain.length, error / (band - error)
