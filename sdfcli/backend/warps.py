"""Backend operations as WARP and GRID kernels."""

from __future__ import annotations

import numpy as np

from sdfcli.backend.arguments import Array, C
from sdfcli.backend.base import WARP, Backend, MemoryPolicy

FEW = 8192
"""Maximum entries compacted by a single warp, which is faster than two launches."""
MOST_RUNS = 4096
"""Maximum runs of a compaction; each warp sums their counts."""
LEAST_MANY = 1 << 21
"""Minimum entries of a sort or scan left to a library, whose kernels take 40 ms to load."""
RUN = C.RUN
"""Entries per warp, as in base/sort.h."""


def wide_runs(n: int) -> tuple[int, int]:
    """Run count of n entries, and run length, a multiple of WARP."""
    run = max(RUN, WARP * -(-n // (WARP * MOST_RUNS)))
    return -(-n // run), run


class WarpBackend(Backend):
    """A device with warps and its own memory."""

    warps = True
    memory = MemoryPolicy(scarce=True)

    def table_steps(self, rows: int, columns: int) -> tuple[int, int]:
        return 1, rows  # a warp reads entries of one column together

    def grid_sort(self, keys: Array, ordered: bool = True) -> Array | None:
        """`sort` as one GRID kernel. ordered: return the permutation; else None."""
        xp, n = self.xp, len(keys)
        own, other = ("short_keys", "short_other") if keys.dtype == np.uint32 else ("keys", "other")
        arrays = dict.fromkeys(("short_keys", "short_other", "keys", "other", "order", "next"))
        arrays |= {own: keys, other: xp.empty_like(keys)}
        if ordered:
            arrays |= {"order": xp.empty(n, np.int64), "next": xp.empty(n, np.uint32)}
        zeros = xp.zeros(5, np.uint32)
        arrays |= {"set": zeros[:4], "arrivals": zeros[4:], "totals": xp.empty(256, np.uint32)}
        if n:
            counts = xp.empty(256 * min(C.SCAN_RUNS, -(-n // RUN)), np.uint32)
            self.run("sdf_radix_sort", WARP * (len(counts) // 256), count=n, counts=counts, **arrays)
        return arrays["order"]

    def grid_scan(self, values: Array) -> None:
        """`inclusive_scan` as one GRID kernel."""
        xp, wide = self.xp, values.dtype.itemsize == 8
        given = {"values": None, "wide": values} if wide else {"values": values, "wide": None}
        scratch = {"sums": xp.empty(C.SCAN_RUNS, np.uint64), "arrivals": xp.zeros(1, np.uint32)}
        if values.size:
            warps = min(C.SCAN_RUNS, -(-values.size // RUN))
            self.run("sdf_scan", WARP * warps, count=values.size, **given, **scratch)

    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, Array]:
        xp, n = self.xp, len(values)
        if n == 0:
            return xp.empty(0, np.uint32), xp.zeros(kinds, np.uint32)
        runs = -(-n // RUN)
        end, ends, order = (xp.empty(k, np.uint32) for k in (kinds * runs, kinds, n))
        counted = {"count": n, "levels": kinds, "level": values}
        self.run("sdf_level_count", WARP * runs, counts=end, **counted)
        self.inclusive_scan(end)
        self.run("sdf_level_order", WARP * runs, first=first, end=end, order=order, ends=ends, **counted)
        return order, ends

    def compact(self, flags: Array, known: int | None = None) -> Array:
        xp, n = self.xp, len(flags)
        if 0 < n <= FEW:
            chosen, last = xp.empty(n, np.uint32), xp.empty(1, np.uint32)
            self.run("sdf_chosen", WARP, count=n, flag=flags, chosen=chosen, last=last)
            return chosen[: int(self.to_host(last)[0])]
        if n == 0:
            return xp.empty(0, np.uint32)
        runs, run = wide_runs(n)
        counts, total = xp.empty(runs, np.uint32), xp.zeros(1, np.uint32)
        given = {"count": n, "run": run, "flag": flags, "counts": counts}
        self.run("sdf_chosen_count", WARP * runs, total=total, **given)
        chosen = xp.empty(int(self.to_host(total)[0]) if known is None else known, np.uint32)
        self.run("sdf_chosen_list", WARP * runs, chosen=chosen, **given)
        return chosen
