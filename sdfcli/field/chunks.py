"""Chunks of HDF5 datasets, packed as by its filters: shuffle, deflate, fletcher32.

HDF5 packs chunks one by one, on one thread, and always searches for repeats. Residuals of distances are a few random
bits each, without repeats: run-length coding takes a fifth of the time, and packs them better.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

DEFLATE = 6
REGULAR = 0.3
"""Bytes per entry after run-length coding, below which repeats are searched for as well."""


def packed(entries: npt.NDArray[Any], length: int, noisy: bool = False, quick: bool = False) -> bytes:
    """A packed chunk of `length` entries; missing ones at the end are zeros.

    noisy: whether the entries may have no repeats. quick: whether repeats are not searched for.
    """
    whole = np.zeros(length, entries.dtype)
    whole[: len(entries)] = entries
    shuffled = whole.view(np.uint8).reshape(length, -1).T.tobytes()
    data = _deflated(shuffled, zlib.Z_RLE) if noisy or quick else b""
    if len(data) < REGULAR * length and not quick:
        data = min(filter(None, (data, _deflated(shuffled, zlib.Z_DEFAULT_STRATEGY))), key=len)
    return data + fletcher32(data).to_bytes(4, "little")


def _deflated(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(DEFLATE, strategy=strategy)
    return deflate.compress(data) + deflate.flush()


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum (1982) as in HDF5: of big-endian 16-bit words, an odd last byte padded with 0."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype(np.uint64)
    weight = np.arange(len(words), 0, -1, dtype=np.uint64)
    first, second = int(words.sum()), int((words * weight).sum())  # exact below 2^24 words
    return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
    """A sum with end-around carry: modulo 65,535, and 0 only for 0."""
    return (total - 1) % 0xFFFF + 1 if total else 0
