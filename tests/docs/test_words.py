"""The docstrings' English, by words that a native engineer writes seldom: nouns in place of "what" and "those",
compounds in place of "of". Warp's, Newton's and mujoco_warp's docstrings have 0 to 0.1, 0.1 to 0.2 and 17 to 28."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sdfcli

PACKAGE = Path(sdfcli.__file__).parent
FOLDERS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
MOST = {"what": 0.8, "those": 0.8, "of": 32}
"""Occurrences in a thousand words."""
ENOUGH = 1000
"""Words from which on a folder is counted by itself."""


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Those of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, each in zip([None, *body], body, strict=False):
            stands = isinstance(before, ast.Assign | ast.AnnAssign) or before is None
            if stands and isinstance(each, ast.Expr):
                match each.value:
                    case ast.Constant(value=str(text)):
                        yield text


def words(folder: str) -> Counter[str]:
    paths = (PACKAGE / folder).rglob("*.py") if (PACKAGE / folder).is_dir() else [PACKAGE / folder]
    return Counter(
        word
        for path in paths
        for text in docstrings(ast.parse(path.read_text()))
        for word in re.findall(r"[a-z']+", text.lower())
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_few_pronouns_and_genitives(folder: str) -> None:
    found = words(folder)
    if found.total() < ENOUGH:
        pytest.skip("too few words")
    rates = {word: 1000 * found[word] / found.total() for word in MOST}
    assert {word: rate for word, rate in rates.items() if rate > MOST[word]} == {}


METERS = re.compile(r"\b(?:milli|centi|micro|kilo)?meters?\b", re.IGNORECASE)
"""Spellings other than metre, millimetre."""
OF_FORMATS = {"collada.py", "threemf.py"}
"""Files with these formats' own words."""


def test_units_have_one_spelling() -> None:
    """In code, messages, help, manual pages and documentation."""
    root = Path(__file__).parents[2]
    paths = [path for kind in ("py", "1") for path in PACKAGE.rglob(f"*.{kind}") if path.name not in OF_FORMATS]
    paths += [*(root / "docs").rglob("*.md"), *root.glob("*.md")]
    assert len(paths) > 300
    wrong = [path.name for path in paths if METERS.search(path.read_text(encoding="utf-8"))]
    assert wrong == []


def test_the_package() -> None:
    found = sum((words(folder) for folder in FOLDERS), Counter())
    assert found.total() > 20_000
    assert all(1000 * found[word] / found.total() <= most for word, most in MOST.items())
