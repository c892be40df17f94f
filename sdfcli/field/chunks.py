"""HDF5 dataset chunks, packed as by the filters shuffle, deflate and fletcher32.

HDF5 packs chunks sequentially on one thread and always searches for repeats. Distance residuals are a few random bits
each, without repeats: run-length coding takes a fifth of the time and packs better.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

INFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
"""HDF5's filter codes."""
SUM = 4
"""Checksum size in bytes."""
SUMMED = 1 << 20
"""Words summed at once; 64 bits suffice for 2^24."""
DEFLATE = 6
REGULAR = 0.3
"""Bytes per entry after run-length coding below which a search for repeats is tried, too."""
PROBE, PROBE_EVERY, PACKS = 1 << 9, 1 << 13, 0.98
"""Sample bytes, sampling interval in bytes, and the sample's packing ratio below which a plane is packed."""
ZLIB_HEAD, LAST_BLOCK, MOST_STORED = b"\x78\x9c", b"\1\0\0\xff\xff", 0xFFFF


def packed(entries: npt.NDArray[Any], length: int, noisy: bool = False, quick: bool = False) -> bytes:
    """A packed chunk of `length` entries, padded with zeros.

    noisy: entries may lack repeats. quick: never search for repeats, and store random bytes unpacked.
    """
    whole = np.zeros(length, entries.dtype)
    whole[: len(entries)] = entries
    shuffled = whole.view(np.uint8).reshape(length, -1).T.tobytes()
    if quick:
        data = _quickly_deflated(_split(shuffled, length))
    else:
        data = _deflated(shuffled, zlib.Z_RLE) if noisy else b""
        if len(data) < REGULAR * length:
            data = min(filter(None, (data, _deflated(shuffled, zlib.Z_DEFAULT_STRATEGY))), key=len)
    return data + fletcher32(data).to_bytes(4, "little")


def _quickly_deflated(planes: list[bytes]) -> bytes:
    """Planes (each holds all entries' n-th bytes) as a zlib stream (RFC 1950, 1951): stored if a sample does not
    shrink, else run-length coded."""
    sums, pieces = 1, [ZLIB_HEAD]
    for plane in planes:
        sums = zlib.adler32(plane, sums)
        probe = b"".join(plane[first : first + PROBE] for first in range(0, len(plane), PROBE_EVERY))
        short = len(_deflated(probe, zlib.Z_RLE)) < PACKS * len(probe)
        pieces += [_run_lengths(plane)] if short else map(_stored, _split(plane, MOST_STORED))
    return b"".join([*pieces, LAST_BLOCK, sums.to_bytes(4, "big")])


def _run_lengths(data: bytes) -> bytes:
    """Non-final deflate blocks."""
    deflate = zlib.compressobj(DEFLATE, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=zlib.Z_RLE)
    return deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)


def _stored(data: bytes) -> bytes:
    """A non-final deflate block with stored data."""
    size = len(data)
    return b"\0" + size.to_bytes(2, "little") + (size ^ MOST_STORED).to_bytes(2, "little") + data


def _split(data: bytes, length: int) -> list[bytes]:
    return [data[first : first + length] for first in range(0, len(data), length)]


def _deflated(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(DEFLATE, strategy=strategy)
    return deflate.compress(data) + deflate.flush()


def unpacked(data: bytes, filters: Sequence[int], itemsize: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes (size / itemsize, itemsize) of a chunk's entries. HDF5 itself reads past the end of a chunk that
    unpacks to less than its size.

    filters: codes of the chunk's filters, in packing order, each at most once. size: unpacked bytes.

    Raises ValueError if the chunk unpacks to another size or does not match its checksum.
    """
    ends = [size]
    for code in filters:
        ends.append(ends[-1] + SUM if code == FLETCHER32 else ends[-1])
    for code, end in zip(reversed(filters), reversed(ends[:-1]), strict=True):
        if code == FLETCHER32:
            data, sums = data[:-SUM], data[-SUM:]
            if fletcher32(data).to_bytes(SUM, "little") != sums:
                raise ValueError("checksum")
        elif code == INFLATE:
            data = _inflated(data, end)
    if len(data) != size:
        raise ValueError("size")
    shape = (itemsize, -1) if SHUFFLE in filters else (-1, itemsize)
    entries = np.frombuffer(data, np.uint8).reshape(shape)
    return entries.T if SHUFFLE in filters else entries


def _inflated(data: bytes, size: int) -> bytes:
    """Exactly `size` bytes from a whole zlib stream. Raises ValueError otherwise."""
    inflate = zlib.decompressobj()
    try:
        whole = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(whole) != size or not inflate.eof or inflate.unused_data:
        raise ValueError("size")
    return whole


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum (1982) as in HDF5: over big-endian 16-bit words, an odd last byte padded with 0."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    first = second = 0
    for start in range(0, len(words), SUMMED):
        sums = np.cumsum(words[start : start + SUMMED], dtype=np.uint64)
        second += len(sums) * first + int(sums.sum())
        first += int(sums[-1])
    return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
    """A sum with end-around carry: modulo 65,535, and 0 only for 0."""
    return (total - 1) % 0xFFFF + 1 if total else 0
