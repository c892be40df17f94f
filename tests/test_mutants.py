"""The list of mutants fits the source tree. They themselves are tested by `python tools/mutants.py`."""

from __future__ import annotations

import re

import mutants
import pytest
from mutants import MUTANTS, ROOT, Mutant


def test_names_are_different() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_the_line_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old


@pytest.mark.parametrize("test", sorted({test for each in MUTANTS for test in each.tests}))
def test_its_tests_are_there(test: str) -> None:
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text()
    assert path.split("/")[0] in mutants.COPIED
    assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE)
