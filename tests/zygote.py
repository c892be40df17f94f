"""Commands in their own processes, without Python's start and import time for each.

A server, started once per test process, imports the commands' modules and starts no thread. It forks for each command:
the child gets the streams, folder, environment and words, and exits as any interpreter does. Variables read by Python
at start (PYTHONPATH, LC_ALL) are the server's, regardless of a test's environment.

`python zygote.py serve PLACE` is the server; PLACE is a socket path in a private folder. `python zygote.py run PLACE
WORDS` lets it run one command, for tests of shell scripts.
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
"""Maximum seconds of a command."""
TENSORS = ("torch", "jax", "warp")
"""Packages that no command needs."""


class Command:
    """`sdfcli WORDS`, started by the server at `place`.

    streams     file descriptors of the standard streams; None for a closed one
    most        maximum bytes of a file it writes; -1 for no limit
    limit       seconds before it is killed
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
        """A descriptor that is readable once the command has ended."""
        return self._socket.fileno()

    def code(self) -> int:
        """Exit status as in subprocess; waits for the end."""
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
    """Forks for each connection until standard input ends. Returns in child processes that become a command."""
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
            with contextlib.suppress(ChildProcessError):  # no children left
                while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                    pass


def _answer(channel: socket.socket) -> None:
    """Waits for a child and sends its status; returns in the child, which becomes the command."""
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
    """Makes file descriptors the standard streams; missing ones are closed, as if never opened."""
    for number in range(STREAMS):
        os.close(number)
    for number, stream in streams.items():
        os.dup2(stream, number)
    for stream in streams.values():
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = None
        if number in streams:  # as Python does: stderr unbuffered
            raw = os.fdopen(number, "wb" if number else "rb", 0 if name == "stderr" else -1, closefd=False)
            errors = "backslashreplace" if name == "stderr" else None
            file = io.TextIOWrapper(raw, errors=errors, write_through=name == "stderr")
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def _import_all() -> None:
    """Imports all modules of commands, including those imported lazily."""
    import pkgutil
    from importlib import import_module

    import h5py  # noqa: F401
    from typer.testing import CliRunner

    import sdfcli
    from sdfcli.cli.app import app

    sys.modules.update(dict.fromkeys(TENSORS))  # importing them fails
    for module in pkgutil.walk_packages(sdfcli.__path__, "sdfcli."):
        with contextlib.suppress(ImportError):  # missing on this system or in this installation
            import_module(module.name)
    for name in TENSORS:
        del sys.modules[name]
    CliRunner().invoke(app, ["schema", "info"])  # Typer imports more on its first command line
    assert not {"cupy", "torch"} & sys.modules.keys()  # their threads and contexts do not survive a fork


def main() -> None:
    """The server, its commands, and the client that requests one."""
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
