"""The main loop of a child process that answers requests, as JSON Lines (see child.py).

It ends when its input does, also when its parent process is killed.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sdfcli.runtime import driver, interrupts, memory
from sdfcli.runtime.child import GRACE

Answer = Callable[[Any], None]
Handler = Callable[[Any, Answer], None]


def serve(start: Callable[[Any], Handler]) -> None:
    """Serves until the input ends. start: makes from the first message what answers each request, by calls."""
    driver.without_cub()
    if not driver.present():
        memory.bound()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of libraries are no answers
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()

    def answer(message: Any) -> None:
        interrupts.check()
        print(json.dumps(message), file=answers, flush=True)

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        handler = start(asked.get())
        interrupts.watch(signal.SIGTERM)  # until now it ends the process: interrupted imports raise errors of their own
        answer("ready")
        while True:
            handler(_next(asked), answer)
    driver.exit_fast(0)


def _listen(asked: queue.SimpleQueue[Any]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    if os.name == "nt":
        _thread.interrupt_main(signal.SIGTERM)
    else:  # also ends a wait of the main thread
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _next(asked: queue.SimpleQueue[Any]) -> Any:
    """The next request. With CUDA in the process, a wait without a time limit was not interrupted by signals."""
    while True:
        with contextlib.suppress(queue.Empty):
            return asked.get(timeout=0.2)
