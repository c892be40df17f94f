"""The documentation: its examples run, every command has a page, and what it says of the shell's completion holds."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sdfcli
from commands import program
from conftest import ROOT, tool
from examples import DOCS, MARKED, run_python
from sdfcli.cli.app import app
from sdfcli.cli.registry import COMMANDS, NAMES
from sdfcli.errors import EXIT_CODES, INTERRUPTED, UNREAD, SdfError
from sdfcli.params import BuildParams
from sdfcli.quality.estimate import estimate
from test_layers import LAYERS, PACKAGE, sources

COMMAND_PAGES = DOCS / "reference" / "commands"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "<!-- run -->" in page.read_text())
LONG = ("bench", "robot-collision")
"""Pages whose examples take longest."""
UNMARKED = {
    "README.md": 3,  # .ci/run installs and runs it
    "docs/start/install.md": 1,  # installs
    "docs/index.md": 1,
    "docs/guides/commands.md": 2,  # test_commands.py
    "docs/guides/simulators.md": 20,  # tests/cook, where the simulators are installed
    "docs/guides/pipelines.md": 1,  # for Snakemake: test_pipelines.py
    "docs/internals/proof.md": 1,  # test_proof.py
    "docs/reference/file.md": 1,  # test_format.py
    "docs/reference/commands/index.md": 1,  # test_completion_installs
    "docs/reference/commands/profile.md": 1,  # GPUs
    "docs/reference/commands/view.md": 1,  # an address: tests/field/test_coarse.py
    "docs/performance.md": 1,  # measurements, on meshes that the repository does not have
    "docs/internals/thesis.md": 1,
    "docs/internals/papers.md": 1,  # test_papers.py
    "docs/internals/jump-flooding.md": 1,
}
"""Blocks of shell or Python that `test_examples` does not run."""
Shell = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone, as far as examples need one."""
    shutil.copytree(ROOT / "sample_meshes", tmp_path / "sample_meshes")
    return tmp_path


@pytest.fixture
def shell(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Runs a script with bash, `sdfcli` and `python3` being those of this test; returns what it prints."""
    programs = tmp_path_factory.mktemp("bin")
    for name, line in (
        ("sdfcli", f'#!/bin/sh\nexec {program()} "$@"\n'),
        ("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'),
    ):
        (programs / name).write_text(line)
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(script: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def run_page(page: Path, shell: Shell) -> None:
    """Runs its examples from top to bottom; its blocks of Python are one program."""
    printed, names = None, dict[str, object]()
    for mark, language, block in MARKED.findall(page.read_text()):
        if mark == "prints":
            assert printed == block
        elif mark == "run on a GPU" or mark.startswith("run with"):
            continue  # test_kernels.py and tests/tensors/test_guide.py run it
        elif language == "sh":
            printed = shell(block)
        else:
            assert language == "python"
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                run_python(block, names)
            printed = shown.getvalue()


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.nightly] * (page.stem in LONG)) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_examples(page: Path, folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page needs nothing of another one."""
    monkeypatch.chdir(folder)
    run_page(page, shell)


@pytest.mark.nightly
def test_guides_in_one_folder(folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the README, one after the other: none meets a file that another one has written."""
    monkeypatch.chdir(folder)
    shell("sdfcli build sample_meshes/bunny.ply; sdfcli render bunny.h5 --view 25,15")
    for name in re.findall(
        r": ((?:start/|guides/)[\w-]+\.md|index\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    ):
        run_page(DOCS / name, shell)


def test_unmarked_examples() -> None:
    """Every block of shell or Python is run as part of its page, but a few."""
    found = dict[str, int]()
    for page in (*DOCS.rglob("*.md"), ROOT / "README.md"):
        blocks = re.findall(r"^```(?:sh|python)$", page.read_text(), re.MULTILINE)
        marked = [language for _, language, _ in MARKED.findall(page.read_text()) if language in ("sh", "python")]
        if len(blocks) > len(marked):
            found[page.relative_to(ROOT).as_posix()] = len(blocks) - len(marked)
    assert found == UNMARKED


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_a_page_and_an_example(command: str) -> None:
    words = command.split()
    page = (COMMAND_PAGES / f"{words[0]}.md").read_text()
    run = [block for mark, _, block in MARKED.findall(page) if mark == "run"]
    assert command not in COMMANDS or any(f"sdfcli {command} " in block for block in run)
    assert f"<!-- options: {command} -->" in page
    assert f"]({words[0]}.md)" in (COMMAND_PAGES / "index.md").read_text()
    shown = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=200).output
    assert f"Example: sdfcli {command} " in shown.strip().splitlines()[-1]


def test_examples_are_found() -> None:
    named = {page.relative_to(DOCS).as_posix() for page in PAGES}
    assert {"start/five-minutes.md", "guides/troubleshooting.md", "reference/python.md"} <= named
    assert len(PAGES) >= 2 + len(COMMANDS)


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_links_between_files() -> None:
    """Those that are followed in the repository, beside the ones that `mkdocs build --strict` follows."""
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if ":" not in link and not link.startswith("#"):
                assert (page.parent / link.partition("#")[0]).exists(), (page, link)


@pytest.mark.parametrize("command", NAMES)
def test_the_table_of_options_is_that_of_the_help(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=200).output
    offered = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.MULTILINE))
    table = tool("pages").options(command)
    assert offered == {"--" + name for name in re.findall(r"^\| `--([a-z-]+)`", table, re.MULTILINE)}
    for default in re.findall(r"\[default: (\S+)\]", shown):
        assert f"| `{default}` |" in table or f"| `--{default}` |" in table


def test_styles_of_the_tables_of_options() -> None:
    """The class that the style sheet knows, in a site that has the sheet."""
    (sheet,) = re.findall(r"^extra_css: \[(.+)\]$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    (name,) = re.findall(r'^<div class="(\w+)" markdown>$', tool("pages").options("build"), re.MULTILINE)
    assert f".{name} td" in (DOCS / sheet).read_text()


def test_tables_of_measurements_are_their_files() -> None:
    pages = "".join(tool("pages").on_page_markdown(page.read_text()) for page in DOCS.rglob("*.md"))
    files = [path for path in (DOCS / "internals" / "data").glob("*.csv") if not path.name.startswith("papers-")]
    assert files
    for path in files:
        for row in csv.reader(path.read_text().splitlines()):
            assert "| " + " | ".join(row) + " |" in pages, path


def test_the_log_of_speed() -> None:
    """Each file has the columns and words that docs/internals/speed.md names, and that page a short table of them."""
    page = (DOCS / "internals" / "speed.md").read_text()
    columns = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    kept = re.findall(r"`(\w+)` \(|`(yes|no)`", next(line for line in page.splitlines() if "| `kept` |" in line))
    words = {word for pair in kept for word in pair if word}
    files = list((ROOT / "log").glob("*.csv"))
    assert 0 < len(tool("pages").changes("2").splitlines()[2:]) <= 40
    for path in files:
        head, *rows = csv.reader(path.read_text().splitlines())
        assert head == columns, path
        assert {len(row) for row in rows} == {len(columns)}, path
        for row in rows:
            cells = dict(zip(columns, row, strict=True))
            assert cells["kept"] in words, (path, cells)
            assert cells["change"], path
            assert cells["predicted"] or cells["measured"] or cells["note"], (path, cells)
            datetime.date.fromisoformat(cells["date"])


def test_gains_of_a_measurement() -> None:
    gain = tool("pages").gain
    assert gain("62 to 20 ms") == 3.1
    assert gain("2.0 s to 1.0 s, then 9x") == 2.0
    assert gain("1,515 to 505") == 3.0
    assert gain("AVX-512: 4.2x, 2.7x") == 4.2
    assert gain("1.0 to 1.5 times as long") == 0
    assert gain("not by itself") == 0


def test_the_picture_of_the_house() -> None:
    """`python tools/house.py` draws it again; its rooms are the folders, and lie as the layers do."""
    house = tool("house")
    assert house.FILE.read_text() == house.picture()
    folders = {home for path, home in sources() if path.parent != PACKAGE}
    rooms = [name for layer in reversed(house.LAYERS) for name, _ in layer]
    assert set(rooms) == folders | {"pipeline", "scene"}
    layers = [name for layer in LAYERS for name in layer.split()]
    assert [layers.index(name) for name in rooms] == sorted(layers.index(name) for name in rooms)
    kernels = {path.parent.name for path in (ROOT / "sdfcli" / "kernels").glob("*/*.h")}
    assert {name for name, _ in house.KERNELS} == kernels


def test_a_mark_that_stands_for_nothing_is_an_error() -> None:
    with pytest.raises(KeyError):
        tool("pages").on_page_markdown("<!-- nothing: build -->")


def test_exit_codes_mean_the_same_everywhere() -> None:
    kinds = [SdfError, *SdfError.__subclasses__()]
    assert sorted(EXIT_CODES) == sorted([0, *(kind.exit_code for kind in kinds), INTERRUPTED, UNREAD])
    pages = {page: " ".join(page.read_text().split()) for page in (ROOT / "README.md", *DOCS.rglob("*.md"))}
    lists = {page: text for page, text in pages.items() if re.search(r"Exit codes:\W+0 ", text)}
    assert COMMAND_PAGES / "index.md" in lists
    for name, text in lists.items():
        assert [code for code, meaning in EXIT_CODES.items() if f"{code} {meaning}" not in text] == [], name


def test_completion_installs(folder: Path, shell: Shell) -> None:
    """In the shell that asks for it; from then on it completes commands."""
    shell("sdfcli --install-completion; true")  # of one command alone, bash becomes that command
    assert (folder / ".bashrc").exists()
    completed = shell('bash -ic "complete -p sdfcli" 2>/dev/null')
    assert completed.endswith("-F _sdfcli_completion sdfcli\n")
    words = shell('_SDFCLI_COMPLETE=complete_bash COMP_WORDS="sdfcli ex" COMP_CWORD=1 sdfcli')
    assert words.split() == ["extract", "export"]


def test_what_is_promised_is_tested() -> None:
    """As far as that can be told: the tests that SECURITY.md names are there."""
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_names_of_the_package() -> None:
    """Before they are used, too."""
    text = (DOCS / "reference" / "python.md").read_text().split("\n\n")[1]
    names = re.findall(r"`(\w+)`", text.split(".")[0])
    assert len(names) == len({*names}) == 45
    words = [sys.executable, "-c", "import sdfcli; print(*dir(sdfcli))"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert set(found) == {*names, "__version__"}
    page = (DOCS / "reference" / "python.md").read_text()
    assert [name for name in names if f"\n::: sdfcli.{name}\n" not in page] == []


@pytest.mark.parametrize("function", [sdfcli.build, estimate])
def test_signatures_name_the_parameters_of_a_build(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    assert {"source", "device", "max_memory"} < set(shown)
    for field in dataclasses.fields(BuildParams):
        assert (shown[field.name].kind, shown[field.name].default) == (inspect.Parameter.KEYWORD_ONLY, field.default)
    assert all(each.kind != inspect.Parameter.VAR_KEYWORD for each in shown.values())


def test_the_glossary() -> None:
    """Terms are sorted, and the files that contain them exist."""
    page = (DOCS / "internals" / "glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| (`[^|]+`) \|$", page, re.MULTILINE)
    terms = [term.lower() for term, _ in rows]
    assert len(terms) > 40
    assert terms == sorted(terms)
    files = [name for _, where in rows for name in re.findall(r"`([^`]+)`", where)]
    assert [name for name in files if not any((folder / name).is_file() for folder in (ROOT / "sdfcli", ROOT))] == []
