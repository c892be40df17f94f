"""Exit codes of several files."""

from __future__ import annotations

import pytest

from sdfcli.errors import EXIT_CODES, INTERRUPTED, SEVERITY, UNREAD, worst_code


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([0, 0], 0),
        ([0, 6, 0], 6),
        ([3, 3, 6], 3),  # a gate that accepts 6 does not accept unreadable meshes
        ([6, 7], 7),
        ([7, 3, 2], 2),
        ([4, 5, 3], 5),
        ([1, 5, 7], 1),
        ([1, 9, 6], 9),  # unknown
    ],
)
def test_the_most_severe_exit_code(codes: list[int], worst: int) -> None:
    assert worst_code(codes) == worst_code(reversed(codes)) == worst


def test_every_exit_code_has_a_severity() -> None:
    assert set(SEVERITY) == set(EXIT_CODES) - {INTERRUPTED, UNREAD}
