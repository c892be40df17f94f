"""Defaults of options: environment variables, and a TOML file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import shapes
from commands import reports, run
from sdfcli.cli.app import app, command_of
from sdfcli.cli.registry import BUILT_IN
from sdfcli.cli.settings import EVERYWHERE, config_file, options_of, variables

Write = Callable[[str], Path]


@pytest.fixture
def ball(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A mesh, by its name in the current folder."""
    vertices, faces = shapes.icosphere(1)
    lines = [f"OFF\n{len(vertices)} {len(faces)} 0", *(" ".join(map(str, v)) for v in vertices)]
    (tmp_path / "ball.off").write_text("\n".join([*lines, *("3 " + " ".join(map(str, f)) for f in faces)]) + "\n")
    monkeypatch.chdir(tmp_path)
    return "ball.off"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the settings file named by SDFCLI_CONFIG."""

    monkeypatch.chdir(tmp_path)

    def file(text: str) -> Path:
        monkeypatch.setenv("SDFCLI_CONFIG", "set.toml")
        (tmp_path / "set.toml").write_text(text)
        return tmp_path / "set.toml"

    return file


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def depth_of(*words: str) -> int:
    done = invoke(*words, "--tolerance", "1e-3", "--force", "--json")
    assert done.exit_code == 0, done.output
    return int(json.loads(done.stdout)["depth"])


def test_precedence(ball: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line, the command's variable, the file, the built-in default."""
    write("[build]\ndepth = 1\n")
    assert depth_of("build", ball) == 1
    monkeypatch.setenv("SDFCLI_BUILD_DEPTH", "2")
    assert depth_of("build", ball) == 2
    assert depth_of("build", ball, "--depth", "3") == 3
    monkeypatch.setenv("SDFCLI_BUILD_DEPTH", "")
    assert depth_of("build", ball) == 1
    monkeypatch.delenv("SDFCLI_CONFIG")
    assert depth_of("--config", "set.toml", "build", ball) == 1


def test_a_file_of_the_user(ball: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDFCLI_CONFIG")
    monkeypatch.setattr("typer.get_app_dir", lambda name: str(tmp_path / name))
    (tmp_path / "sdfcli").mkdir()
    (tmp_path / "sdfcli" / "config.toml").write_text("[build]\ndepth = 1\n")
    assert depth_of("build", ball) == 1
    monkeypatch.setattr("typer.get_app_dir", lambda name: name)  # without a home folder
    assert depth_of("build", ball) > 1


def test_no_file_of_the_current_folder(ball: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may belong to somebody else."""
    monkeypatch.delenv("SDFCLI_CONFIG")
    monkeypatch.setattr("typer.get_app_dir", lambda name: str(tmp_path / "nowhere" / name))
    for name in ("sdfcli.toml", "config.toml", ".sdfcli.toml", "pyproject.toml"):
        (tmp_path / name).write_text("[build]\ndepth = 1\n")
    assert depth_of("build", ball) > 1


def test_flags_lists_and_options_of_all_commands(
    ball: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('device = "cpu"\n[build]\nforce = true\nquiet = true\ndepth = 2\n[collide]\nat = ["0,0,0", "9,0,0"]\n')
    for _ in range(2):
        done = invoke("build", ball)
        assert (done.exit_code, done.output) == (0, "")
    assert [json.loads(line).get("pose") for line in invoke("collide", "ball.h5", ball, "--json").stdout.splitlines()][
        :-1
    ] == [0, 1]
    monkeypatch.setenv("SDFCLI_DEVICE", "none")
    monkeypatch.setenv("SDFCLI_COLLIDE_DEVICE", "cpu")
    assert invoke("collide", "ball.h5", ball).exit_code == 0
    done = invoke("build", ball)
    assert (done.exit_code, done.stderr.count("SDFCLI_DEVICE")) == (2, 1)
    monkeypatch.setenv("SDFCLI_BUILD_FORCE", "0")
    monkeypatch.setenv("SDFCLI_BUILD_DEVICE", "cpu")
    assert "exists" in invoke("build", ball).stderr


def test_sub_commands(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("[bench]\nrepeat = 0\n[bench.scan]\nrepeat = 0\n")
    for words, name in (("bench scan", "set.toml"), ("bench x.ply", "set.toml")):
        done = invoke(*words.split())
        assert (done.exit_code, f"set by {name}" in done.stderr) == (2, True), done.stderr
    monkeypatch.setenv("SDFCLI_BENCH_SCAN_REPEAT", "-1")
    assert "set by SDFCLI_BENCH_SCAN_REPEAT" in invoke("bench", "scan").stderr


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("[build]\ndepht = 3\n", 2, "[build] depht: no such option; did you mean depth?"),
        ("[build]\nmax_error = 3\n", 2, "[build] max_error: no such option; did you mean max-error?"),
        ("[bild]\ndepth = 3\n", 2, "[bild]: no such command; did you mean build?"),
        ('["bench scan"]\nrepeat = 3\n', 2, "[bench scan]: no such command"),
        ("depth = 3\n", 2, "depth: goes into a command's table, as [build]; only device and quiet go above"),
        ("[build.scan]\ndepth = 3\n", 2, "[build] scan: no such option"),
        ('[build]\nforce = "yes"\n', 2, "set.toml: [build] force = yes: use true or false"),
        ('quiet = "yes"\n', 2, "set.toml: quiet = yes: use true or false"),
        ('[build]\nkeep-going = "yes"\n', 2, "[build] keep-going = yes: use true or false"),
        ("[build]\nkeep-going = true\nfail-fast = true\n", 2, "[build] fail-fast: keep-going is the same option"),
        ("[build]\nkeep-goin = true\n", 2, "[build] keep-goin: no such option; did you mean keep-going?"),
        ("[build]\ndepth = true\n", 2, "[build] depth = true: use a text or a number"),
        ("[build]\ndomain = [0, 0, 0, 1]\n", 2, "domain = [0, 0, 0, 1]: use a text or a number"),
        ("[build]\ndepth = 2001-01-01\n", 2, "depth = 2001-01-01: use a text or a number"),
        ("[build]\ndepth =\n", 2, "set.toml: is not a TOML file: "),
        ('[build]\ndepth = "many"\n', 2, ", set by set.toml (see "),
        ("[build]\ndepth = 99\n", 2, "--depth 99: use 1 to 16 (--depth is set by set.toml)"),
        ('[build]\ndomain = "1,2"\n', 2, "(--domain is set by set.toml)"),
    ],
)
def test_errors_name_the_file(text: str, code: int, told: str, ball: str, write: Write) -> None:
    write(text)
    done = invoke("build", ball)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr
    assert told in done.stderr
    assert "set.toml" in done.stderr
    (line,) = reports("build", invoke("build", ball, "--json").stdout)
    assert (line["exit_code"], f"sdfcli: {line['error']}\n") == (code, done.stderr)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SDFCLI_BUILD_DEPTH", "many", ", set by SDFCLI_BUILD_DEPTH (see "),
        ("SDFCLI_BUILD_DEPTH", "99", "(--depth is set by SDFCLI_BUILD_DEPTH)"),
        ("SDFCLI_BUILD_FORCE", "maybe", "--force maybe: use 1 or 0, true or false, set by SDFCLI_BUILD_FORCE"),
        ("SDFCLI_BUILD_KEEP_GOING", "maybe", "SDFCLI_BUILD_KEEP_GOING: maybe: use 1 or 0, true or false"),
        ("SDFCLI_DEVICE", "gpu", "(--device is set by SDFCLI_DEVICE)"),
        ("SDFCLI_CONFIG", "none.toml", "none.toml: cannot be read: No such file or directory"),
    ],
)
def test_errors_name_the_variable(name: str, value: str, told: str, ball: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    done = invoke("build", ball)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert told in done.stderr
    (line,) = reports("build", invoke("build", ball, "--json").stdout)
    assert line["exit_code"] == 2
    assert f"sdfcli: {line['error']}" in done.stderr


@pytest.mark.parametrize(
    ("text", "built"), [("fail-fast = true", 0), ("keep-going = false", 0), ("keep-going = true", 1), ("", 1)]
)
def test_both_names_of_a_flag(text: str, built: int, ball: str, write: Write, tmp_path: Path) -> None:
    """The second name inverts the first one's value; the command line comes first."""
    write(f"[build]\n{text}\n")
    (tmp_path / "bad.off").write_text("OFF\n")
    for words, expected in (((), built), (("--keep-going",), 1), (("--fail-fast",), 0)):
        done = invoke("build", "bad.off", ball, "-o", "out", "--depth", "2", "--force", "--jobs", "1", "--json", *words)
        assert [each["status"] for each in reports("build", done.stdout)].count("ok") == expected, done.output


@pytest.mark.parametrize(
    ("name", "value", "built"),
    [
        ("SDFCLI_BUILD_FAIL_FAST", "1", 0),
        ("SDFCLI_BUILD_KEEP_GOING", "0", 0),
        ("SDFCLI_BUILD_KEEP_GOING", "TRUE", 1),
        ("SDFCLI_BUILD_KEEP_GOING", "", 0),
    ],
)
def test_both_names_of_a_flag_are_variables(
    name: str, value: str, built: int, ball: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after the command line and before the file; an empty one counts as not set."""
    write("[build]\nfail-fast = true\n")
    (tmp_path / "bad.off").write_text("OFF\n")
    monkeypatch.setenv(name, value)
    for words, expected in (((), built), (("--keep-going",), 1), (("--fail-fast",), 0)):
        done = invoke("build", "bad.off", ball, "-o", "out", "--depth", "2", "--force", "--jobs", "1", "--json", *words)
        assert [each["status"] for each in reports("build", done.stdout)].count("ok") == expected, done.output
        assert "warning" not in done.stderr


def test_variables_of_both_names_of_a_flag_exclude_each_other(ball: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDFCLI_BUILD_KEEP_GOING", "1")
    monkeypatch.setenv("SDFCLI_BUILD_FAIL_FAST", "1")
    told = "sdfcli: SDFCLI_BUILD_KEEP_GOING: SDFCLI_BUILD_FAIL_FAST is the same option; use one of them\n"
    assert invoke("build", ball).stderr == told


def test_unknown_variables_are_warned_of(ball: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the command that is run only, and not those of a sub-command."""
    for name in ("SDFCLI_CHECK_REQUIER", "SDFCLI_BENCH_SCAN_REPEAT", "SDFCLI_BENCH_REPAET", "SDFCLI_BUILD_X"):
        monkeypatch.setenv(name, "2")
    done = invoke("check", ball, "-q")
    told = "sdfcli: warning: SDFCLI_CHECK_REQUIER: no such variable; did you mean SDFCLI_CHECK_REQUIRE?\n"
    assert (done.exit_code, done.stderr) == (0, told)
    assert "SDFCLI_CHECK_REQUIER" not in invoke("info", ball).stderr
    told = invoke("bench", "nothing.ply").stderr
    assert "SDFCLI_BENCH_REPAET: no such variable; did you mean SDFCLI_BENCH_REPEAT?" in told
    assert "SCAN" not in told


def test_notes_are_left_out_wherever_quiet_is_set(ball: str) -> None:
    with open(ball, "a") as file:
        file.write("a line more\n")
    assert "note: " in run("check", ball).stderr
    assert run("check", ball, "-q").stderr == ""
    assert run("check", ball, env={**os.environ, "SDFCLI_QUIET": "1"}).stderr == ""


def test_the_help_shows_defaults_that_are_set(write: Write) -> None:
    write("[build]\ntolerance = 0.25\n")
    shown = invoke("build", "--help").stdout
    assert "0.25" in shown
    assert "SDFCLI_BUILD" not in shown  # a name follows from the option's


def test_variables_are_distinct() -> None:
    found = [
        name
        for entry in BUILT_IN.values()
        for option in options_of(command_of(entry))
        for name in variables(entry.name, option)
        if option not in EVERYWHERE or entry.name.upper() in name
    ]
    assert len(found) == len(set(found)) > 100
    assert "SDFCLI_COLLIDE_MIN" in found
    assert "SDFCLI_BENCH_SCAN_REPEAT" in found


@pytest.mark.parametrize(
    ("value", "code"), [("x", 2), ("0", 2), ("-1", 2), ("1.5", 2), ("1", 0), ("", 0), ("99999", 0)]
)
def test_a_wrong_number_of_threads_is_an_error(
    ball: str, monkeypatch: pytest.MonkeyPatch, value: str, code: int
) -> None:
    monkeypatch.setenv("SDFCLI_THREADS", value)
    done = invoke("check", ball)
    assert done.exit_code == code
    assert (done.stderr == f"sdfcli: SDFCLI_THREADS: {value}: use a whole number, 1 or more\n") == bool(code)


def test_a_name_as_the_settings_file(tmp_path: Path) -> None:
    """Versions of Typer differ in when they make it a path."""
    assert config_file(str(tmp_path / "a.toml")) == config_file(tmp_path / "a.toml") == tmp_path / "a.toml"
