"""Values that can be freed and made again."""

from __future__ import annotations

import itertools

from sdfcli.backend.rebuildable import Rebuildable


def test_a_value_is_made_on_first_use_and_after_each_release() -> None:
    value = Rebuildable(itertools.count(1).__next__)
    assert [value.get(), value.get()] == [1, 1]
    value.release()
    value.release()
    assert [value.get(), value.get()] == [2, 2]


def test_a_value_that_is_there_is_not_made() -> None:
    value = Rebuildable(itertools.count(1).__next__, value=7)
    assert value.get() == 7
    value.release()
    assert value.get() == 1
