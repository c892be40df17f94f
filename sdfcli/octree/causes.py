"""Leaf causes: the test that split the parent, one byte per leaf."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import C
from sdfcli.errors import InputError

Bytes = npt.NDArray[np.uint8]


class Cause(IntEnum):
    """First test that requested a cell's split; enum Cause in kernels/octree/levels.h."""

    ROOT = 0
    ERROR = 1
    BEND = 2
    SURFACE = 3
    SHEET = 4
    BALANCE = 5
    HANGING = 6
    WAVE = 7
    PROOF = 8


WORDS = {
    Cause.ROOT: "the domain is one leaf",
    Cause.ERROR: "error at a point",
    Cause.BEND: "bend between points",
    Cause.SURFACE: "surface missed at a vertex",
    Cause.SHEET: "thin wall or gap",
    Cause.BALANCE: "2:1 balance",
    Cause.HANGING: "hanging corners",
    Cause.WAVE: "ahead of a wave",
    Cause.PROOF: "error not proven",
}
"""Descriptions for tables and legends."""
JUMP = int(C.CAUSE_JUMP)
"""Flag bit added to the cause: the leaf was left coarse at a sign jump."""
JUMP_WORDS = "left at a sign jump"


def required(leaf_cause: Bytes | None) -> Bytes:
    """Returns a field's cause bytes. Raises InputError if it stores none."""
    if leaf_cause is None:
        raise InputError("the field stores no causes; build it with --why (in Python why=True)")
    return leaf_cause


def causes_of(leaf_cause: Bytes) -> Bytes:
    """Causes (n,) without the flag bit."""
    return np.asarray(leaf_cause & np.uint8(JUMP ^ 0xFF))


def is_known(leaf_cause: Bytes) -> bool:
    """Whether all bytes (n,) are causes, with or without the flag bit."""
    return bool((causes_of(leaf_cause) <= max(Cause)).all())


def counts(leaf_cause: Bytes) -> dict[str, int]:
    """Leaf counts by lower-case cause name, for all causes, and `jump`: leaves with the flag bit."""
    found: Any = np.bincount(causes_of(leaf_cause), minlength=len(Cause)).tolist()
    named = {cause.name.lower(): found[cause] for cause in Cause}
    return {**named, "jump": int(np.count_nonzero(leaf_cause & JUMP))}
