"""ShiftedSort: approximate nearest neighbours among vectors, along shifted Morton curves (see neighbours/shifted.h).

After Chan 1997 (the shifts), Li et al. 2012 (on a GPU) and Park 2019 (six dimensions, here up to sixteen).
"""

from __future__ import annotations

import numpy as np

from sdfcli.backend import WARP, Array, Backend, Group
from sdfcli.errors import UsageError
from sdfcli.spatial.morton import MORTON_BITS

MOST_NEIGHBOURS = 32
"""Maximum k."""

FEW = 8
"""Maximum k for kernels without the suffix `_many`, which keep the list in registers."""

LANES = (1, 2, 4, 8, 16)
"""Values of k for which `candidates` can use warp lanes."""

MOST_SHIFTS = 64
"""Maximum curve count."""

CELL_BITS = MORTON_BITS - 1
"""Bits per coordinate before the shift."""


SIZES = (3, 4, 5, 6, 8, 12, 16)
"""Dimensions with compiled kernels."""


def padded(backend: Backend, vectors: Array) -> Array:
    """Vectors (n, d) with zeros up to the next of SIZES, which leaves distances and the order along curves as they are:
    all codes have the same additional bits."""
    n, d = vectors.shape
    more = min(size for size in SIZES if size >= d) - d
    return backend.xp.concatenate([vectors, backend.xp.zeros((n, more), vectors.dtype)], axis=1) if more else vectors


def default_shifts(dimension: int) -> int:
    """Shift count with which some curve keeps close vectors close (Chan 1997): d + 1, rounded up to an odd number."""
    return dimension + 1 + dimension % 2


def for_k(kernel: str, k: int) -> str:
    """Name of the kernel whose list has capacity for k neighbours."""
    return kernel if k <= FEW else f"{kernel}_many"


def _is_count(value: object, most: int) -> bool:
    """Whether a value is an integer from 1 to `most`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= most


def check_neighbours(k: int, name: str = "k") -> None:
    """Raises UsageError unless k is an integer in range."""
    if not _is_count(k, MOST_NEIGHBOURS):
        raise UsageError(f"{name} {k}: use 1 to {MOST_NEIGHBOURS}")


class ShiftedSort:
    """Vectors on a device, sorted along curves shifted along the unit cube's diagonal.

    data: (n, d) float32 in the unit cube, d one of SIZES. Query vectors may lie outside: they are coded at the nearest
    location inside. shifts: curve count; default: `default_shifts`. words: 64-bit words per code; default: 1 up to four
    dimensions, above as many as 21 bits per axis and one more need. together: whether a code's words are adjacent in
    memory, as in the paper. bits: per axis; default: 21, or as many as the words take. Curves are built on first use
    and cached: 4 + 8 * words bytes per vector each.

    Raises UsageError for an invalid shift count.
    """

    def __init__(
        self,
        backend: Backend,
        data: Array,
        shifts: int | None = None,
        words: int | None = None,
        together: bool = False,
        bits: int | None = None,
    ) -> None:
        self.backend, self.data = backend, data
        self.dimension: int = data.shape[1]
        self.shifts = default_shifts(self.dimension) if shifts is None else shifts
        if not _is_count(self.shifts, MOST_SHIFTS):
            raise UsageError(f"shifts {self.shifts}: use 1 to {MOST_SHIFTS}")
        self.words = words or (1 if self.dimension <= 4 else -(-(MORTON_BITS * self.dimension + 1) // 64))
        self.bits = bits or min(MORTON_BITS, (64 * self.words - 1) // self.dimension)
        self._together = together and self.words > 1
        self._curves: dict[int, tuple[Group, Array]] = {}

    def candidates(
        self, queries: Array, k: int, shifts: int | None = None, *, joint: bool = False, lanes: bool = False
    ) -> tuple[Array, Array]:
        """The nearest among the 2 k data around each query (m, d) float32 on each curve, by distance, then index.

        shifts: number of curves used. joint: whether data and queries are sorted together for each curve, as in the
        paper; by default, each query is searched in the sorted data. lanes: whether each query uses 2 k warp lanes, as
        in the paper; needs k in LANES and a device with warps. Neither changes the results, nor do other queries.

        Returns squared distances (m, k) float32 and data indices (m, k) uint32. If there are fewer than k: infinite,
        and 0xffffffff.
        """
        backend, xp, m = self.backend, self.backend.xp, len(queries)
        distance_sq, nearest = xp.empty((m, k), np.float32), xp.empty((m, k), np.uint32)
        for j in range(self.shifts if shifts is None else shifts):
            number, place = self._merged(queries, j) if joint else self._searched(queries, j)
            values = {
                "data": len(self.data),
                "dimension": self.dimension,
                "k": k,
                "more": j > 0,
                "query": queries,
                "vector": self.data,
                "number": number,
                "place": place,
                "distance_sq": distance_sq,
                "nearest": nearest,
            }
            if lanes:
                backend.run("sdf_shift_warp", WARP * -(-2 * k * m // WARP), queries=m, **values)
            else:
                backend.run(for_k("sdf_shift_best", k), m, **values)
        return distance_sq, nearest

    def has_lanes(self, k: int) -> bool:
        """Whether `candidates` can find k neighbours with warp lanes on this device."""
        return self.backend.warps and k in LANES

    def shift(self, j: int) -> int:
        """Curve j's shift in cells of 2^-20: j / s of the cube for s curves, j / (s + 1) if s is even. Even
        denominators would leave small cells' borders in place (Chan 1997)."""
        return (j << CELL_BITS) // (self.shifts | 1)

    def _codes(self, vectors: Array, j: int, tag: int) -> Array:
        """Codes (words, n) uint64 along curve j, the highest word first."""
        codes = self.backend.xp.empty((self.words, len(vectors)), np.uint64)
        self.backend.run(
            "sdf_shift_codes",
            len(vectors),
            dimension=self.dimension,
            words=self.words,
            bits=self.bits,
            shift=self.shift(j),
            tag=tag,
            vector=vectors,
            code=codes,
        )
        return codes

    def _sorted(self, codes: Array) -> tuple[Array, Array]:
        """Sorted codes (words, n), and the stable permutation (n,) int64: a pass per word, the lowest first."""
        order = self.backend.sort(codes[-1].copy())
        for word in codes[-2::-1]:
            order = order[self.backend.sort(word[order])]
        return codes[:, order], order

    def along(self, vectors: Array) -> Array:
        """A permutation (m,) int64 that sorts vectors (m, d) float32 along the first curve, by their codes' first word:
        adjacent vectors share neighbours."""
        return self.backend.sort(self._codes(vectors, 0, 1)[0])

    def curve(self, j: int) -> tuple[Group, Array]:
        """The data's sorted codes along curve j, and the data indices (n,) uint32 in this order."""
        if j not in self._curves:
            self._curves[j] = self._make_curve(j)
        return self._curves[j]

    def _make_curve(self, j: int) -> tuple[Group, Array]:
        codes, order = self._sorted(self._codes(self.data, j, 0))
        if self._together:
            codes = self.backend.xp.ascontiguousarray(codes.T)
        group = self.backend.group(
            "Codes", count=len(self.data), words=self.words, together=self._together, word=codes.reshape(-1)
        )
        return group, order.astype(np.uint32)

    def _searched(self, queries: Array, j: int) -> tuple[Array, Array]:
        """Data indices (n,) along curve j, and the count of data before each query, (m,) uint32."""
        codes, number = self.curve(j)
        place = self.backend.xp.empty(len(queries), np.uint32)
        self.backend.run(
            "sdf_shift_search",
            len(queries),
            dimension=self.dimension,
            bits=self.bits,
            shift=self.shift(j),
            query=queries,
            codes=codes,
            place=place,
        )
        return number, place

    def _merged(self, queries: Array, j: int) -> tuple[Array, Array]:
        """The same as `_searched`, by sorting data and queries together (Park 2019, Li et al. 2012)."""
        backend, xp, n = self.backend, self.backend.xp, len(self.data)
        both = xp.concatenate([self._codes(self.data, j, 0), self._codes(queries, j, 1)], axis=1)
        _, order = self._sorted(both)
        before = (order < n).astype(np.uint32)
        backend.inclusive_scan(before)
        number, place = xp.empty(n, np.uint32), xp.empty(len(queries), np.uint32)
        backend.run("sdf_shift_merged", len(order), data=n, order=order, before=before, number=number, place=place)
        return number, place
