"""`slice_image`: pictures of a field's values in a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import InputError, OutOfMemoryError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import is_unsigned
from sdfcli.field.store import as_field
from sdfcli.octree.causes import JUMP, JUMP_WORDS, WORDS, Cause, causes_of, required
from sdfcli.params import whole
from sdfcli.pictures.colour import diverging, shade
from sdfcli.pictures.level import box_of, middle_of, shown_level, skin_of
from sdfcli.runtime.memory import require_blas

Image = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]

LEAST_SIZE, MOST_SIZE = 64, 4096
"""Minimum and maximum pixels along the plane's edge."""

PLANES = {"x": (1, 2), "y": (0, 2), "z": (0, 1)}
"""A plane's axes to the right and upwards, by its normal."""

LINES = 10
"""Minimum contour line count from 0 to the largest value; the maximum is 2.5 times this."""

CHUNK = 1 << 20
"""Points per launch."""

INK = (25, 28, 33)

SHADES = {
    Cause.ROOT: (1.0, 0.0, 0.0),
    Cause.ERROR: (0.77, 0.095, 38.0),
    Cause.BEND: (0.91, 0.095, 95.0),
    Cause.SURFACE: (0.55, 0.19, 5.0),
    Cause.SHEET: (0.58, 0.16, 305.0),
    Cause.BALANCE: (0.88, 0.04, 240.0),
    Cause.HANGING: (0.62, 0.10, 200.0),
    Cause.WAVE: (0.68, 0.15, 140.0),
    Cause.PROOF: (0.45, 0.17, 270.0),
}
"""Lightness, chroma and hue of leaves by cause: pale where it is frequent, strong where it is rare."""
STRIPE = 6
"""Pixels between stripes in leaves at a jump of the sign."""

COARSE = 4
"""Pixels between points sampled by `scale_of` to find the largest distances."""


@dataclass(frozen=True)
class Scale:
    """Parameters shared by slices of several fields in one domain, so that only the distances change.

    at    plane position along its axis, in the mesh's units.
    span  smallest and largest distance in the colour scale.
    skin  level for unsigned fields.
    """

    at: float
    span: tuple[float, float]
    skin: float


def slice_image(
    source: Field | str | PathLike[str],
    *,
    axis: str = "z",
    at: float | None = None,
    size: int = 800,
    octree: bool = False,
    why: bool = False,
    sheet: int | None = None,
    scale: Scale | None = None,
    time: float | None = None,
    device: str = "auto",
) -> Image:
    """Plots a field's values in a plane: a picture (height, width, 3) uint8 with scales.

    Distances inside are blue, outside red, with contour lines and a black line for the surface; without signs all are
    red. With `why`, leaves have the colours of the causes for which their parents were split.

    Args:
        source: a Field, or its path.
        axis: `x`, `y` or `z`: the plane's normal.
        at: plane position along the axis, in the mesh's units. None: the surface's centre.
        size: pixels along the domain edge; the picture is a little larger.
        octree: whether to draw leaf borders.
        why: whether to colour leaves by cause, with a legend; for fields built with `why`. Implies `octree`.
        sheet: plane count in one picture, 2 or more: evenly spaced over the surface's extent along the axis, row by
            row, on one scale, in place of `at`. `size` then counts pixels along all columns.
        scale: plane and colours for a moving picture, from `scale_of`, in place of `at`. None: the source's own.
        time: time in a moving picture, in seconds, for the heading.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. The picture does not depend on it.

    Raises:
        InputError: the source cannot be read or used, or stores no causes.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the picture does not fit into memory.
    """
    check_size(axis, size)
    source = as_field(source)
    if why:
        required(source.leaf_cause)
    backend = select_backend(device)
    try:
        if sheet is not None:
            return draw_sheet(backend, source, axis, sheet, size, octree, why)
        where = scale.at if scale else place_of_plane(backend, source, axis, at)
        return draw(backend, source, axis, where, size, octree, scale, time, why)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --size") from error


def scale_of(
    fields: Iterable[Field | str | PathLike[str]],
    *,
    axis: str = "z",
    at: float | None = None,
    size: int = 800,
    device: str = "auto",
) -> Scale:
    """Plane and colours for a moving picture of several fields.

    Args:
        fields: the fields or their paths, in one domain; each is used once and not retained.
        axis: as for `slice_image`.
        at: plane position. None: the domain's middle, as a sequence's surfaces are centred there.
        size: as for `slice_image`.
        device: as for `slice_image`.

    Raises the errors of `slice_image`; InputError without fields.
    """
    check_size(axis, size)
    backend = select_backend(device)
    low, high, skin = math.inf, -math.inf, 0.0
    for field in map(as_field, fields):
        if at is None:
            at = float(field.domain.origin["xyz".index(axis)] + 0.5 * field.domain.length)
        value, _ = sample_plane(backend, field, axis, place_of_plane(backend, field, axis, at), size // COARSE)
        low, high, skin = min(low, float(value.min())), max(high, float(value.max())), max(skin, skin_of(field))
    if at is None:
        raise InputError("no fields to show")
    return Scale(at, (low, high), skin)


def draw(
    backend: Backend,
    field: Field,
    axis: str,
    at: float,
    size: int,
    octree: bool,
    scale: Scale | None = None,
    time: float | None = None,
    why: bool = False,
) -> Image:
    """Picture of a plane, with scales."""
    require_blas()
    value, leaf = sample_plane(backend, field, axis, at, size)
    span = scale.span if scale else (float(value.min()), float(value.max()))
    (plane,), side = painted(field, [(value, leaf)], span, octree, why, scale.skin if scale else None)
    heading = f"{axis} = {at:.9g}" if time is None else f"{axis} = {at:.6g}, {time:.4g} s"
    return framed(plane, field, axis, heading, side)


def draw_sheet(
    backend: Backend, field: Field, axis: str, count: int, size: int, octree: bool = False, why: bool = False
) -> Image:
    """Picture with several planes, row by row, on one scale. size: as for `sheet_columns`.

    Raises UsageError as `sheet_columns` does.
    """
    columns, pixels = sheet_columns(count, size)
    places = places_of_sheet(backend, field, axis, count)
    sampled = [sample_plane(backend, field, axis, at, pixels) for at in places]
    span = min(float(value.min()) for value, _ in sampled), max(float(value.max()) for value, _ in sampled)
    planes, side = painted(field, sampled, span, octree, why)
    right, up = ("xyz"[k] for k in PLANES[axis])
    axes = f"{right} right, {up} up, in the mesh's units"
    return tiled(planes, columns, [f"{axis} = {at:.6g}" for at in places], side, axes)


def sheet_columns(count: int, size: int) -> tuple[int, int]:
    """A sheet's column count, and pixels along each plane's edge. size: pixels along all columns.

    Raises UsageError for fewer than two planes, and for planes below LEAST_SIZE pixels.
    """
    columns = math.ceil(math.sqrt(max(count, 0)))
    if count < 2 or size // columns < LEAST_SIZE:
        most = (size // LEAST_SIZE) ** 2
        raise UsageError(f"--sheet {count}: use 2 to {most} planes for --size {size}, at {LEAST_SIZE} pixels or more")
    return columns, size // columns


def places_of_sheet(backend: Backend, field: Field, axis: str, count: int) -> list[float]:
    """Plane positions along the axis: centres when the surface's bounding box is cut into equal layers."""
    low, high = box_of(backend, field)[:, "xyz".index(axis)]
    return [float(low + (high - low) * (k + 0.5) / count) for k in range(count)]


def painted(
    field: Field,
    sampled: list[tuple[Values, npt.NDArray[np.uint32]]],
    span: tuple[float, float],
    octree: bool,
    why: bool,
    skin: float | None = None,
) -> tuple[list[Image], Side]:
    """Pictures from `sample_plane` results, in common colours, and their scale or legend. skin: an unsigned field's
    level; None: its own."""
    largest = max(map(abs, span))
    step, level, unsigned = nice_step(largest / LINES), shown_level(field, None, skin), is_unsigned(field)
    side: Side = Bar(span, step)
    if why:
        causes = np.stack([required(field.leaf_cause)[leaf] for _, leaf in sampled])
        side = Legend(tuple(np.unique(causes).tolist()))
    planes = []
    for k, (value, leaf) in enumerate(sampled):
        pixel = field.domain.length / len(value)
        plane = paint_causes(causes[k]) if why else paint(value, largest)
        if octree or why:
            plane = blend(plane, cell_borders(leaf, field.leaf_level), INK)
        if not why:
            plane = blend(plane, contour_lines(value, step, pixel), INK)
        planes.append(blend(plane, surface_line(value, level, pixel, unsigned), (0, 0, 0)))
    return planes, side


def check_size(axis: str, size: int) -> None:
    """Raises UsageError for an unknown axis, and for a picture too small or too large."""
    if axis not in tuple(PLANES):
        raise UsageError(f"--axis {axis}: use x, y or z")
    if not LEAST_SIZE <= whole(size) <= MOST_SIZE:
        raise UsageError(f"--size {size}: use {LEAST_SIZE} to {MOST_SIZE} pixels")


def place_of_plane(backend: Backend, field: Field, axis: str, at: float | None) -> float:
    """Plane position along the axis. Raises UsageError for a plane outside the domain."""
    k = "xyz".index(axis)
    if at is None:
        middle = float(middle_of(backend, field)[k])
        return middle if abs(middle) > 1e-9 * field.domain.length else 0.0  # rounding of a symmetric shape's middle
    low, high = float(field.domain.origin[k]), float(field.domain.origin[k] + field.domain.length)
    if not low <= at <= high:
        raise UsageError(f"--at {at:g}: the domain goes from {low:.9g} to {high:.9g} along {axis}")
    return at


def sample_plane(
    backend: Backend, field: Field, axis: str, at: float, size: int
) -> tuple[Values, npt.NDArray[np.uint32]]:
    """Values and leaf indices (size, size) at pixel centres, rows from the top."""
    right, up = PLANES[axis]
    middle = (np.arange(size) + 0.5) / size * field.domain.length
    value, leaf = np.empty((size, size), np.float32), np.empty((size, size), np.uint32)
    rows = max(1, CHUNK // size)
    for first in range(0, size, rows):
        part = slice(first, first + rows)
        points = np.empty((*value[part].shape, 3))
        points[..., "xyz".index(axis)] = at
        points[..., right] = field.domain.origin[right] + middle
        points[..., up] = (field.domain.origin[up] + middle[::-1][part])[:, None]
        there = backend.from_host(points.reshape(-1, 3))
        value[part] = backend.to_host(field.sample(there)).reshape(-1, size)
        leaf[part] = backend.to_host(field.leaf_at(there)).reshape(-1, size)
    return value, leaf


def nice_step(most: float) -> float:
    """The largest number 1, 2 or 5 times a power of ten not above `most`; 1 for 0."""
    if not most > 0:
        return 1.0
    power = math.floor(math.log10(most))
    steps = [float(f"{m}e{k}") for k in (power - 1, power, power + 1) for m in (1, 2, 5)]
    return max(step for step in steps if step <= most)


def paint(value: npt.NDArray[Any], largest: float) -> Image:
    """Colours (..., 3) for values (...): white at 0, full at +-`largest`.

    They follow the square root of the distance, so that both sides also differ near the surface and in thin parts.
    """
    return diverging(np.copysign(np.sqrt(np.abs(value) / (largest or 1.0)), value))


def paint_causes(leaf_cause: npt.NDArray[np.uint8]) -> Image:
    """Colours (h, w, 3) for leaf_cause bytes (h, w), striped where leaves lie at a sign jump, white for a jump
    alone."""
    table = np.array([shade(*SHADES[cause]) for cause in Cause], np.uint8)
    row, column = np.indices(leaf_cause.shape)
    stripes = ((leaf_cause & JUMP) > 0) & ((row + column) % STRIPE < STRIPE / 3)
    return blend(table[causes_of(leaf_cause)], 0.55 * stripes.astype(np.float32), INK)


def blend(picture: Image, cover: Values, colour: tuple[int, int, int]) -> Image:
    """The picture (h, w, 3) blended with a colour by coverage (h, w), 0 to 1."""
    cover = cover[..., None]
    return np.asarray(picture * (1 - cover) + np.array(colour, np.float32) * cover + 0.5, np.uint8)


def line(excess: Values, value: Values, width: float, pixel: float) -> Values:
    """Pixel coverage of the line where `excess` is 0, with the gradient of `value`. width: in pixels."""
    slope = np.hypot(*np.gradient(value))
    # Where the plane lies in the surface, slope and excess vanish: the whole area is line.
    with np.errstate(over="ignore"):  # very far away
        away = np.abs(excess) / np.maximum(slope, 0.05 * pixel)
    return np.asarray(np.clip(0.5 * width + 0.5 - away, 0, 1), np.float32)


def contour_lines(value: Values, step: float, pixel: float) -> Values:
    """Pixel coverage of lines at all multiples of a step except 0. pixel: edge in the mesh's units."""
    number = np.rint(value / step)
    return np.where(number == 0, 0, 0.35 * line(value - number * step, value, 1.0, pixel)).astype(np.float32)


def surface_line(value: Values, level: float, pixel: float, unsigned: bool) -> Values:
    """Pixel coverage of the surface: a line, or in an unsigned field everything below the level."""
    drawn = line(value - level, value, 2.0, pixel)
    if unsigned:
        return np.asarray(np.maximum(drawn, np.clip(0.5 + (level - value) / pixel, 0, 1)), np.float32)
    # On interior walls, a kink of the distance, the slope vanishes as in the surface, but all values are on one side.
    around = np.lib.stride_tricks.sliding_window_view(np.pad(value - level, 2, "edge"), (5, 5))
    near = (around.min(axis=(2, 3)) <= 0) & (around.max(axis=(2, 3)) >= 0) | (np.abs(value - level) < 0.05 * pixel)
    return np.where(near, drawn, 0).astype(np.float32)


def cell_borders(leaf: npt.NDArray[np.uint32], level: npt.NDArray[np.uint8]) -> Values:
    """Pixel coverage of leaf borders, fainter for small leaves: the average coverage of their pixels."""
    border = np.zeros(leaf.shape, bool)
    border[1:] |= leaf[1:] != leaf[:-1]
    border[:, 1:] |= leaf[:, 1:] != leaf[:, :-1]
    cell = len(leaf) * 0.5 ** level[leaf].astype(np.float32)
    return np.asarray(np.where(border, np.clip(cell / 24, 0.12, 0.45), 0), np.float32)


class Side(Protocol):
    """A scale or a legend next to a plane."""

    @property
    def title(self) -> str:
        """Its title."""

    def extent(self, font: Any, letter: int) -> tuple[int, int]:
        """Width and minimum height in pixels."""

    def draw(self, canvas: Any, pen: Any, font: Any, at: tuple[int, int], size: int, letter: int) -> None:
        """Draws it. at: its upper left corner; size: the height of the plane."""


@dataclass(frozen=True)
class Bar:
    """A colour bar. span: smallest and largest value; step: between labels; colours: colours (..., 3) for values (...),
    by default those of distances."""

    span: tuple[float, float]
    step: float
    title: str = "distance"
    colours: Callable[[npt.NDArray[Any]], Image] | None = None

    @property
    def _labels(self) -> list[tuple[float, str]]:
        return ticks(*self.span, self.step) or [(self.span[0], f"{self.span[0]:.6g}")]

    def extent(self, font: Any, letter: int) -> tuple[int, int]:
        """See Side."""
        words = [word for _, word in self._labels]
        return letter + max(width_of(font, words) + 2 * (letter // 2), width_of(font, [self.title]) - letter), 0

    def draw(self, canvas: Any, pen: Any, font: Any, at: tuple[int, int], size: int, letter: int) -> None:
        """See Side."""
        from PIL import Image as Pillow

        (left, top), (low, high), gap = at, self.span, letter // 2
        shades = np.linspace(high, low, size)[:, None].repeat(letter, axis=1)
        painted = self.colours(shades) if self.colours else paint(shades, max(abs(low), abs(high)))
        canvas.paste(Pillow.fromarray(painted), at)
        pen.rectangle((left - 1, top - 1, left + letter, top + size), outline=INK)
        for value, word in self._labels:
            y = top + (high - value) / ((high - low) or 1) * (size - 1)
            pen.line((left + letter, y, left + letter + gap // 2, y), INK)
            pen.text((left + letter + gap, y), word, INK, font, "lm")


@dataclass(frozen=True)
class Legend:
    """Colours with words: those of bytes of leaf_cause, each cause once, and the jump bit."""

    found: tuple[int, ...]
    title: str = "parent split by"

    @property
    def _entries(self) -> list[tuple[int, str]]:
        """Bytes for the colour, and words."""
        causes = sorted({byte & ~JUMP for byte in self.found})
        jumps = [(JUMP, JUMP_WORDS)] if any(byte & JUMP for byte in self.found) else []
        return [(cause, WORDS[Cause(cause)]) for cause in causes] + jumps

    def extent(self, font: Any, letter: int) -> tuple[int, int]:
        """See Side."""
        width = 2 * letter + width_of(font, [word for _, word in self._entries])
        return max(width, width_of(font, [self.title])), 2 * letter * len(self._entries) + letter // 2

    def draw(self, canvas: Any, pen: Any, font: Any, at: tuple[int, int], size: int, letter: int) -> None:
        """See Side."""
        from PIL import Image as Pillow

        left, top = at[0], at[1] + letter // 2
        for byte, word in self._entries:
            swatch = np.full((letter, letter), byte, np.uint8)
            canvas.paste(Pillow.fromarray(paint_causes(swatch)), (left, top))
            pen.rectangle((left - 1, top - 1, left + letter, top + letter), outline=INK)
            pen.text((left + 2 * letter, top + letter / 2), word, INK, font, "lm")
            top += 2 * letter


def width_of(font: Any, words: list[str]) -> int:
    """Pixels of the longest of some words."""
    return math.ceil(max(float(font.getlength(word)) for word in words))


def framed(plane: Image, field: Field, axis: str, heading: str, side: Side) -> Image:
    """Adds a heading, coordinates on two sides, and a scale or legend to a plane."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    size = len(plane)
    letter = max(11, size // 45)
    font = ImageFont.load_default(letter)
    origin, length = field.domain.origin, field.domain.length
    right, up = PLANES[axis]
    coordinates = ticks(origin[right], origin[right] + length), ticks(origin[up], origin[up] + length)
    gap = letter // 2
    left = width_of(font, [word for _, word in coordinates[1]]) + 2 * gap + letter
    top, bar, below = 2 * letter + gap, left + size + 2 * letter, 3 * letter + gap
    width, height = side.extent(font, letter)
    canvas = Pillow.new("RGB", (bar + width + gap, top + max(size + below, height)), "white")
    canvas.paste(Pillow.fromarray(plane), (left, top))
    pen = ImageDraw.Draw(canvas)
    pen.rectangle((left - 1, top - 1, left + size, top + size), outline=INK)
    side.draw(canvas, pen, font, (bar, top), size, letter)
    for value, word in coordinates[0]:
        x = left + (value - origin[right]) / length * size
        pen.line((x, top + size, x, top + size + gap // 2), INK)
        pen.text((x, top + size + gap), word, INK, font, "mt")
    for value, word in coordinates[1]:
        y = top + size - (value - origin[up]) / length * size
        pen.line((left - gap // 2, y, left - 1, y), INK)
        pen.text((left - gap, y), word, INK, font, "rm")
    pen.text((left, top - gap), heading, INK, font, "ls")
    pen.text(
        (left + size / 2, top + size + gap + letter + gap // 2), f"{'xyz'[right]}, in the mesh's units", INK, font, "mt"
    )
    pen.text((gap, top + size / 2), "xyz"[up], INK, font, "lm")
    pen.text((bar, top - gap), side.title, INK, font, "ls")
    return np.asarray(canvas)


def tiled(planes: list[Image], columns: int, headings: list[str], side: Side, axes: str) -> Image:
    """Planes row by row, a heading above each, a scale or legend next to them, and the names of their axes below."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    size, rows = len(planes[0]), -(-len(planes) // columns)
    letter = max(11, size * columns // 60)
    font = ImageFont.load_default(letter)
    gap, above = letter // 2, 2 * letter
    across, down = max(size, width_of(font, headings)) + gap, size + above
    bar, top = gap + columns * across + letter, above
    width, height = side.extent(font, letter)
    wide, below = max(bar + width, gap + width_of(font, [axes])), max(rows * down, top + height) + gap
    canvas = Pillow.new("RGB", (wide + gap, below + above), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((gap, below), axes, INK, font, "lt")
    for k, (plane, heading) in enumerate(zip(planes, headings, strict=True)):
        left, upper = gap + k % columns * across, k // columns * down + above
        canvas.paste(Pillow.fromarray(plane), (left, upper))
        pen.rectangle((left - 1, upper - 1, left + size, upper + size), outline=INK)
        pen.text((left, upper - gap), heading, INK, font, "ls")
    pen.text((bar, top - gap), side.title, INK, font, "ls")
    side.draw(canvas, pen, font, (bar, top), rows * down - above, letter)
    return np.asarray(canvas)


def ticks(low: float, high: float, step: float | None = None) -> list[tuple[float, str]]:
    """Multiples of a step between two numbers, with labels; by default, five to twelve."""
    step = step or nice_step((high - low) / 5)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(6, len(str(max(abs(first), abs(last)))) + 1)  # neighbours differ also far from 0
    return [(k * step, f"{k * step:.{digits}g}") for k in range(first, last + 1)]
