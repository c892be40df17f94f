"""What all commands have in common: errors of options, help, tracebacks, completion."""

from __future__ import annotations

import io
import os
import queue
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from commands import reports, run
from sdfcli import __main__
from sdfcli.cli import output
from sdfcli.cli.app import app, command_of
from sdfcli.cli.registry import BUILT_IN, NAMES

FRACTION = "a fraction of the diagonal, or of --unit"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--bogus", "no such option: --bogus"),
        ("bild mesh.ply", "no such command 'bild'"),
        ("build", "missing argument 'MESH...'"),
        ("build mesh.ply --config a.toml", "no such option: --config; it goes before the command, as in `sdfcli --c"),
        ("build mesh.ply --deph 3", "no such option: --deph"),
        ("build mesh.ply --depth many", "--depth many: use a whole number (see"),
        ("build mesh.ply --depth ''", "--depth '': use a whole number (see"),
        ("build mesh.ply --jobs 0", "--jobs 0: use a whole number, 1 or more (see"),
        ("build mesh.ply -j 1e99999999", "--jobs 1e99999999: use a whole number, 1 or more (see"),
        ("build mesh.ply --timeout 5s", "--timeout 5s: use a number of seconds, 0.001 or more (see"),
        ("build mesh.ply --max-error 2mm", "use a number without a unit; lengths are in the mesh's units (see"),
        ("collide field.h5 mesh.ply --min 2mm", "--min 2mm: use a number without a unit; lengths are"),
        ("slice field.h5 --at 2mm", "--at 2mm: use a number without a unit; lengths are in the mesh's units (see"),
        *(
            (
                f"{command} --{name} 2mm",
                f"--{name} 2mm: use a number, {FRACTION}; for a length use --max-error or --unit (see",
            )
            for command in ("build mesh.ply", "check mesh.ply", "sequence a.ply b.ply -o c.h5")
            for name in ("band", "tolerance", "thin")
        ),
        ("verify field.h5 --tolerance 2mm", "2mm: use a number, a fraction of the diagonal (see"),
        ("build mesh.ply --scale 2mm", "--scale 2mm: use a number without a unit, a factor (see"),
        ("flow field.h5 --spacing 2mm", "--spacing 2mm: use a number without a unit, in metres (see"),
        ("samples mesh.ply --uniform 2mm", "--uniform 2mm: use a number without a unit (see"),
        ("info anim.h5 --time 2m", "--time 2m: use a number of seconds without a unit (see"),
        ("flow field.h5 --frames 0", "--frames 0: use a whole number, 1 to 999,999 (see"),
        ("build mesh.ply --timeout", "requires an argument"),
        ("info one.h5 two.h5", "two.h5"),
    ],
)
def test_errors_of_options_are_one_line(words: str, told: str) -> None:
    done = CliRunner().invoke(app, shlex.split(words))
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert done.stderr.startswith("sdfcli: ")
    assert told in done.stderr
    assert done.stderr.endswith("--help)\n")


@pytest.mark.parametrize("command", NAMES)
def test_wrong_numbers_are_told_in_the_same_words(command: str) -> None:
    """By every option of every command that is a number: never in a library's words."""
    target = BUILT_IN[command].load()
    kinds = get_type_hints(target)
    for option in command_of(BUILT_IN[command]).params:
        if not {int, float} & {kinds[option.name], *get_args(kinds[option.name])}:
            continue
        name = max(option.opts, key=len)
        done = CliRunner().invoke(app, [*command.split(), name, "many"])
        assert done.exit_code == 2
        assert done.stderr.startswith(f"sdfcli: {name} many: use a "), done.stderr


@pytest.mark.parametrize(("text", "count"), [("1e3", 1000), ("1.5e3", 1500), ("+2E2", 200), ("300", 300)])
def test_counts_in_scientific_notation(text: str, count: int, tmp_path: Path) -> None:
    mesh, out = str(tmp_path / "ball.ply"), str(tmp_path / "ball.npz")
    trimesh.Trimesh(*shapes.icosphere(1), process=False).export(mesh)
    done = CliRunner().invoke(app, ["samples", mesh, "-o", out, "-n", text, "--json"])
    (line,) = reports("samples", done.stdout)
    assert line["pos"] + line["neg"] == count
    assert CliRunner().invoke(app, ["samples", mesh, "-n", "1.5"]).stderr.startswith("sdfcli: --count 1.5: use a")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("render field.h5 --mesh a.ply --at 0,0,0 --at 1,0,0", "--at"),
        ("slice field.h5 --at 0 --at 1", "--at"),
        ("slice field.h5 -o a.png --output=b.png", "--output"),
        ("verify field.h5 --mesh a.ply --mesh b.ply", "--mesh"),
    ],
)
def test_an_option_given_twice_is_an_error(words: str, option: str) -> None:
    """All but one of its values would be lost."""
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.stderr) == (2, f"sdfcli: {option}: given 2 times; use it once\n")


def test_other_options_may_be_overridden_and_lists_grow(tmp_path: Path) -> None:
    mesh, field = str(tmp_path / "ball.ply"), str(tmp_path / "ball.h5")
    trimesh.Trimesh(*shapes.icosphere(1), process=False).export(mesh)
    assert (
        CliRunner().invoke(app, ["build", mesh, "-o", field, "--depth", "99", "--depth", "3", "-q", "-q"]).exit_code
        == 0
    )
    told = CliRunner().invoke(app, ["collide", field, mesh, "--at", "0,0,3", "--at", "0,0,4", "--json"])
    assert [line.get("pose") for line in reports("collide", told.stdout)] == [0, 1, None]


@pytest.mark.parametrize("command", [name for name in NAMES if name != "schema"])
def test_errors_are_a_line_of_json(command: str) -> None:
    """Those of options, and others, of every command."""
    words, missing = command.split(), ["nothing.h5", "--mesh", "nothing.ply", "-o", "a.h5"]
    for more in (["--threads", "x"], missing if command == "verify" else missing[:1]):
        done = CliRunner().invoke(app, [*words, *more, "--json"])
        (line,) = reports(words[0], done.stdout)
        assert line["exit_code"] == done.exit_code > 0
        assert f"{line['error']}\n" in done.stderr


INTERRUPTED = {"schema_version": 1, "error": "interrupted", "exit_code": 130}


@pytest.mark.parametrize("target", ["sdfcli.runtime.memory.require", "sdfcli.cli.settings.config_file"])
@pytest.mark.parametrize("command", ["build", "check", "samples", "info"])
def test_an_interrupt_is_a_line_of_json(target: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the options are parsed, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(target, interrupt)
    done = CliRunner().invoke(app, [command, "a.ply", "--json"])
    assert (done.exit_code, done.stderr) == (130, "sdfcli: interrupted\n")
    assert reports(command, done.stdout) == [INTERRUPTED]
    assert CliRunner().invoke(app, [command, "--", "--json"]).stdout == ""


def test_an_interrupt_of_the_first_imports_is_a_line_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sdfcli.runtime.processes.set_environment", interrupt)
    monkeypatch.setattr("sdfcli.runtime.interrupts.watch", lambda number: None)
    monkeypatch.setattr("sdfcli.startup.driver.exit_fast", lambda code: None)
    for words, expected in ([["check", "--json"], [INTERRUPTED]], [["check"], []]):
        monkeypatch.setattr("sys.argv", ["sdfcli", *words])
        with pytest.raises(SystemExit) as end:
            __main__.main()
        assert end.value.code == 130
        assert reports("check", capsys.readouterr().out) == expected


def test_help_fits_a_terminal() -> None:
    """Of 80 columns: half of them are for descriptions, and flags have no values."""
    for name in NAMES:
        shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"}).output
        assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("  Example: "))
        assert "<" not in shown.partition("Options:")[2]
        assert "INTEGER" not in shown
        options = shown.partition("\nOptions:\n")[2]
        assert len(options.partition("\n\n")[0].splitlines()) < 45, name
        texts = [len(line) - len(line.lstrip()) for line in options.splitlines() if line.startswith("      ")]
        assert max(texts, default=0) <= 30


def test_without_a_command_there_is_help() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code in (0, 2)
    assert "Usage: " in done.output


@pytest.mark.parametrize("command", [[], *(name.split() for name in NAMES)])
def test_short_help(command: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*command, word]) for word in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)


@pytest.mark.parametrize("words", ["--debug info nothing.h5", "info nothing.h5 --debug", "info --debug nothing.h5"])
def test_debug_anywhere(words: str) -> None:
    done = run(*words.split())
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == "sdfcli.errors.InputError: nothing.h5: no such file"


def test_debug_is_a_name_behind_two_dashes() -> None:
    done = CliRunner().invoke(app, ["info", "--", "--debug"])
    assert (done.exit_code, done.stderr) == (3, "sdfcli: --debug: no such file\n")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("build --sign ", "auto pseudonormal winding none flood inside"),
        ("build --device c", "cpu cuda"),
        ("check --device ", "auto cpu cuda"),
        ("query --sign p", "pseudonormal"),
        ("render --view l", "left"),
        ("build --octree ", "adaptive bvh"),
        ("bench --points b", "bvh"),
        ("bench sca", "scan scale"),
        ("bench scan --device c", "cpu cuda"),
        ("bench --repeat 2 scan --th", "--threads"),
    ],
)
def test_values_are_completed(words: str, values: str) -> None:
    place = len(words.split()) + words.endswith(" ")
    asked = {"_SDFCLI_COMPLETE": "complete_bash", "COMP_WORDS": f"sdfcli {words}", "COMP_CWORD": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from sdfcli.cli.app import main; sys.argv[0] = 'sdfcli'; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == values.split(), done.stderr


def test_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(output, "PERIOD", 0.01)
    monkeypatch.setattr(output, "say", said.put)
    with output.progress("mesh.ply", quiet=False) as update:
        assert said.get(timeout=60).startswith("mesh.ply, ")
        update("level 3 of 10")
        while "level 3 of 10, " not in said.get(timeout=60):
            pass
    while not said.empty():
        said.get()
    begun = threading.active_count()
    with output.progress("mesh.ply", quiet=True) as update:
        update("level 3 of 10")
        assert threading.active_count() == begun  # nobody who could say anything
    assert said.empty()


def test_progress_of_a_batch_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line after a silent period; none while meshes' own lines come."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(output, "say", said.put)
    monkeypatch.setattr(output, "PERIOD", 3600.0)
    with output.batch_progress(8, quiet=False) as update:
        for done in range(3):
            update(done)
    assert said.empty()
    monkeypatch.setattr(output, "PERIOD", 0.01)
    with output.batch_progress(8, quiet=False) as update:
        assert re.fullmatch(r"0 of 8 done, \d+ s", said.get(timeout=60))
        update(3)
        while "3 of 8 done, " not in said.get(timeout=60):
            pass
    begun = threading.active_count()
    with output.batch_progress(8, quiet=True):
        assert threading.active_count() == begun


@pytest.mark.parametrize("command", ["check", "info"])
def test_quiet(command: str, tmp_path: Path) -> None:
    path = tmp_path / ("ball.off" if command == "check" else "ball.h5")
    vertices, faces = shapes.icosphere(1)
    lines = [f"OFF\n{len(vertices)} {len(faces)} 0", *(" ".join(map(str, v)) for v in vertices)]
    path.write_text("\n".join([*lines, *("3 " + " ".join(map(str, f)) for f in faces)]) + "\n")
    if command == "info":
        path.unlink()
        sdfcli.build((vertices, faces), device="cpu", depth=3, tolerance=0.1).save(path)
    done = CliRunner().invoke(app, [command, str(path), "-q"])
    assert (done.exit_code, done.output) == (0, "")
    assert CliRunner().invoke(app, [command, str(path), "-q", "--json"]).stdout
    path.write_text("nothing of the kind")
    done = CliRunner().invoke(app, [command, str(path), "-q"])
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(59.4, "59 s left"), (59.6, "1 min 0 s left"), (3599.6, "1 h 0 min left"), (86_520, "24 h 2 min left")],
)
def test_remaining_time(seconds: float, says: str) -> None:
    assert output.time_left(seconds) == says


@pytest.mark.parametrize(
    ("variables", "terminal", "colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colours(variables: dict[str, str], terminal: bool, colours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NO_COLOR": "", "FORCE_COLOR": "", "TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert output.in_colour(stream) == colours


@pytest.mark.parametrize(
    ("line", "verdict", "shown"),
    [
        ("good.ply: good, 9 leaves", "good", "good.ply: <32>good<0>, 9 leaves"),
        ("[1/2] FAILED FAILED.ply: no such file", "FAILED", "[1/2] <31>FAILED<0> FAILED.ply: no such file"),
        ("   0  touching  0.1", "touching", "   0  <33>touching<0>  0.1"),
        ("verdict  usable: faults", "usable", "verdict  <33>usable<0>: faults"),
        ("a.ply: unknown", "unknown", "a.ply: unknown"),
        ("a\x1b[31m: good", "good", r"a\x1b[31m: <32>good<0>"),
    ],
)
def test_verdicts_are_coloured(line: str, verdict: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for write, stream in ((output.show, "stdout"), (output.say, "stderr")):
        text = io.StringIO()
        monkeypatch.setattr(sys, stream, text)
        write(line, verdict)
        monkeypatch.undo()
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert text.getvalue().replace("\x1b[", "<") == re.sub(r"<(\d+)>", r"<\1m", shown) + "\n"


@pytest.mark.parametrize(
    ("done", "seconds", "says"),
    [
        (0, 0.0, "0 of 240 frames"),
        (12, 4.0, "12 of 240 frames, 3 frames/s, 1 min 16 s left"),
        (240, 80.0, "240 of 240 frames, 3 frames/s, 0 s left"),
    ],
)
def test_the_pace_of_frames(done: int, seconds: float, says: str) -> None:
    assert output.pace(done, 240, seconds) == says
