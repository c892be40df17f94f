"""Objects with numbers."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from sdfcli.errors import InputError
from sdfcli.runtime.numbered import Numbered, numbered


class Thing(Numbered):
    """A number and a value."""

    def __init__(self, value: int = 0) -> None:
        self.value = value


def test_every_copy_has_its_own_number() -> None:
    thing = Thing(3)
    copies = [copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing)), Thing()]
    assert len({each.number for each in (thing, *copies)}) == 5
    assert [each.value for each in copies] == [3, 3, 3, 0]
    assert all(numbered(each.number) is each for each in (thing, *copies))


def test_objects_may_go() -> None:
    thing = Thing()
    number = thing.number
    del thing
    gc.collect()
    with pytest.raises(InputError, match="no longer exists"):
        numbered(number)
