"""`sdfcli --install-completion` in bash, zsh and fish, where they are installed: the tab key completes words."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TAB, ENTER = "\t", "\r"
PATIENCE = 120.0
"""Seconds for a completion, on a busy machine."""

PROGRAM = f"""#!{sys.executable}
import os, sys

if "_SDFCLI_COMPLETE" in os.environ or "--install-completion" in sys.argv:
    from sdfcli.__main__ import main

    main()
elif len(sys.argv) > 1:
    open("words.txt", "w").write(" ".join(sys.argv[1:]))
"""
"""Completes as sdfcli does, and writes down what it is told to do."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_completes(shell: str, tmp_path: Path) -> None:
    """Commands, options, their values, names of files and folders, and names of schemas."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sdfcli").write_text(PROGRAM)
    (tmp_path / "bin" / "sdfcli").chmod(0o755)
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "bunny.ply").touch()
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path), "TERM": "xterm", "PS1": "$ "}
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        environment.pop(name, None)
    script = "sdfcli --install-completion; true"  # of one command alone, bash becomes that command
    done = subprocess.run(
        [program, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"{shell} completion installed" in done.stdout, done.stderr
    typed = [
        (f"sdfcli {'build'[:4]}", "build "),
        ("sca", "scans/"),
        ("bun", "bunny.ply"),
        (" --octre", "--octree "),
        ("ad", "adaptive"),
        (" --skip-", "--skip-existing"),
    ]
    assert words_of(program, typed, environment, tmp_path) == [
        *("build", "scans/bunny.ply", "--octree", "adaptive", "--skip-existing")
    ]
    assert words_of(program, [("sdfcli schema fi", "file")], environment, tmp_path) == ["schema", "file"]


def words_of(shell: str, typed: list[tuple[str, str]], environment: dict[str, str], folder: Path) -> list[str]:
    """The words that sdfcli gets of a line that is typed, with a tab key after each part. typed: each part, and what
    the tab key makes the shell show."""
    result = folder / "words.txt"
    result.unlink(missing_ok=True)
    number, ours = pty.fork()
    if number == 0:
        os.chdir(folder)
        os.execve(shell, [shell, "-i"], environment)
    seen = ""
    try:
        write(ours, "")
        for part, shown in typed:
            write(ours, part)
            seen = until(ours, part.strip()[-1:], "")
            write(ours, TAB)
            rest = shown.strip()[len(part.split()[-1]) :]
            seen = until(ours, rest, seen[-1:])
        write(ours, ENTER)
        end = time.monotonic() + PATIENCE
        while not result.exists() and time.monotonic() < end:
            drain(ours, 0.1)
        time.sleep(0.2)
        return result.read_text().split()
    finally:
        os.kill(number, signal.SIGKILL)
        os.close(ours)
        os.waitpid(number, 0)


def write(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())


def drain(terminal: int, seconds: float) -> str:
    """What a shell shows within some time, without codes for colours and the cursor."""
    if not select.select([terminal], [], [], seconds)[0]:
        return ""
    try:
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", os.read(terminal, 4096).decode(errors="replace"))
    except OSError:
        return ""


def until(terminal: int, words: str, seen: str) -> str:
    """What a shell shows until it has shown some words, and is at rest."""
    end = time.monotonic() + PATIENCE
    while words not in seen:
        assert time.monotonic() < end, f"no {words!r} in {seen!r}"
        seen += drain(terminal, 0.5)
    while more := drain(terminal, 0.5):
        seen += more
    return seen
