"""Chunks of HDF5 datasets, packed as by its filters: shuffle, deflate, fletcher32.

HDF5 packs chunks one by one, on one thread, and always searches for repeats. Residuals of distances are a few random
bits each, without repeats: run-length coding takes a fifth of the time, and packs them better.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

INFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
"""HDF5's codes of the filters."""
SUM = 4
"""Bytes of a checksum."""
SUMMED = 1 << 20
"""Words that are summed at a time; 64 bits are enough for 2^24."""
DEFLATE = 6
REGULAR = 0.3
"""Bytes per entry after run-length coding, below which repeats are searched for as well."""
PROBE, PROBE_EVERY, PACKS = 1 << 9, 1 << 13, 0.98
"""Bytes that are tried, of how many; and the ratio below which they all are packed."""
ZLIB_HEAD, LAST_BLOCK, MOST_STORED = b"\x78\x9c", b"\1\0\0\xff\xff", 0xFFFF


def packed(entries: npt.NDArray[Any], length: int, noisy: bool = False, quick: bool = False) -> bytes:
    """A packed chunk of `length` entries; missing ones at the end are zeros.

    noisy: whether the entries may have no repeats. quick: whether repeats are not searched for at all, and random bytes
    are stored as they are.
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
    """The planes, the n-th bytes of all entries each, as a stream of zlib (RFC 1950, 1951): those of which a
    sample does not get shorter are stored, others run-length coded."""
    sums, pieces = 1, [ZLIB_HEAD]
    for plane in planes:
        sums = zlib.adler32(plane, sums)
        probe = b"".join(plane[first : first + PROBE] for first in range(0, len(plane), PROBE_EVERY))
        short = len(_deflated(probe, zlib.Z_RLE)) < PACKS * len(probe)
        pieces += [_run_lengths(plane)] if short else map(_stored, _split(plane, MOST_STORED))
    return b"".join([*pieces, LAST_BLOCK, sums.to_bytes(4, "big")])


def _run_lengths(data: bytes) -> bytes:
    """Blocks of deflate, none of them the last."""
    deflate = zlib.compressobj(DEFLATE, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=zlib.Z_RLE)
    return deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)


def _stored(data: bytes) -> bytes:
    """A block of deflate with the data as it is, not the last."""
    size = len(data)
    return b"\0" + size.to_bytes(2, "little") + (size ^ MOST_STORED).to_bytes(2, "little") + data


def _split(data: bytes, length: int) -> list[bytes]:
    return [data[first : first + length] for first in range(0, len(data), length)]


def _deflated(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(DEFLATE, strategy=strategy)
    return deflate.compress(data) + deflate.flush()


def unpacked(data: bytes, filters: Sequence[int], itemsize: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes (size / itemsize, itemsize) of a chunk's entries. HDF5 itself reads beyond the end of a chunk that
    unpacks to less than it should.

    filters: codes of those that packed it, in their order, each at most once. size: of all entries, in bytes.

    Raises ValueError for a chunk that unpacks to another size, or does not fit its checksum.
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
    """Exactly `size` bytes from all of a stream of zlib. Raises ValueError."""
    inflate = zlib.decompressobj()
    try:
        whole = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(whole) != size or not inflate.eof or inflate.unused_data:
        raise ValueError("size")
    return whole


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum (1982) as in HDF5: of big-endian 16-bit words, an odd last byte padded with 0."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    first = second = 0
    for start in range(0, len(words), SUMMED):
        some = words[start : start + SUMMED].astype(np.uint64)
        weight = np.arange(len(some), 0, -1, dtype=np.uint64)
        second += len(some) * first + int((some * weight).sum())
        first += int(some.sum())
    return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
    """A sum with end-around carry: modulo 65,535, and 0 only for 0."""
    return (total - 1) % 0xFFFF + 1 if total else 0
