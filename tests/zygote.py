"""Commands in processes of their own, without the time that Python takes to start and import for each.

A server, started once for a process of tests, imports what commands import and starts no thread. For each command it
forks: the child gets the streams, folder, environment and words, and ends as any interpreter does. Variables that
Python reads when it starts (PYTHONPATH, LC_ALL) are those of the server, whatever a test sets.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import pkgutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, setrlimit

from typer.testing import CliRunner

LENGTH, CODE = struct.Struct("=Q"), struct.Struct("=i")
STREAMS = 3


class Zygote:
    """The server's other end."""

    def __init__(self) -> None:
        self._socket, its = socket.socketpair()
        words = [sys.executable, __file__, str(its.fileno())]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()]
        )
        its.close()

    def begin(
        self, words: list[str], streams: Sequence[int], cwd: str, env: Mapping[str, str], most: int = RLIM_INFINITY
    ) -> None:
        """Starts `sdfcli WORDS` in that folder, with these file descriptors as its standard streams.

        most: how many bytes a file that it writes may have
        """
        request = pickle.dumps((words, cwd, dict(env), most))
        socket.send_fds(self._socket, [LENGTH.pack(len(request))], streams)
        self._socket.sendall(request)

    def fileno(self) -> int:
        """What can be read when the command that was begun has ended."""
        return self._socket.fileno()

    def code(self) -> int:
        """The exit status of the command that was begun, as of subprocess, once it has ended."""
        return int(CODE.unpack(receive(self._socket, CODE.size))[0])


@functools.cache
def zygote() -> Zygote:
    """This process's."""
    return Zygote()


def receive(channel: socket.socket, size: int) -> bytes:
    """So many bytes; ends this process with the other one."""
    data = b""
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            sys.exit("the other end is gone")
        data += part
    return data


def child_of(channel: socket.socket) -> list[str]:
    """Waits for requests and forks; returns in the children, with the words of the command."""
    while True:
        head, fds, _, _ = socket.recv_fds(channel, LENGTH.size, STREAMS)
        if not head:
            os._exit(0)
        words, cwd, environment, most = pickle.loads(receive(channel, *LENGTH.unpack(head)))
        pid = os.fork()
        if pid == 0:
            channel.close()
            for stream, fd in enumerate(fds):
                os.dup2(fd, stream)
                os.close(fd)
            sys.stdin, sys.__stdin__ = (os.fdopen(0, closefd=False),) * 2
            sys.stdout, sys.__stdout__ = (os.fdopen(1, "w", closefd=False),) * 2
            sys.stderr, sys.__stderr__ = (os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False),) * 2
            setrlimit(RLIMIT_FSIZE, (most, most))
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            return words
        for fd in fds:
            os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        channel.sendall(CODE.pack(code))


def serve() -> None:
    """The server, and in its children the command line."""
    sys.path[:] = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]  # `-m` has none
    import sdfcli
    from sdfcli.__main__ import main

    for module in pkgutil.walk_packages(sdfcli.__path__, "sdfcli."):
        if not module.name.startswith("sdfcli.__main__"):
            with contextlib.suppress(ImportError):  # what this system, or this installation, does not have
                import_module(module.name)
    import h5py  # noqa: F401 - imported with the first file

    from sdfcli.cli.app import app

    CliRunner().invoke(app, ["schema", "info"])  # Typer imports more when it first reads a command line
    assert not {"cupy", "torch"} & sys.modules.keys()  # what they start is lost in a child
    sys.argv[1:] = child_of(socket.socket(fileno=int(sys.argv[1])))
    sys.argv[0] = "sdfcli"
    main()


if __name__ == "__main__":
    serve()
