"""`render`: shaded pictures of a field's surface, ray traced on the octree."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import DrawingNote, InputError, OutOfMemoryError, UsageError
from sdfcli.extract.sources import leaf_group, leaves_at
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.field.store import as_field
from sdfcli.mesh.load import MeshSource
from sdfcli.mesh.mesh import Domain
from sdfcli.mesh.vectors import dot, length
from sdfcli.params import whole
from sdfcli.pictures.level import shown_levels, skin_of
from sdfcli.pictures.posed import Company, Contact, PosedMesh, company_of, posed_mesh
from sdfcli.runtime.memory import require_blas

Floats = npt.NDArray[np.float64]

MOST_PIXELS = 8192
"""Maximum pixels per side."""

VIEWS = {
    "front": (0.0, 0.0),
    "right": (90.0, 0.0),
    "back": (180.0, 0.0),
    "left": (-90.0, 0.0),
    "top": (0.0, 90.0),
    "bottom": (0.0, -90.0),
    "iso": (45.0, math.degrees(math.atan(math.sqrt(0.5)))),
}
"""Named views: the eye's azimuth and elevation, in degrees."""

DEFAULT_VIEW = "-30,20"
AXES = {"y": ((1, 0, 0), (0, 1, 0), (0, 0, 1)), "z": ((1, 0, 0), (0, 0, 1), (0, -1, 0))}
"""Front view axes right, up and towards the eye, by the mesh's up axis."""

ANGLE = 28.0
"""Angle of view along the picture's shorter side, in degrees."""

MARGIN = 1.06
BAND = 1 << 19
"""Pixels per launch."""

THIN = 0.75
"""Offset in pixels of the level drawn where the surface is thinner than a pixel: rays through pixel centres meet it."""
MOST_LOST = 1e-3
"""Share of the surface's leaves that a picture may lack."""

VEIL, EDGE = 0.25, 0.9
"""Opacity of all levels but the innermost, in a picture of several, where they face the eye and at their outline."""
TINTS = np.array([[0.2, 0.6, 1.5], [0.3, 1.1, 0.35], [1.3, 0.45, 1.0], [1.25, 0.95, 0.15]])
"""Factors for these levels' colours, in linear light, from the inner ones on; repeated for more."""

ALONE = Company()

REACH = 0.1
"""Ambient occlusion range, as a fraction of the surface's extent."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera in a domain's unit cube.

    frame       (4, 3) eye position; unit vectors right, up and forward.
    pixel_size  edge of a square pixel at distance 1.
    """

    frame: Floats
    pixel_size: float


@dataclass(frozen=True)
class Shot:
    """Parameters shared by pictures of several fields in one domain, so that only the surface moves.

    camera  camera.
    reach   ambient occlusion range, in domain edges.
    skin    level for unsigned fields, a distance in the mesh's units.
    """

    camera: Camera
    reach: float
    skin: float


Scene = tuple[Camera, float, int, int, Company, bool]
"""Arguments of `draw` from the camera on."""


def render(
    source: Field | str | PathLike[str],
    *,
    width: int = 800,
    height: int = 600,
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    iso: float | Sequence[float] | None = None,
    mesh: MeshSource | PosedMesh | None = None,
    pose: npt.ArrayLike | None = None,
    contacts: Contact | None = None,
    shot: Shot | None = None,
    transparent: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> npt.NDArray[np.uint8]:
    """Renders a level set of a field: a shaded picture (height, width, 3) uint8, filled by the surface.

    Where the surface is thinner than a pixel, the picture would lack it. If more than 0.1 % of its leaves would be
    lost, the level 0.75 pixels further outside is drawn instead, with a `sdfcli.errors.DrawingNote` warning.

    Args:
        source: a Field, or its path.
        width: width in pixels.
        height: height in pixels.
        view: `front`, `back`, `left`, `right`, `top`, `bottom`, `iso`, or the eye's azimuth and elevation in degrees,
            "30,20" or (30, 20); azimuth 0 is the front, 90 the right side.
        up: the mesh's up axis: `y` (the front faces +z) or `z` (the front faces -y).
        iso: the level, a distance in the mesh's units. None: 0, or for an unsigned field twice its stated error.
            Several levels are drawn in one picture, each in a colour; all but the smallest are translucent, and show
            their nearest layer.
        mesh: a second surface to draw: a path, a `trimesh.Trimesh`, a (vertices, faces) pair, a Mesh or, for repeated
            calls or another unit than the field's, a PosedMesh. Its part inside is red and shines through the field's
            surface.
        pose: (4, 4), the mesh's pose: a rotation, a translation and one scale. None: the mesh is not moved.
        contacts: contacts to mark with dots, red inside and amber outside: `sdfcli.contacts`' result, or its
            `manifold`.
        shot: camera and level for a moving picture, from `shot_of`, in place of `view` and `up`. None: the source's
            own.
        transparent: return (height, width, 4): with opacity, 0 where the background is, and colours without it.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. The picture does not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.

    Raises:
        InputError: the source, the mesh or its pose cannot be read or used; a mesh file in another unit than the
            field's; or the source, without a shot, has no
            surface at this level.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the picture does not fit into memory.
    """
    check_size(width, height)
    axes = view_axes(view, up)
    source = as_field(source)
    levels = shown_levels(source, iso, shot.skin if shot else None)
    if len(levels) > 1 and mesh is not None:
        raise UsageError("--mesh: not with several --iso")
    posed = posed_mesh(mesh, pose)
    if posed is not None:
        posed._check_units(source)
    corners = corners_of(posed, source.domain)
    backend = select_backend(device, threads)
    try:
        with backend.active():
            leaves = []
            for level in levels:
                try:
                    leaves.append(leaves_at(backend, source, level))
                except InputError:
                    if shot is None:
                        raise
                    leaves.append(np.empty((0, 4)))
            shot = shot or shot_at(leaves[-1], axes, width, height, levels[-1], corners)
            company = company_of(backend, source.domain, posed, contacts, shot.camera.frame[0])
            picture: npt.NDArray[np.uint8] | None = None
            for number, level in enumerate(levels):
                veiled = number > 0
                scene = shot.camera, shot.reach, width, height, company, transparent or veiled
                layer = _whole(backend, source, level, leaves[number], scene)
                if picture is None:
                    picture = layer
                else:
                    veil = _veil(backend, source, level, shot, width, height)
                    picture = _veiled(picture, layer, veil, TINTS[(number - 1) % len(TINTS)])
            assert picture is not None
            return picture
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --size") from error


def _whole(backend: Backend, field: Field, level: float, leaves: Floats, scene: Scene) -> npt.NDArray[np.uint8]:
    """A level's picture, without losses where it is thin. leaves: (n, 4), at the level.
    Warns DrawingNote where another level is drawn."""
    camera, _, width, height, *_ = scene
    hit = backend.xp.empty((height, width), np.uint8)
    picture = draw(backend, field, level, *scene, hit=hit)
    if depth := lost_depth(leaves, camera, backend.to_host(hit)):
        warnings.warn(
            "parts of the surface are thinner than a pixel, and drawn thicker; use a larger --size",
            DrawingNote,
            stacklevel=3,
        )
        level += THIN * camera.pixel_size * depth * field.domain.length
        picture = draw(backend, field, level, *scene)
    return picture


def _veil(backend: Backend, field: Field, level: float, shot: Shot, width: int, height: int) -> Floats:
    """A translucent level's opacity (h, w, 1), by the angle between surface and ray."""
    normal, pixel = backend.xp.empty((height, width, 3)), backend.xp.empty((height, width, 3), np.uint8)
    trace(backend, field, level, shot.camera, shot.reach, pixel, normal=normal)
    _, right, up, forward = shot.camera.frame
    size = shot.camera.pixel_size
    x = size * (np.arange(width) + 0.5 - 0.5 * width)[None, :, None]
    y = size * (np.arange(height) + 0.5 - 0.5 * height)[:, None, None]
    way = forward + x * right - y * up
    facing = np.abs(dot(backend.to_host(normal), way)) / length(way)
    return np.asarray(VEIL + (EDGE - VEIL) * (1 - facing) ** 2)[:, :, None]


def _veiled(
    behind: npt.NDArray[np.uint8], layer: npt.NDArray[np.uint8], veil: Floats, tint: Floats
) -> npt.NDArray[np.uint8]:
    """A picture (h, w, 3 or 4) behind a layer (h, w, 4) of an opacity (h, w, 1), in another colour."""
    part = veil * layer[..., 3:] / 255.0
    below = behind[..., 3:] / 255.0 * (1 - part) if behind.shape[2] == 4 else 1 - part
    whole = part + below
    light = part * tint * (layer[..., :3] / 255.0) ** 2 + below * (behind[..., :3] / 255.0) ** 2
    covered = _stored(light / np.where(whole > 0, whole, 1.0))
    return covered if behind.shape[2] == 3 else np.dstack((covered, (255.0 * whole + 0.5).astype(np.uint8)))


def _stored(light: Floats) -> npt.NDArray[np.uint8]:
    """Linear light as bytes, as `store_rgb` in kernels/surface/shade.h."""
    return np.asarray((255.0 * np.sqrt(np.minimum(light, 1.0)) + 0.5).astype(np.uint8))


def shot_of(
    fields: Iterable[Field | str | PathLike[str]],
    *,
    width: int = 800,
    height: int = 600,
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    iso: float | Sequence[float] | None = None,
    mesh: MeshSource | PosedMesh | None = None,
    pose: npt.ArrayLike | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Shot:
    """Camera for a moving picture of several fields, which together fill it.

    Args:
        fields: the fields or their paths, in one domain; each is used once and not retained.
        width: as for `render`.
        height: as for `render`.
        view: as for `render`.
        up: as for `render`.
        iso: as for `render`.
        mesh: as for `render`; a PosedMesh is prepared once for all pictures.
        pose: as for `render`.
        device: as for `render`.
        threads: as for `render`.

    Raises the errors of `render`; InputError if no field has a surface at this level.
    """
    check_size(width, height)
    axes = view_axes(view, up)
    posed = posed_mesh(mesh, pose)
    backend = select_backend(device, threads)
    outer, corners, skin, missing = [], None, 0.0, None
    for field in map(as_field, fields):
        if posed is not None:
            posed._check_units(field)
        skin, corners = max(skin, skin_of(field)), corners_of(posed, field.domain)
        try:
            outer.append(outermost(leaves_at(backend, field, shown_levels(field, iso)[-1]), axes, width, height))
        except InputError as error:
            missing = error
    if not outer:
        raise missing or InputError("no fields to show")
    return shot_at(np.concatenate(outer), axes, width, height, skin, corners)


def shot_at(leaves: Floats, axes: Floats, width: int, height: int, skin: float, corners: Floats | None = None) -> Shot:
    """The shot filled by leaves (n, 4), lower corners and edges, and by a mesh's corners, if given."""
    camera, extent = aim(leaves, axes, width, height)
    if corners is not None:
        camera, _ = aim(np.concatenate((leaves, corners)), axes, width, height)
    return Shot(camera, REACH * extent, skin)


def corners_of(mesh: PosedMesh | None, domain: Domain) -> Floats | None:
    """A mesh's vertices (v, 4) in a domain's unit cube, as leaves of size 0."""
    return None if mesh is None else np.pad(domain.to_unit(mesh.mesh.vertices), ((0, 0), (0, 1)))


def check_size(width: int, height: int) -> None:
    """Raises UsageError for a picture that is too small or too large."""
    if not all(1 <= whole(side) <= MOST_PIXELS for side in (width, height)):
        raise UsageError(f"--size {width}x{height}: use 1 to {MOST_PIXELS} pixels along each side")


def view_axes(view: str | tuple[float, float], up: str) -> Floats:
    """Unit vectors (3, 3) right, up and towards the eye, in the mesh's axes. Raises UsageError for an unknown view."""
    if up not in tuple(AXES):
        raise UsageError(f"--up {up}: use y or z")
    a, e = map(math.radians, view_angles(view))
    right = (math.cos(a), 0.0, -math.sin(a))
    eye = (math.sin(a) * math.cos(e), math.sin(e), math.cos(a) * math.cos(e))
    above = (-math.sin(a) * math.sin(e), math.cos(e), -math.cos(a) * math.sin(e))
    basis = np.array(AXES[up], np.float64)
    return np.array([sum(part * basis[k] for k, part in enumerate(way)) for way in (right, above, eye)])


def view_angles(view: str | tuple[float, float]) -> tuple[float, float]:
    """The eye's azimuth and elevation, in degrees. Raises UsageError for an unknown view."""
    name = ",".join(map(str, view)) if isinstance(view, tuple) else str(view)
    try:
        azimuth, elevation = VIEWS[name] if name in VIEWS else map(float, name.split(","))
    except ValueError:
        azimuth = elevation = math.nan
    if not (abs(azimuth) <= 360 and abs(elevation) <= 90):
        names = ", ".join(VIEWS)
        raise UsageError(f"--view {name}: use {names}, or AZIMUTH,ELEVATION in degrees, up to 360 and 90")
    return azimuth, elevation


def aim(leaves: Floats, axes: Floats, width: int, height: int) -> tuple[Camera, float]:
    """The camera whose picture is filled by leaves (n, 4), lower corners and edges; and their box's diagonal."""
    require_blas()
    low, high = leaves[:, :3].min(axis=0), (leaves[:, :3] + leaves[:, 3:]).max(axis=0)
    centre = 0.5 * (low + high)
    eye, distance = centre.copy(), 0.0
    for axis, (slope, *sides) in zip(axes, touching(leaves, centre, axes, width, height), strict=False):
        ahead, behind = (float(side.max()) for side in sides)
        eye += 0.5 * (ahead - behind) * slope * axis
        distance = max(distance, 0.5 * (ahead + behind))
    eye += distance * axes[2]
    pixel = pixel_size(width, height)
    return Camera(np.array([eye, axes[0], axes[1], -axes[2]]), pixel), float(np.linalg.norm(high - low))


def pixel_size(width: int, height: int) -> float:
    """Edge of a pixel at distance 1."""
    return 2 * math.tan(math.radians(ANGLE / 2)) / min(width, height)


def touching(
    leaves: Floats, centre: Floats, axes: Floats, width: int, height: int
) -> Iterator[tuple[float, Floats, Floats]]:
    """For the picture's width, then its height: the slope of the two planes that bound the view, and for each plane the
    eye's distances (n,) at which the leaves' bounding spheres touch it, less its shift / slope."""
    middle = leaves[:, :3] + 0.5 * leaves[:, 3:] - centre
    x, y, z = (sum(middle[:, k] * way[k] for k in range(3)) for way in axes)
    radius = 0.5 * math.sqrt(3) * leaves[:, 3]
    for along, pixels in ((x, width), (y, height)):
        slope = 0.5 * pixels * pixel_size(width, height) / MARGIN
        ball = radius * math.hypot(1, slope)
        yield slope, z + (ball + along) / slope, z + (ball - along) / slope


def outermost(leaves: Floats, axes: Floats, width: int, height: int) -> Floats:
    """The few leaves, among (n, 4), that determine `aim`."""
    sides = [side for _, *both in touching(leaves, np.zeros(3), axes, width, height) for side in both]
    upper = leaves[:, :3] + leaves[:, 3:]
    columns = np.column_stack([*sides, -leaves[:, :3], upper])
    return np.asarray(leaves[np.unique(columns.argmax(axis=0))])


def draw(
    backend: Backend,
    field: Field,
    iso: float,
    camera: Camera,
    reach: float,
    width: int,
    height: int,
    company: Company = ALONE,
    transparent: bool = False,
    hit: Array | None = None,
) -> npt.NDArray[np.uint8]:
    """Picture (height, width, 3), or (height, width, 4) if transparent: one ray per pixel, then nine where colours
    change. hit: as for `trace`, of the one ray."""
    xp = backend.xp
    rough, picture = (xp.empty((height, width, 3), np.uint8) for _ in range(2))
    covers = (xp.empty((height, width), np.uint8) for _ in range(2)) if transparent else (None, None)
    rough_cover, cover = covers
    trace(backend, field, iso, camera, reach, rough, company, cover=rough_cover, hit=hit)
    trace(backend, field, iso, camera, reach, picture, company, rough=rough, rough_cover=rough_cover, cover=cover)
    drawn = backend.to_host(picture)
    return drawn if cover is None else np.dstack((drawn, backend.to_host(cover)))


def lost_depth(leaves: Floats, camera: Camera, hit: npt.NDArray[np.uint8]) -> float:
    """The largest depth, in domain edges, of surface leaves (n, 4) that a picture lacks: no pixel within a leaf's
    bounding ball and half a pixel is a hit. 0 if their share is at most MOST_LOST.

    hit: (h, w) uint8, 1 where a surface is, else 0.
    """
    (height, width), (eye, right, up, forward) = hit.shape, camera.frame
    middle = leaves[:, :3] + 0.5 * leaves[:, 3:] - eye
    depth = middle @ forward
    scale = 1 / (camera.pixel_size * depth)
    column, row = 0.5 * width + scale * (middle @ right), 0.5 * height - scale * (middle @ up)
    radius = 0.5 * math.sqrt(3) * scale * leaves[:, 3] + 0.5
    (left, end), (top, below) = (
        [np.floor(x).clip(0, size).astype(int) for x in (at - radius, at + radius + 1)]
        for at, size in ((column, width), (row, height))
    )
    hits = np.pad(hit.cumsum(axis=0, dtype=np.uint32).cumsum(axis=1), ((1, 0), (1, 0)))  # above and left of a corner
    lost = hits[below, end] + hits[top, left] == hits[top, end] + hits[below, left]
    return float(depth[lost].max()) if np.count_nonzero(lost) > MOST_LOST * len(leaves) else 0.0


def trace(
    backend: Backend,
    field: Field,
    iso: float,
    camera: Camera,
    reach: float,
    pixel: Array,
    company: Company = ALONE,
    rough: Array | None = None,
    rough_cover: Array | None = None,
    cover: Array | None = None,
    hit: Array | None = None,
    depth: Array | None = None,
    normal: Array | None = None,
) -> None:
    """Writes pixels (h, w, 3); if given, hits (h, w) uint8, 1 where a surface is, else 0; depths (h, w) along the rays,
    negative without a hit; and normals (h, w, 3), float64, of the surface in front. rough: picture with one ray per
    pixel, for adaptive supersampling. cover: (h, w) uint8, written if given: the pixel's opacity, without the
    background in its colour; rough_cover: `rough`'s."""
    error, slack = safety(field)
    error_at_level = max(error, slack * abs(iso) / field.domain.length)
    height, width = pixel.shape[:2]
    values = {
        "leaves": leaf_group(backend, field._arrays_on(backend)),
        "width": width,
        "height": height,
        "length": field.domain.length,
        "iso": iso,
        "error": error,
        "slack": slack,
        "error_at_level": error_at_level,
        "reach": reach,
        "smoothing": iso / field.domain.length if is_unsigned(field) else 0.0,
        "pixel_size": camera.pixel_size,
        "camera": backend.from_host(camera.frame),
        "rough": rough,
        "rough_cover": rough_cover,
        "pixel": pixel,
        "hit": hit,
        "cover": cover,
        "depth": depth,
        "normal": normal,
        "mesh": company.mesh,
        "dots": company.dots,
        "deep": company.deep,
        "blur": error_at_level if math.isfinite(error_at_level) else 0.0,
    }
    kernel = "sdf_render_beside" if company.mesh or company.dots else "sdf_render"
    for first in range(0, width * height, BAND):  # interruptible between launches
        backend.run(kernel, min(BAND, width * height - first), first=first, **values)


def safety(field: Field, more: float = 0.0) -> tuple[float, float]:
    """Field error near the surface, in domain edges, and elsewhere, relative to the distance. more: of a coarser copy,
    its difference from the field, in mesh units.

    Infinite for a field without a stated error: rays then step from leaf to leaf.
    """
    try:
        stated = StatedError.of(field)
    except InputError:
        return math.inf, 0.0
    near = stated.near + more
    if not near < stated.band:
        return math.inf, 0.0
    return near / field.domain.length, near / (stated.band - near)
