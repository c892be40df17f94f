"""A build's proof: bounds on its field's error, and the leaves to split where they exceed the tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Grown, LeafNames, Limits, Progress
from sdfcli.params import BuildParams
from sdfcli.quality.as_given import GivenMesh
from sdfcli.quality.prove import LeafBounds, Proof, bound_leaves, conclude, excluded_leaves

ROUNDS = 6
"""Maximum rounds of splits. Most leaves need one; at creases of the distance a split halves the error."""

CHILDREN_MORE = 7
"""Leaves added by a split."""

RETRY = 0.9
"""Share of the leaves that may fit, for another attempt after neighbours were split, too."""


class Certifier:
    """Bounds the error of a build's fields, the first and those with more splits, and names leaves to split.

    A new leaf, or one with other distances, is bounded anew; the others' bounds stay.

    proof: the last field's.
    """

    def __init__(
        self, given: Mesh, signed: bool, backend: Backend, params: BuildParams, share: float, progress: Progress
    ) -> None:
        """given: the mesh as given. share: of more leaves than the first field's."""
        self._reference, self._backend, self._unit = GivenMesh(given, signed, backend), backend, given.unit
        self._params, self._share, self._progress = params, share, progress
        self._field: Field
        self._leaves: LeafBounds | None = None
        self.proof: Proof
        self._first = self._more = 0
        self._limit: str | None = None

    def prove(self, field: Field) -> None:
        """Bounds a field's error."""
        given = self._reference, self._backend, self._unit, self._params.tolerance, self._params.band, self._progress
        if self._leaves is None:
            self._leaves, self._first = bound_leaves(field, *given), field.leaves
        else:
            place, same = self._kept(self._field, field)
            chosen = np.flatnonzero(~same)
            self._leaves = LeafBounds(*(each[place] for each in self._leaves))
            known = float(self._leaves.found[same & ~excluded_leaves(self._leaves.mark)].max(initial=0.0))
            new = bound_leaves(field, *given, self._backend.from_host(chosen), known)
            for array, own in zip(self._leaves, new, strict=True):
                array[chosen] = own
        self._field = field
        self.proof = conclude(field, self._reference, self._leaves, self._params.tolerance)

    def _kept(self, old: Field, new: Field) -> tuple[Any, Any]:
        """For a new field's leaves: indices (n,) into the old field's, and whether these leaves are the same."""
        backend, xp = self._backend, self._backend.xp
        before, after = old._arrays_on(backend), new._arrays_on(backend)
        place = xp.searchsorted(before["leaf_key"], after["leaf_key"])
        place = xp.minimum(place, len(before["leaf_key"]) - 1)
        same: Array = (before["leaf_key"][place] == after["leaf_key"]) & (
            before["leaf_level"][place] == after["leaf_level"]
        )
        for c in range(8):
            same &= before["value"][before["leaf_corner"][place, c]] == after["value"][after["leaf_corner"][:, c]]
        return backend.to_host(place), backend.to_host(same)

    def splits(self, limits: Limits) -> Iterator[Limits]:
        """A build's limits with more and more splits, until nothing is left to split. Each octree is to be given to
        `fits`, and its field to `prove` if it fits."""
        while (leaves := self._to_split(limits)) is not None:
            while leaves is not None:
                trial = replace(limits, splits=(*limits.splits, leaves))
                yield trial
                if self._more == 0:
                    self._limit = "rounds"
                    return
                if self._more <= self._room:
                    limits = trial
                    break
                leaves = self._fewer(leaves)
            else:
                return

    def fits(self, grown: Grown) -> bool:
        """Whether an octree has few enough leaves."""
        self._more = len(grown.arrays["leaf_key"]) - self._field.leaves
        return self._more <= self._room

    @property
    def _room(self) -> int:
        """How many leaves may be added to the last field's."""
        return int((1.0 + self._share) * self._first) - self._field.leaves

    def _to_split(self, limits: Limits) -> LeafNames | None:
        """The leaves to split next, those with the largest bounds, as many as may fit; None: no more."""
        field, proof, self._limit = self._field, self.proof, None
        missed = [leaves for reason, leaves in proof.unproven.items() if reason not in ("jump", "open hole")]
        leaves = np.concatenate([np.zeros(0, np.int64), *missed])
        coarse = leaves[field.leaf_level[leaves] < limits.depth]
        if len(leaves) == 0:
            return None
        if self._params.octree != "adaptive":
            self._limit = "octree"
        elif len(coarse) == 0:
            self._limit = "depth"
        elif self._room < CHILDREN_MORE:
            self._limit = "leaves"
        elif len(limits.splits) >= ROUNDS:
            self._limit = "rounds"
        if self._limit:
            return None
        worst = coarse[np.lexsort((coarse, -proof.bound[coarse]))[: self._room // CHILDREN_MORE]]
        return LeafNames(field.leaf_key[worst], field.leaf_level[worst])

    def _fewer(self, leaves: LeafNames) -> LeafNames | None:
        """Fewer leaves to split, where their splits took too many new leaves; None: none."""
        count = int(RETRY * len(leaves.key) * self._room / self._more)
        if count == 0:
            self._limit = "leaves"
            return None
        return LeafNames(leaves.key[:count], leaves.level[:count])

    def info(self) -> dict[str, Any]:
        """Entries of the last field's info."""
        found = self.proof.as_info()
        found["certificate"] |= {
            "most_leaves": self._share,
            "more_leaves": self._field.leaves - self._first,
            "limit": self._limit,
        }
        return found
