"""Commands of other packages, by entry points; and the table of the built-in ones."""

from __future__ import annotations

import importlib.metadata
import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sdfcli.cli.app import app
from sdfcli.cli.registry import BUILT_IN, COMMANDS

MODULE = '''
import typer
from sdfcli.errors import InputError

imported = True
app = typer.Typer()


@app.command()
def show(count: int = 1):
    """Shows a number."""
    print("count", count)


@app.command()
def refuse():
    raise InputError("nothing to greet")


def greet(word: str):
    """Greet somebody.

    Of more than one paragraph.

    Example: sdfcli greet you
    """
    if word == "nobody":
        raise InputError("nobody:  to\\nbe greeted")
    if word == "zero":
        1 / 0
    print("hello", word)
    return 3


no_command = "a text"
empty = typer.Typer()
'''
NUMBERS = itertools.count()

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """install("greet = MODULE:greet") puts a package where Python finds it, with one module, and returns its name."""

    def add(*points: str, source: str = MODULE, summary: str = "Greets.", metadata: bool = True) -> str:
        name = f"sdfcli-test{next(NUMBERS):03}"  # a module is imported once in a process
        module = name.replace("-", "_")
        folder = tmp_path / "packages"
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        lines = "\n".join(point.replace("MODULE", module) for point in points)
        (info / "entry_points.txt").write_text(f"[sdfcli.commands]\n{lines}\n")
        if metadata:
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: {summary}\n")
        monkeypatch.syspath_prepend(folder)
        return name

    return add


def run(words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, words.split(), prog_name="sdfcli", terminal_width=200)
    return done.exit_code, done.stdout, done.stderr


def test_help_lines_are_those_of_the_docstrings() -> None:
    for entry in BUILT_IN.values():
        first, *_ = inspect.cleandoc(entry.load().__doc__).split("\n\n")
        assert entry.line == " ".join(first.split()), entry.name


def test_sub_commands_have_a_command() -> None:
    assert {name.split()[0] for name in BUILT_IN} == set(COMMANDS)


def test_a_function_and_an_app(install: Install) -> None:
    install("greet = MODULE:greet", "numbers = MODULE:app")
    assert run("greet you") == (0, "hello you\n", "")  # whatever it returns
    assert run("numbers show --count 4") == (0, "count 4\n", "")
    code, shown, _ = run("numbers --help")
    assert code == 0
    assert "Shows a number." in shown
    assert "--install-completion" not in shown


def test_help(install: Install) -> None:
    name = install("greet = MODULE:greet", summary="Greets [bold]somebody[/wrong].")
    code, shown, said = run("--help")
    assert (code, said) == (0, "")
    assert "Plugins" in shown
    assert "Greets [bold]somebody[/wrong]." in shown
    assert shown.index("Plugins") < shown.index("greet") < shown.index("Exit codes")
    assert name.replace("-", "_") not in sys.modules  # as slow as it may be
    for word in ("--help", "-h"):
        code, shown, _ = run(f"greet {word}")
        assert code == 0
        assert shown.index("more than one") < shown.index("Options") < shown.index("Example: sdfcli greet you")


def test_errors_are_those_of_commands(install: Install) -> None:
    name = install("greet = MODULE:greet", "numbers = MODULE:app")
    assert run("greet nobody") == (3, "", "sdfcli: nobody: to be greeted\n")
    assert run("numbers refuse") == (3, "", "sdfcli: nothing to greet\n")
    internal = f"sdfcli: {name}: internal error: ZeroDivisionError: division by zero (--debug shows where)\n"
    assert run("greet zero") == (1, "", internal)
    code, _, said = run("greet")
    assert (code, said) == (2, "sdfcli: missing argument 'word' (see sdfcli greet --help)\n")
    code, _, said = run("numbers show --count x")
    assert (code, len(said.splitlines())) == (2, 1)


TELLING = '''
import typer
from typing import Annotated


def tell(count: int = 1, token: Annotated[str, typer.Option(envvar="TELL_TOKEN")] = ""):
    """Tell values."""
    print(count, token)
'''


def test_defaults_of_options(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of built-in commands, besides a package's own variables."""
    install("tell-it = MODULE:tell", source=TELLING)
    (tmp_path / "set.toml").write_text('[tell-it]\ncount = 2\ntoken = "file"\n')
    assert run(f"--config {tmp_path}/set.toml tell-it")[1] == "2 file\n"
    monkeypatch.setenv("SDFCLI_TELL_IT_COUNT", "3")
    monkeypatch.setenv("TELL_TOKEN", "own")
    assert run(f"--config {tmp_path}/set.toml tell-it")[1] == "3 own\n"
    assert "TELL_TOKEN" in run("tell-it --help")[1]


@pytest.mark.parametrize(
    ("point", "source", "fault"),
    [
        ("MODULE:greet", "import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("MODULE:greet", "raise RuntimeError('first\\nsecond')", "RuntimeError: first second"),
        ("MODULE:greet", "raise SystemExit(0)", "SystemExit: 0"),
        ("MODULE:greet", "def greet(:", "SyntaxError: invalid syntax"),
        ("MODULE:nothing", MODULE, "has no attribute 'nothing'"),
        ("MODULE:no_command", MODULE, "'a text' is neither a function nor a Typer app"),
        ("MODULE:empty", MODULE, "RuntimeError: "),
        ("MODULE", MODULE, "AttributeError"),
        (":", MODULE, "ValueError: "),
        ("MODULE:greet", "def greet(word: 'Nothing'): ...", "NameError: name 'Nothing' is not defined"),
    ],
)
def test_a_package_that_cannot_be_imported(install: Install, point: str, source: str, fault: str) -> None:
    name = install(f"greet = {point}", source=source)
    for words in ("greet you", "greet --help"):
        code, shown, said = run(words)
        assert (code, shown, len(said.splitlines())) == (4, "", 1)
        assert said.startswith("sdfcli: greet: the package ")
        if point.startswith("MODULE"):
            assert said.startswith(f"sdfcli: greet: the package {name} cannot be used: ")
        assert fault in said
    code, shown, said = run("--help")
    assert (code, said) == (0, "")
    assert "greet" in shown
    assert run("schema info")[0] == 0


def test_a_built_in_command_is_not_replaced(install: Install) -> None:
    name = install("schema = MODULE:greet", "greet = MODULE:greet", "bench scan = MODULE:greet")
    code, shown, said = run("schema info")
    assert (code, said) == (0, "")
    assert shown.startswith("{")
    assert run("greet you")[1:] == ("hello you\n", "")
    code, shown, said = run("--help")
    assert code == 0
    assert shown.count(" schema ") == 1
    assert said.splitlines() == [
        f"note: {name} has a command `{command}`, which is built in and is not replaced"
        for command in ("bench scan", "schema")
    ]


def test_packages_with_the_same_command(install: Install) -> None:
    first = install("greet = MODULE:greet")
    second = install("greet = MODULE:app", "two words = MODULE:greet")
    assert run("greet you") == (0, "hello you\n", "")
    assert run("--help")[2].splitlines() == [
        f"note: {second} has a command `greet`, as {first}, whose command is used",
        f"note: {second} has a command `two words`, which is not a valid command name",
    ]


def test_a_package_without_metadata(install: Install) -> None:
    module = install("greet = MODULE:greet", metadata=False).replace("-", "_")
    assert f"A command of {module}." in run("--help")[1]
    assert run("greet you") == (0, "hello you\n", "")
    assert run("greet zero")[2].startswith(f"sdfcli: {module}: internal error")


def test_metadata_are_read_for_what_is_not_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than all the rest of `sdfcli --version`."""
    reads = []

    def entry_points(**group: Any) -> None:
        reads.append(group)
        raise OSError("unreadable")

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    for words in ("--version", "schema info", "bench scan --help", "build --help", "info nothing.h5"):
        run(words)
    assert reads == []
    code, shown, said = run("--help")
    assert (code, said) == (0, "note: commands of other packages cannot be listed: OSError: unreadable\n")
    assert "schema" in shown
    assert run("shcema")[::2] == (2, "sdfcli: no such command 'shcema'. Did you mean 'schema'? (see sdfcli --help)\n")
    assert reads == [{"group": "sdfcli.commands"}] * 2


def test_similar_names(install: Install) -> None:
    install("greet = MODULE:greet")
    assert "Did you mean 'greet'?" in run("gret you")[2]


@pytest.mark.parametrize(
    ("source", "words", "values"),
    [
        (MODULE, "gre", "greet"),
        (MODULE, "greet --h", "--help"),
        ("raise ImportError", "gre", "greet"),
        ("raise ImportError", "greet --h", "--help"),
        ("raise ImportError", "sche", "schema"),
    ],
)
def test_completion(install: Install, tmp_path: Path, source: str, words: str, values: str) -> None:
    install("greet = MODULE:greet", "schema = MODULE:greet", source=source)
    asked = {
        "_SDFCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": f"sdfcli {words}",
        "COMP_CWORD": f"{len(words.split())}",
    }
    program = "import sys; from sdfcli.cli.app import main; sys.argv[0] = 'sdfcli'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked | {"PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (values.split(), "")


def test_doctor_tests_settings_of_plugins(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their table's keys and values, and variables; a package that cannot be imported is a fault."""
    install("greet = MODULE:greet", "numbers = MODULE:app")
    monkeypatch.setattr("sdfcli.cli.doctor._devices", list)
    (tmp_path / "c.toml").write_text("[greet]\nlouder = true\n")
    monkeypatch.setenv("SDFCLI_CONFIG", str(tmp_path / "c.toml"))
    monkeypatch.setenv("SDFCLI_GREET_LOUDER", "1")
    monkeypatch.setenv("SDFCLI_NUMBERS_SHOW_COUNT", "1")  # of a sub-command
    code, _, errors = run("doctor --json")
    assert code == 6
    told = errors.splitlines()
    assert len(told) == 2
    assert "[greet] louder: no such option" in told[0]
    assert told[1].startswith("sdfcli: SDFCLI_GREET_LOUDER: no such variable")
    monkeypatch.delenv("SDFCLI_GREET_LOUDER")
    (tmp_path / "c.toml").write_text("")
    assert run("doctor --json")[::2] == (0, "")
    name = install("broken = MODULE:greet", source="import nothing_like_it")
    code, _, errors = run("doctor --json")
    assert code == 6
    assert errors.startswith(f"sdfcli: broken: the package {name} cannot be used: ModuleNotFoundError")
