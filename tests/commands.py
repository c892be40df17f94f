"""The command line, run as users run it."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from sdfcli.cli.schemas import schema_of


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: exit codes, and nothing on the wrong stream. With --json its lines are
    held against the schema."""
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    if "--json" in words:
        reports(str(words[0]), done.stdout)
    return done


def reports(command: str, printed: str) -> list[dict[str, Any]]:
    """The objects that a command printed with --json, each as its schema says."""
    found = [json.loads(line) for line in printed.splitlines()]
    for each in found:
        validator(command).validate(each)
    return found


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """That of a schema, closed: it takes no key that it does not name, but in metadata of other programs."""
    Draft202012Validator.check_schema(schema_of(name))
    return Draft202012Validator(schema_of(name) if name == "info" else closed(schema_of(name)))


def closed(schema: Any) -> Any:
    """A schema without room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **own} if "required" in own else own


def on_a_terminal(*words: object, cwd: Path | None = None, stdout: Any = None, columns: int | None = None) -> str:
    """What a command shows on a terminal, as it comes. stdout: a file in place of the terminal. columns: its width,
    whatever the environment says."""
    ours, its = pty.openpty()
    environment = dict(os.environ)
    if columns is not None:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    seen = b""
    with (
        open(ours, "rb", buffering=0),
        open(its, "wb", buffering=0),  # until the end: what a terminal without users still holds may be lost
        subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout or its, stderr=its, env=environment
        ) as process,
        open(os.pidfd_open(process.pid), "rb") as ended,
    ):
        while ended not in select.select([ours, ended], [], [])[0]:
            seen += os.read(ours, 4096)
        while select.select([ours], [], [], 0)[0]:
            seen += os.read(ours, 4096)
    assert process.returncode >= 0, f"ended by signal {-process.returncode} after {seen!r}"
    return seen.decode(errors="backslashreplace")
