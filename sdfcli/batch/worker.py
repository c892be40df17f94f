"""A process that builds meshes one by one, for pool.py.

It reads JSON Lines: the settings, then meshes and outputs; and answers with JSON Lines: one when it is ready, and an
outcome for every mesh. It ends when its input does, also when its parent process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from sdfcli.runtime import driver, interrupts, memory

GRACE = 3.0
"""Seconds that a build has to end by itself, and to remove the file that it writes."""


def main() -> None:
    """Serves until the input ends."""
    interrupts.watch(signal.SIGTERM)
    driver.without_cub()
    if not driver.present():
        memory.bound()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of libraries are no answers
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(asked, answers)
    driver.exit_fast(0)


def _listen(asked: queue.SimpleQueue[Any]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _next(asked: queue.SimpleQueue[Any]) -> Any:
    """The next request. With CUDA in the process, a wait without a time limit was not interrupted by signals."""
    while True:
        with contextlib.suppress(queue.Empty):
            return asked.get(timeout=0.2)


def _serve(asked: queue.SimpleQueue[Any], answers: Any) -> None:
    request = asked.get()
    driver.start(request["settings"]["device"])
    from sdfcli.backend import select_backend
    from sdfcli.batch.job import outcome_of
    from sdfcli.batch.messages import Settings
    from sdfcli.errors import SdfError
    from sdfcli.verify.estimate import memory_limit

    settings, share = Settings(**request["settings"]), request["share"]
    with contextlib.suppress(SdfError):  # a device that is not there is an error of every mesh
        backend = select_backend(settings.device, settings.threads)
        settings = replace(settings, max_memory=settings.max_memory or memory_limit(backend, None) // share)
        memory.bound(settings.max_memory)
    print(json.dumps("ready"), file=answers, flush=True)
    while True:
        mesh, output = _next(asked)
        outcome = outcome_of(mesh, output, settings)
        interrupts.check()
        print(json.dumps(outcome), file=answers, flush=True)
