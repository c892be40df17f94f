"""Commands in processes of their own, without the time that Python takes to start and import for each.

A server, started once for a process of tests, imports what commands import and starts no thread. For each command it
forks: the child gets the streams, folder, environment and words, and ends as any interpreter does. Variables that
Python reads when it starts (PYTHONPATH, LC_ALL) are those of the server, whatever a test sets.

`python zygote.py serve PLACE` is the server; its place is a socket in a folder of its own. `python zygote.py run PLACE
WORDS` has it run one command, for tests of shell scripts.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence

LENGTH, CODE = struct.Struct("=Q"), struct.Struct("=i")
STREAMS = 3
LIMIT = 600
"""Seconds that a command may take."""


class Command:
    """`sdfcli WORDS`, begun by the server at a place.

    streams     file descriptors of its standard streams; None for one that is closed
    most        how many bytes a file that it writes may have; -1 for any
    limit       seconds after which it is killed
    """

    def __init__(
        self,
        place: str,
        words: Sequence[str],
        streams: Sequence[int | None],
        cwd: str,
        env: Mapping[str, str],
        most: int = -1,
        limit: int = LIMIT,
    ) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(place)
        given = {number: stream for number, stream in enumerate(streams) if stream is not None}
        request = json.dumps([list(given), list(words), cwd, dict(env), most, limit]).encode()
        socket.send_fds(self._socket, [LENGTH.pack(len(request))], list(given.values()))
        self._socket.sendall(request)

    def fileno(self) -> int:
        """What can be read when the command has ended."""
        return self._socket.fileno()

    def code(self) -> int:
        """Its exit status as of subprocess, once it has ended."""
        with self._socket:
            return int(CODE.unpack(_receive(self._socket, CODE.size))[0])


def _receive(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            raise EOFError("the server of commands is gone")
        data += part
    return data


# ---- The server ----


def _serve(place: str) -> None:
    """Forks for each connection until standard input ends. Returns in the processes that are to be a command."""
    import select

    _import_all()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while True:
            if sys.stdin in select.select([sys.stdin, listener], [], [])[0]:
                os.unlink(place)
                os.rmdir(os.path.dirname(place))
                os._exit(0)
            channel, _ = listener.accept()
            with channel:
                if os.fork() == 0:
                    listener.close()
                    return _answer(channel)
            with contextlib.suppress(ChildProcessError):  # all have answered
                while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                    pass


def _answer(channel: socket.socket) -> None:
    """Waits for a child and tells its status; returns in the child, which is the command from then on."""
    head, streams, _, _ = socket.recv_fds(channel, LENGTH.size, STREAMS)
    numbers, words, cwd, env, most, limit = json.loads(_receive(channel, *LENGTH.unpack(head)))
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(limit)
        channel.sendall(CODE.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        os._exit(0)
    channel.close()
    _take_streams(dict(zip(numbers, streams, strict=True)))
    if most >= 0:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = ["sdfcli", *words]


def _take_streams(streams: Mapping[int, int]) -> None:
    """Makes file descriptors the standard streams; those that are not among them are closed, as from the start."""
    for number in range(STREAMS):
        os.close(number)
    for number, stream in streams.items():
        os.dup2(stream, number)
    for stream in streams.values():
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = None
        if number in streams:  # as Python opens them: errors without a buffer
            raw = os.fdopen(number, "wb" if number else "rb", 0 if name == "stderr" else -1, closefd=False)
            errors = "backslashreplace" if name == "stderr" else None
            file = io.TextIOWrapper(raw, errors=errors, write_through=name == "stderr")
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def _import_all() -> None:
    """What commands import, by name or when they first need it."""
    import pkgutil
    from importlib import import_module

    import h5py  # noqa: F401
    from typer.testing import CliRunner

    import sdfcli
    from sdfcli.cli.app import app

    for module in pkgutil.walk_packages(sdfcli.__path__, "sdfcli."):
        with contextlib.suppress(ImportError):  # what this system, or this installation, does not have
            import_module(module.name)
    CliRunner().invoke(app, ["schema", "info"])  # Typer imports more when it first reads a command line
    assert not {"cupy", "torch"} & sys.modules.keys()  # what they start is lost in a child


def main() -> None:
    """The server, the commands that it runs, and the program that asks it for one."""
    role, place, *words = sys.argv[1:]
    if role == "run":
        streams = [number if _is_open(number) else None for number in range(STREAMS)]
        code = Command(place, words, streams, os.getcwd(), os.environ).code()
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)
    _serve(place)
    from sdfcli.__main__ import main as command

    command()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
