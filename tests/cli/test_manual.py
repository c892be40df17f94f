"""The manual pages: made from the help, shipped, and without warnings of what reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from conftest import tool
from sdfcli.cli.registry import NAMES


@pytest.fixture(scope="module")
def manual() -> Any:
    return tool("manual")


def page(command: str) -> str:
    return "-".join(["sdfcli", *command.split()])


def test_pages_are_those_of_the_help(manual: Any) -> None:
    """`python tools/manual.py` writes them again."""
    written = {path.name: path.read_text() for path in manual.FOLDER.iterdir()}
    assert written == manual.pages()
    assert set(written) == {"sdfcli.1", *(f"{page(name)}.1" for name in NAMES)}


@pytest.mark.parametrize("command", NAMES)
def test_every_option_is_there(command: str, manual: Any) -> None:
    shown = (manual.FOLDER / f"{page(command)}.1").read_text().replace(r"\-", "-")
    table = tool("pages").options(command)
    for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        for name in re.findall(r"`(-[-\w]+)`", row):
            assert rf"\fB{name}\fR" in shown
    assert f"sdfcli {command}" in shown.split(".SH EXAMPLE")[1]
    assert f"{page(command)} (1)" in (manual.FOLDER / "sdfcli.1").read_text().replace(r"\-", "-")


@pytest.mark.parametrize(
    ("program", "words"), [("mandoc", ["-Tlint", "-W", "warning"]), ("groff", ["-man", "-ww", "-z", "-Tascii"])]
)
def test_readers_have_no_warnings(program: str, words: list[str], manual: Any) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    for path in manual.FOLDER.iterdir():
        done = subprocess.run([program, *words, path], capture_output=True, text=True, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
        assert said == [], path.name
