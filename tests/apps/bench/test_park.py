"""The paper's figures are copied without slips: what its text says of them, and Table 5, follow from Table 4."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sdfcli.apps.bench import park


def test_every_size() -> None:
    assert list(park.MILLISECONDS) == [2**power for power in range(12, 24)]
    assert all(len(row) == len(park.METHODS) for row in park.MILLISECONDS.values())


def test_sums_of_columns() -> None:
    """Added up from the paper's text, by a script."""
    assert [sum(column) for column in zip(*park.MILLISECONDS.values(), strict=True)] == [3722, 158249, 3096, 132896]


def test_twice_the_queries_take_about_twice_as_long() -> None:
    rows = list(park.MILLISECONDS.values())
    for fewer, more in pairwise(rows[4:]):
        for before, after in zip(fewer, more, strict=True):
            assert 1.6 < after / before < 2.2


@pytest.mark.parametrize(("queries", "ratio"), [(2**12, 0.50), (2**16, 0.92), (2**17, 0.97), (2**23, 1.23)])
def test_ratios(queries: int, ratio: float) -> None:
    """6-D is the faster one for few queries, 3-D from 2^18 on."""
    row = park.milliseconds(queries, 8)
    assert row["6-D"] / row["3-D"] == pytest.approx(ratio, abs=0.005)
    assert (row["6-D"] > row["3-D"]) == (queries >= 2**18)


def test_there_are_no_other_rows() -> None:
    assert park.milliseconds(2**12, 4) == park.milliseconds(2**11, 8) == {}
