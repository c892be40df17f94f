"""Constants that the kernels and Python share are written once, or are held equal here."""

from __future__ import annotations

import re

import pytest

from sdfcli import params
from sdfcli.backend import C
from sdfcli.backend.headers import headers
from sdfcli.extract import tables
from sdfcli.octree import levels


def test_constants_are_the_headers() -> None:
    assert (C.NONE, C.OUTSIDE, C.WARP, C.LATTICE_BITS) == (0xFFFFFFFF, 0xFFFFFFFE, 32, 20)
    assert (C.OPPOSED, C.DISTANCE_ERROR, C.BOX_MARGIN) == (-0.8, 1.6e-5, 2.0**-20)
    declared = re.findall(r"^constexpr \w+ SDF_(\w+) =", headers()["base/constants.h"], re.MULTILINE)
    assert len(declared) > 20
    assert [name for name in declared if not isinstance(getattr(C, name), (int, float))] == []


def test_an_unknown_constant_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"constants\.h has no SDF_NOWHERE"):
        _ = C.NOWHERE


def test_the_states_of_cells() -> None:
    (listed,) = re.findall(r"enum State \{ (.*?) \};", headers()["octree/levels.h"])
    assert [getattr(levels, name) for name in listed.split(", ")] == list(range(5))


def test_numbers_with_another_name_in_python() -> None:
    assert params.WIDEST_SHEET == C.SHEET_WIDEST  # params.py reads no file
    assert tables.ROW == C.TABLE_ROW
