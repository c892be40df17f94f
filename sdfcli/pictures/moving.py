"""Moving pictures: GIF and animated PNG, written picture by picture, so that memory does not grow with their count.

Pillow compresses each picture; the blocks between pictures are written here, as Pillow retains all pictures until the
end. After the first picture, only the changed rectangle is stored.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]

GIF_LEAST = 2
"""Minimum duration per GIF picture, in 1/100 s: many programs show shorter ones for 0.1 s."""
GIF_COLOURS = 255
"""Maximum palette size; the 256th entry marks unchanged pixels."""
LONGEST = 0xFFFF
"""Maximum duration per picture, in 1/100 s for GIF, 1/1000 s for PNG."""
PIECE = 1 << 14
"""Colours compared with the palette per chunk."""


def write_gif(path: Path, pictures: Iterable[Picture], seconds: Sequence[float], samples: Sequence[Picture]) -> None:
    """Writes pictures (h, w, 3), each shown for its number of seconds, in an endless loop.

    samples: similar pictures, for the palette. One palette serves all, without dithering, so that nothing flickers.
    """
    palette = Palette(samples)
    still, before = GIF_COLOURS, None
    with open(path, "wb") as file:
        for picture, hundredths in zip(pictures, delays(seconds, 100, GIF_LEAST), strict=True):
            colour = palette.nearest(picture)
            if before is None:
                file.write(
                    b"GIF89a"
                    + struct.pack("<HHBBB", *colour.shape[::-1], 0xF7, 0, 0)
                    + palette.colours.tobytes().ljust(768, b"\0")
                )
                file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0")  # endless loop
            top, left, bottom, right = changed(colour, before)
            part = colour[top:bottom, left:right]
            if before is not None:
                part = np.where(part == before[top:bottom, left:right], np.uint8(still), part)
            file.write(b"\x21\xf9\x04" + struct.pack("<BHBB", 0b101, hundredths, still, 0))  # not disposed, has `still`
            file.write(b"\x2c" + struct.pack("<HHHHB", left, top, *part.shape[::-1], 0) + _lzw(part))
            before = colour
        file.write(b"\x3b")


def write_apng(path: Path, pictures: Iterable[Picture], seconds: Sequence[float]) -> None:
    """Writes pictures (h, w, 3), each shown for its number of seconds, in an endless loop."""
    number, before = 0, None
    with open(path, "wb") as file:
        for picture, thousandths in zip(pictures, delays(seconds, 1000, 1), strict=True):
            top, left, bottom, right = changed(picture, before)
            chunks = list(_png_chunks(picture[top:bottom, left:right]))
            if before is None:
                file.write(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", chunks[0][1]))
                file.write(_chunk(b"acTL", struct.pack(">II", len(seconds), 0)))  # endless loop
            place = right - left, bottom - top, left, top
            file.write(_chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, *place, thousandths, 1000, 0, 0)))
            number += 1
            for name, data in chunks:
                if name == b"IDAT" and before is None:
                    file.write(_chunk(b"IDAT", data))
                elif name == b"IDAT":
                    file.write(_chunk(b"fdAT", struct.pack(">I", number) + data))
                    number += 1
            before = picture
        file.write(_chunk(b"IEND", b""))


def delays(seconds: Sequence[float], unit: int, least: int) -> list[int]:
    """Durations as integers in 1/unit s, `least` or more; rounding errors do not accumulate."""
    ends = np.rint(unit * np.cumsum(seconds))
    return [int(x) for x in np.clip(np.diff(ends, prepend=0), least, LONGEST)]


def gif_seconds(seconds: Sequence[float]) -> list[float]:
    """Durations as a GIF stores them."""
    return [each / 100 for each in delays(seconds, 100, GIF_LEAST)]


def changed(picture: Picture, before: Picture | None) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of the changed rectangle: all of a first picture, one pixel if nothing changed."""
    if before is None:
        return 0, 0, *picture.shape[:2]
    differs = picture != before
    if differs.ndim == 3:
        differs = differs.any(axis=2)
    rows, columns = (np.flatnonzero(differs.any(axis=axis)) for axis in (1, 0))
    if len(rows) == 0:
        return 0, 0, 1, 1
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


class Palette:
    """Colours (n, 3) of a GIF, n <= GIF_COLOURS, chosen for pictures (h, w, 3)."""

    def __init__(self, samples: Sequence[Picture]) -> None:
        from PIL import Image

        rows = Image.fromarray(np.concatenate(samples))
        made = rows.quantize(GIF_COLOURS, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
        self.colours = np.array(made.getpalette(), np.uint8).reshape(-1, 3)[:GIF_COLOURS]
        self._entry = np.full(1 << 24, -1, np.int16)  # by colour, -1: not yet known

    def nearest(self, picture: Picture) -> Picture:
        """Indices (h, w) of the nearest colours. Pillow's search is approximate: smooth backgrounds get stripes."""
        red, green, blue = np.moveaxis(picture.astype(np.int32), 2, 0)
        packed = red << 16 | green << 8 | blue
        new = np.unique(packed[self._entry[packed] < 0])
        table = self.colours.astype(np.float32)  # exact: squared distances are integers below 2^24
        for first in range(0, len(new), PIECE):
            part = new[first : first + PIECE]
            colour = (part[:, None] >> np.array([16, 8, 0]) & 255).astype(np.float32)
            self._entry[part] = ((table**2).sum(axis=1) - 2 * colour @ table.T).argmin(axis=1)
        return np.asarray(self._entry[packed], np.uint8)


def _lzw(colour: Picture) -> bytes:
    """Compressed palette indices (h, w): the data after the image descriptor in a GIF with only this picture."""
    from PIL import Image

    image = Image.fromarray(colour)  # grey: Pillow leaves all 256 entries unchanged
    file = io.BytesIO()
    image.save(file, "GIF", optimize=False, interlace=0)
    data = file.getvalue()
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    while data[at] == 0x21:  # extensions
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    at += 10 + (3 << (data[at + 9] & 7) + 1 if data[at + 9] & 0x80 else 0)
    return data[at:-1]


def _png_chunks(picture: Picture) -> Iterator[tuple[bytes, bytes]]:
    """Names and data of a PNG file's chunks."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return _chunks_in(io.BytesIO(file.getvalue()[8:]))


def _chunks_in(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    while head := file.read(8):
        length, name = struct.unpack(">I4s", head)
        yield name, file.read(length)
        file.read(4)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
