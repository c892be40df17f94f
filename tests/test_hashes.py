"""Fields have the bits that tests/hashes.csv says, and the README the numbers."""

from __future__ import annotations

import hashes
import pytest

from conftest import ROOT

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("row", hashes.known(), ids=lambda row: f"{row.mesh}-{row.octree}-{row.tolerance:g}")
def test_bits(row: hashes.Row, device: str) -> None:
    assert hashes.built(row, device) == row, "if that is meant: python tools/hashes.py, and a line in CHANGELOG.md"


def test_every_row_is_there() -> None:
    assert [row[:3] for row in hashes.known()] == [row[:3] for row in hashes.wanted()]


def test_the_readme_has_the_numbers() -> None:
    leaves = hashes.known()[-1].leaves
    assert f"octree      adaptive, {leaves:,} leaves" in (ROOT / "README.md").read_text()
