"""Child: a process of this package that answers requests in JSON Lines (see serve.py)."""

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
"""Host memory per process, in bytes, if the process count is not given."""
GRACE = 3.0
"""Seconds for a process to end by itself and remove its unfinished file."""


class Child:
    """A process that runs a module's `main`, started in the background. settings: first message; threads: its CPU
    threads, None: as in this process; environment: additional variables."""

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
        # A new session, on Windows a process group: Ctrl-C in a terminal reaches only the parent process.
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
        """Waits for the ready message."""
        if not self._started:
            self._started = self.receive() is not None

    def send(self, what: object) -> None:
        """Sends a message."""
        assert self._process.stdin
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
        except (BrokenPipeError, ValueError):  # the process has ended, as the next read shows
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def receive(self) -> Any:
        """The next message; None if the process has ended."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def fault(self, what: str, remedy: str) -> SdfError:
        """The error for a process that ended during a build. remedy: advice if memory was short."""
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
        """Terminates the process; kills it if it does not end within GRACE seconds."""
        if os.name == "nt":  # where `terminate` kills; the process ends when its input does
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
        """Kills the process, except on Windows with its process group."""
        if os.name == "nt":
            self._process.kill()
        elif self._process.returncode is None:  # until waited for, its id, also the group's, is not reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def process_count(devices: list[str], least_per_gpu: int, most_per_gpu: int) -> int:
    """Process count for devices, by cores and memory: all for the CPU, or divided among GPUs, within the given limits
    per GPU."""
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
