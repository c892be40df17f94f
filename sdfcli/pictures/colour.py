"""Colours in Oklab (Ottosson 2020, "A perceptual color space"): shades, and a diverging map, perceptually uniform."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_TO_LMS = np.array(
    [[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.2914855480]]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)

STEPS = 255
"""Colours on each side of white."""

MIDDLE, END = 0.97, 0.52
"""Lightness of white and both ends."""

CHROMA = 0.135
BLUE, RED = 255.0, 38.0
"""Hues, in degrees."""


def oklab_to_srgb(lab: npt.ArrayLike) -> Floats:
    """Converts Oklab (..., 3) to sRGB (..., 3), clipped to 0 .. 1."""
    linear = np.clip((np.asarray(lab) @ _TO_LMS.T) ** 3 @ _TO_RGB.T, 0, 1)
    return np.asarray(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))


def shade(lightness: float, chroma: float, hue: float) -> tuple[int, int, int]:
    """A colour of Oklab in 8 bits. hue: in degrees."""
    around = np.radians(hue)
    red, green, blue = np.rint(255 * oklab_to_srgb([lightness, chroma * np.cos(around), chroma * np.sin(around)]))
    return int(red), int(green), int(blue)


@functools.cache
def diverging_table() -> npt.NDArray[np.uint8]:
    """Colour table (2 STEPS + 1, 3) from blue through white to red, lightness and chroma linear on both sides."""
    t = np.arange(-STEPS, STEPS + 1) / STEPS
    hue = np.radians(np.where(t < 0, BLUE, RED))
    far = np.abs(t)
    lab = [MIDDLE + (END - MIDDLE) * far, CHROMA * far * np.cos(hue), CHROMA * far * np.sin(hue)]
    return np.asarray((255 * oklab_to_srgb(np.stack(lab, axis=-1))).round(), np.uint8)


def diverging(t: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """Colours (..., 3) for numbers (...) from -1, blue, to 1, red; 0 is white."""
    place = np.clip(np.rint(t * STEPS), -STEPS, STEPS).astype(np.int16) + STEPS
    return np.asarray(diverging_table()[place])
