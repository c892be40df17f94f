"""The papers' rows: every command runs on the CPU, every test and file of measurements exists."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import program
from conftest import ROOT
from examples import DOCS

DATA = DOCS / "internals" / "data"
PAPERS = {"thesis": 51, "scan": 17, "particles": 16, "shifted-sort": 18}
"""Row counts."""
STATES = {"works", "in part", "related work"}
PAGE = (DOCS / "internals" / "papers.md").read_text()


def rows(paper: str) -> list[dict[str, str]]:
    with (DATA / f"papers-{paper}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("paper", PAPERS)
def test_rows_are_whole(paper: str) -> None:
    found = rows(paper)
    assert len(found) == PAPERS[paper]
    assert len({row["item"] for row in found}) == len(found)
    for row in found:
        assert row["state"] in STATES
        assert all(row.values()), row
        if row["state"] == "works":
            assert "-" not in (row["command"], row["test"]), row
        assert row["test"] == "-" or (ROOT / "tests" / row["test"]).is_file(), row
        for name in re.findall(r"[\w./-]+\.csv", row["paper"] + " " + row["sdfcli"]):
            assert (ROOT / name if "/" in name else DATA / name).is_file(), row


@pytest.mark.parametrize("paper", PAPERS)
def test_commands_run(paper: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sample_meshes", tmp_path / "sample_meshes")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (prepare,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    commands = [row["command"] for row in rows(paper) if row["command"] != "-"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HOME": str(tmp_path)}
    for line in dict.fromkeys([*prepare.splitlines(), *commands]):
        name, words = line.split(maxsplit=1)
        start = {"sdfcli": program(), "python": f'"{sys.executable}"'}[name]
        done = subprocess.run(
            ["bash", "-c", f"{start} {words}"],
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
