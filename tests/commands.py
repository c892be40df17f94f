"""The command line, run as by users."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import pty
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import zygote
from sdfcli.cli.schema import document
from zygote import LIMIT, STREAMS, Command


@functools.cache
def _started() -> tuple[str, subprocess.Popen[bytes]]:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = str(Path(folder, "commands"))
    process = subprocess.Popen(
        [sys.executable, zygote.__file__, "serve", place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return place, process


def server() -> str:
    """The command server's socket path; the server ends with this process."""
    return _started()[0]


def program() -> str:
    """A shell command line that runs the words appended to it."""
    return shlex.join([sys.executable, "-I", "-S", zygote.__file__, "run", server()])


def run(
    *words: object,
    cwd: Path | None = None,
    said: str = "",
    env: Mapping[str, str] = os.environ,
    most: int = -1,
    limit: int = LIMIT,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in its own process: checks exit codes, and both streams. With --json its lines are validated
    against the schema.

    said    text on standard input
    most    maximum bytes of a file it writes
    limit   seconds before it is killed
    """
    texts = [str(word) for word in words]
    pipes = [os.pipe() for _ in range(STREAMS)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    command = Command(server(), texts, theirs, str(cwd or Path.cwd()), env, most, limit)
    for fd in theirs:
        os.close(fd)
    with (
        open(pipes[0][1], "w", encoding="utf-8") as given,
        open(pipes[1][0], encoding="utf-8") as output,
        open(pipes[2][0], encoding="utf-8") as errors,
        ThreadPoolExecutor(2) as threads,
    ):
        printed = [threads.submit(file.read) for file in (output, errors)]
        with contextlib.suppress(BrokenPipeError):  # closed by the command
            given.write(said)
            given.close()
        done = subprocess.CompletedProcess(texts, command.code(), *(text.result() for text in printed))
    if "--json" in words:
        reports(texts[0], done.stdout)
    return done


def reports(command: str, printed: str) -> list[dict[str, Any]]:
    """The objects printed by a command with --json, validated against its schema."""
    found = [json.loads(line) for line in printed.splitlines()]
    for each in found:
        validator(command).validate(each)
    return found


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """A schema's validator, closed: rejects unnamed keys, except in metadata of other programs."""
    Draft202012Validator.check_schema(document(name))
    return Draft202012Validator(document(name) if name == "info" else closed(document(name)))


def closed(schema: Any) -> Any:
    """A schema that rejects unnamed keys."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **own} if "required" in own else own


def on_a_terminal(*words: object, cwd: Path | None = None, stdout: Any = None, columns: int | None = None) -> str:
    """A command's terminal output, as it arrives. stdout: a file in place of the terminal. columns: terminal width,
    overriding the environment."""
    ours, its = pty.openpty()
    environment = dict(os.environ)
    if columns is not None:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    seen = b""
    with (
        open(ours, "rb", buffering=0),
        open(its, "wb", buffering=0),  # open until the end: output buffered by an unused terminal may be lost
        open(os.devnull) as nothing,
    ):
        streams = nothing.fileno(), stdout.fileno() if stdout else its, its
        command = Command(server(), [str(word) for word in words], streams, str(cwd or Path.cwd()), environment)
        while command not in select.select([ours, command], [], [])[0]:
            seen += os.read(ours, 4096)
        while select.select([ours], [], [], 0)[0]:
            seen += os.read(ours, 4096)
        code = command.code()
    assert code >= 0, f"ended by signal {-code} after {seen!r}"
    return seen.decode(errors="backslashreplace")
