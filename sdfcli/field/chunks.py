"""Chunks of HDF5 datasets, packed as its filters do: shuffle, deflate, fletcher32.

HDF5 packs one chunk after the other, on one thread, and always looks for repeats. What a file codes of distances is a
few bits each that look random, with repeats by chance only: runs alone are found in a fifth of the time, and pack them
better.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

DEFLATE = 6
REGULAR = 0.3
"""Where runs alone bring entries down to so many bytes each, repeats are worth looking for, too."""


def packed(entries: npt.NDArray[Any], length: int, noisy: bool = False) -> bytes:
    """A chunk of so many entries, of which the last ones may be missing: the file has zeros there.

    noisy: whether it may be that there are no repeats.
    """
    whole = np.zeros(length, entries.dtype)
    whole[: len(entries)] = entries
    shuffled = whole.view(np.uint8).reshape(length, -1).T.tobytes()
    data = _deflated(shuffled, zlib.Z_RLE) if noisy else b""
    if len(data) < REGULAR * length:
        data = min(filter(None, (data, _deflated(shuffled, zlib.Z_DEFAULT_STRATEGY))), key=len)
    return data + fletcher32(data).to_bytes(4, "little")


def _deflated(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(DEFLATE, strategy=strategy)
    return deflate.compress(data) + deflate.flush()


def fletcher32(data: bytes) -> int:
    """The checksum of Fletcher (1982) as HDF5 has it: of 16-bit words, high byte first; after an odd last byte a 0."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype(np.uint64)
    weight = np.arange(len(words), 0, -1, dtype=np.uint64)
    first, second = int(words.sum()), int((words * weight).sum())  # exact below 2^24 words
    return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
    """A sum modulo 65,535, which is 0 only where the sum is: carries are added at the low end."""
    return (total - 1) % 0xFFFF + 1 if total else 0
