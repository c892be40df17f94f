"""Memory for an octree's growth, by kind of entry; see kernels/octree/growth.h."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, C, Group

OF_CELLS = "chosen", "probed", "mask", "lent", "last"


class GrowthRoom:
    """The largest memory requested so far, and at least for `cells` new cells.

    most     array capacities by kind of entry.
    group    the arrays' kernel arguments.
    """

    group: Group | None

    def __init__(self, backend: Backend, seeds: int, cells: int, piece: int, kernels_answer: bool) -> None:
        """seeds: candidates per point. piece: maximum cells per chunk of new points. kernels_answer: whether kernels
        answer queries, whose results then need memory."""
        self._backend, xp = backend, backend.xp
        self._kinds: dict[str, dict[str, tuple[type, tuple[int, ...]]]] = {
            "listed": {"list": (np.uint32, ())},
            "chosen": dict.fromkeys(OF_CELLS, (np.uint32, ())),
            "flags": {"flag": (np.uint8, ())},
            "queried": {
                "row": (np.uint32, ()),
                "position": (np.float32, (3,)),
                "seed": (np.uint32, (seeds,)),
                "distance": (np.float32, ()),
            },
            "answered": {
                "slot": (np.uint32, ()),
                "before": (np.uint8, ()),
                "inside": (np.uint8, ()),
                "link": (np.uint64, ()),
                "queried": (np.uint32, ()),
                "winding": (np.float32, ()),
            },
        }
        self._fixed = {"seeds": seeds, "sums": xp.empty(C.STEP_SUMS, np.uint64), "many": xp.empty(2, np.uint32)}
        self._arrays: dict[str, Array] = {}
        self.most = dict.fromkeys(self._kinds, 0)
        queried = C.OWN_POINTS * min(cells, piece)
        most = {"listed": 2 * cells, "chosen": 2 * cells, "flags": 8 * cells + 8, "queried": queried}
        self.reserve({**most, "answered": queried if kernels_answer else 1})

    @property
    def listed(self) -> Array:
        """Cells to split, level by level."""
        return self._arrays["list"]

    def leading(self, count: int, *names: str) -> list[Array]:
        """The first entries of arrays."""
        return [self._arrays[name][:count] for name in names]

    def lacking(self, wanted: dict[str, int]) -> dict[str, int]:
        """The requested capacities that exceed the present ones."""
        return {kind: most for kind, most in wanted.items() if most > self.most[kind]}

    def reserve(self, wanted: dict[str, int]) -> None:
        """Grows arrays to the requested capacities; the list keeps its entries."""
        backend, arrays = self._backend, self._arrays
        wanted = self.lacking(wanted)
        if not wanted:
            return
        self.group = None  # it holds arrays that are freed here
        for kind, most in wanted.items():
            had = self.most[kind]
            for name, (dtype, shape) in self._kinds[kind].items():
                old: Array | None = arrays.pop(name, None)
                size = most if old is None else max(most, had + backend.memory.spare(had, old.nbytes))
                if old is not None and name == "list":
                    arrays[name] = backend.grown(old, size, len(old))
                else:
                    del old  # its memory can be reused
                    arrays[name] = backend.xp.empty((size, *shape), dtype)
            self.most[kind] = min(len(arrays[name]) for name in self._kinds[kind])
        most_of = {f"most_{kind}": most for kind, most in self.most.items()}
        self.group = backend.group("GrowthRoom", **self._fixed, **most_of, **arrays)

    def queries(self) -> dict[str, Array]:
        """Arrays for queried points and results, named as in `asking_about`."""
        names = {"points": "position", "seed": "seed", "distance": "distance", "slot": "slot"}
        most = min(self.most["queried"], self.most["answered"])
        return {name: self._arrays[own][:most] for name, own in names.items()}

    def windings(self) -> dict[str, Array]:
        """Arrays for winding number queries, named as in `sdf_winding_single`."""
        arrays, many = self._arrays, self._fixed["many"]
        names = {"points": "position", "queried": "queried", "winding": "winding", "left": "row"}
        named = {name: arrays[own] for name, own in names.items()}
        return {"count": len(arrays["queried"]), **named, "many_left": many[1:]}
