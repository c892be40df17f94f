"""A picture of a mesh, coloured by wall thickness, with a scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.pictures.colour import oklab_to_srgb
from sdfcli.pictures.posed import corner_normals
from sdfcli.pictures.render import BAND, DEFAULT_VIEW, Camera, aim, check_size, view_axes
from sdfcli.pictures.slice import INK, Bar, Image, nice_step
from sdfcli.quality.walls import Thickness
from sdfcli.spatial.morton import order_of
from sdfcli.spatial.radix_tree import build_bvh, refit

LARGEST, MEDIANS = 0.95, 3.0
"""The scale's end, whose colour larger values have: this quantile of the thickness, and at most so many medians."""

LABELS = 5
"""Minimum count of steps between the scale's labels."""

COLOURS = 255
"""Colours of the scale; a grey follows for points without a thickness."""

DARK, RED, YELLOW, GREEN, BLUE = (
    (0.42, 0.16, 25.0),
    (0.60, 0.20, 28.0),
    (0.93, 0.12, 100.0),
    (0.74, 0.11, 170.0),
    (0.45, 0.13, 255.0),
)
"""Lightness, chroma and hue in Oklab."""
GREY = (0.72, 0.0, 0.0)


@dataclass(frozen=True)
class Scale:
    """Colours by thickness, from 0 to `high`: red, yellow, green, blue; with a limit, red below it, the others above.

    high   largest thickness on the scale.
    limit  required thickness, below `high`; None: not marked.
    """

    high: float
    limit: float | None

    @staticmethod
    def of(walls: Thickness, limit: float | None) -> Scale:
        """The scale for a mesh's walls."""
        high = min(walls.quantile(LARGEST), MEDIANS * walls.quantile(0.5))
        if limit is not None:
            high = 2 * limit if math.isnan(high) else max(high, 2 * limit)
        return Scale(high if high > 0 else 1.0, limit)

    def shades(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Colour indices (...) for values (...); NaN has the last one."""
        place = np.rint(np.clip(np.nan_to_num(values / self.high), 0, 1) * (COLOURS - 1))
        if self.limit is not None:  # rounding must not move a value across the limit
            first = math.ceil(self.limit / self.high * (COLOURS - 1))
            place = np.where(values < self.limit, np.minimum(place, first - 1), np.maximum(place, first))
        return np.asarray(np.where(np.isnan(values), COLOURS, place), np.uint8)

    def table(self) -> npt.NDArray[np.uint8]:
        """Colours (COLOURS + 1, 3) by index."""
        t = np.arange(COLOURS) / (COLOURS - 1)
        if self.limit is None:
            lab = _between(t, [0.0, 0.35, 0.7, 1.0], [RED, YELLOW, GREEN, BLUE])
        else:
            first = math.ceil(self.limit / self.high * (COLOURS - 1)) / (COLOURS - 1)
            lab = np.where(
                (t < first)[:, None],
                _between(t, [0.0, first], [DARK, RED]),
                _between(t, [first, (1 + first) / 2, 1.0], [YELLOW, GREEN, BLUE]),
            )
        return np.asarray((255 * oklab_to_srgb(np.vstack((lab, _lab(GREY))))).round(), np.uint8)

    def colours(self, values: npt.NDArray[Any]) -> Image:
        """Colours (..., 3) for values (...)."""
        return np.asarray(self.table()[self.shades(values)])


def _lab(colour: tuple[float, float, float]) -> Floats:
    lightness, chroma, hue = colour
    return np.array([lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))])


def _between(t: Floats, places: list[float], colours: list[tuple[float, float, float]]) -> Floats:
    lab = np.array([_lab(colour) for colour in colours])
    return np.column_stack([np.interp(t, places, column) for column in lab.T])


def wall_picture(
    walls: Thickness,
    *,
    width: int = 800,
    height: int = 600,
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    limit: float | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Image:
    """`Thickness.picture`."""
    check_size(width, height)
    axes = view_axes(view, up)
    mesh, scale = Mesh(walls.vertices, walls.faces), Scale.of(walls, limit)
    backend = select_backend(device, threads)
    camera, _ = aim(np.pad(mesh.domain.to_unit(mesh.vertices), ((0, 0), (0, 1))), axes, width, height)
    try:
        with backend.active():
            picture = _draw(backend, mesh.on(backend), walls, scale, camera, (height, width, 3))
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --size") from error
    title = f"thickness, {walls.units}" if walls.units else "thickness"
    return _beside(picture, Bar((0.0, scale.high), nice_step(scale.high / LABELS), title, scale.colours))


def _draw(
    backend: Backend, mesh: Mesh, walls: Thickness, scale: Scale, camera: Camera, shape: tuple[int, int, int]
) -> Image:
    bvh = refit(backend, build_bvh(backend, order_of(mesh.on_device)))
    points = np.bincount(walls.samples.face, minlength=len(mesh.faces))
    start = np.cumsum(points) - points
    values: dict[str, Any] = {
        "width": shape[1],
        "height": shape[0],
        "vertices": len(mesh.vertices),
        "faces": len(mesh.faces),
        "points": len(walls.samples.face),
        "colours": COLOURS + 1,
        "pixel_size": camera.pixel_size,
        "camera": backend.from_host(camera.frame),
        "mesh": backend.group(
            "Shapes",
            count=len(mesh.faces),
            triangle=bvh.order.triangle,
            triangle_id=bvh.order.triangle_id,
            normal=backend.from_host(corner_normals(mesh)),
            child=bvh.child,
            box=bvh.box,
            x=0.0,
            y=0.0,
            z=0.0,
            edge=1.0,
        ),
        "domain": mesh.domain.group(backend),
        "vertex": mesh.vertex,
        "face": mesh.face,
        "cuts": backend.from_host(np.rint(np.sqrt(points)).astype(np.uint32)),
        "start": backend.from_host(start.astype(np.uint64)),
        "shade": backend.from_host(scale.shades(walls.samples.thickness)),
        "colour": backend.from_host(((scale.table() / 255.0) ** 2).astype(np.float32)),
    }
    pixels = shape[0] * shape[1]
    rough, picture = (backend.xp.empty(shape, np.uint8) for _ in range(2))
    for given, result in ((None, rough), (rough, picture)):  # one ray per pixel, then nine where colours change
        for first in range(0, pixels, BAND):
            count = min(BAND, pixels - first)
            backend.run("sdf_wall_picture", count, first=first, rough=given, pixel=result, **values)
    return backend.to_host(picture)


def _beside(picture: Image, bar: Bar) -> Image:
    """A picture with a colour bar at its right."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    height, width = picture.shape[:2]
    letter = max(11, min(height, width) // 40)
    font = ImageFont.load_default(letter)
    across, _ = bar.extent(font, letter)
    canvas = Pillow.new("RGB", (width + across + 2 * letter, height), "white")
    canvas.paste(Pillow.fromarray(picture), (0, 0))
    pen = ImageDraw.Draw(canvas)
    top = min(3 * letter, height // 4)
    pen.text((width + letter, top - letter), bar.title, INK, font, "ls")
    bar.draw(canvas, pen, font, (width + letter, top), max(1, height - top - letter), letter)
    return np.asarray(canvas)
