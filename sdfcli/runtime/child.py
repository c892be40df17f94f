"""Child: a process of this package that answers requests, as JSON Lines (see serve.py)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from sdfcli.errors import OutOfMemoryError, SdfError
from sdfcli.runtime import processes
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.memory import free_memory

LEAST_MEMORY = 2 * 10**9
"""Bytes of host memory per process, where the number of processes is not given."""
GRACE = 3.0
"""Seconds that a process has to end by itself, and to remove the file that it writes."""


class Child:
    """A process that runs the `main` of a module; it starts in the background. settings: its first message;
    threads: those of its host's work, None: as ours; environment: variables that it has besides ours."""

    def __init__(
        self,
        module: str,
        settings: dict[str, Any],
        threads: int | None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = {**os.environ, **(environment or {})}
        if threads:
            variables["SDFCLI_THREADS"] = str(threads)
        # A session of its own, on Windows a group: Ctrl-C in a terminal goes to the parent process alone.
        self._process = subprocess.Popen(
            processes.python(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._started = False
        self.send(settings)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Waits for the message that it is ready."""
        if not self._started:
            self._started = self.receive() is not None

    def send(self, what: object) -> None:
        """Sends a message."""
        assert self._process.stdin
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
        except (BrokenPipeError, ValueError):  # its end is noticed at the next read
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def receive(self) -> Any:
        """The next message; None where the process has ended."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def fault(self, what: str, remedy: str) -> SdfError:
        """How a process ended that was at work on `what`. remedy: for a lack of memory."""
        code = self._process.wait()
        name = signal.Signals(-code).name if code < 0 else ""
        if name == "SIGKILL":
            message = f"was killed, as systems do that run out of memory; try {remedy}"
            return OutOfMemoryError(f"{what}: the process that built it {message}")
        how = f"crashed ({name})" if name else f"ended with exit code {code}"
        return SdfError(f"{what}: the process that built it {how}")

    def dismiss(self) -> None:
        """Kills an idle process, without waiting for the release of GPU memory."""
        self._kill()
        threading.Thread(target=self._process.wait, daemon=True).start()

    def end(self) -> None:
        """Terminates the process, then kills it."""
        if os.name == "nt":  # where terminating is killing; it ends by itself when its input does
            assert self._process.stdin
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        else:
            self._process.terminate()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        """Kills the process, and those that it started."""
        if os.name == "nt":
            self._process.kill()
        elif self._process.returncode is None:  # until it is waited for, its id, which is its group's, is its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def process_count(devices: list[str], least_per_gpu: int, most_per_gpu: int) -> int:
    """The number of processes for devices, by cores and memory: as many on the CPU, and shared among GPUs."""
    most = max(1, min(available_threads(), free_memory() // LEAST_MEMORY))
    if devices == ["cpu"]:
        return most
    return len(devices) * max(least_per_gpu, min(most_per_gpu, most // len(devices)))


def end_all(children: Iterable[Child]) -> None:
    """Ends processes in parallel."""
    enders = [threading.Thread(target=child.end) for child in children]
    for thread in enders:
        thread.start()
    for thread in enders:
        thread.join()
