"""Main loop of a child process that answers requests in JSON Lines (see child.py).

It ends when its input does, also if its parent process is killed.
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

from sdfcli.runtime import interrupts, memory
from sdfcli.runtime.child import GRACE
from sdfcli.startup import driver

Answer = Callable[[Any], None]
Handler = Callable[[Any, Answer], None]


def serve(start: Callable[[Any], Handler]) -> None:
    """Serves until the input ends. start: returns the request handler for the first message."""
    driver.without_cub()
    if not driver.present():
        memory.bound()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps library output out of the answers
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()

    def answer(message: Any) -> None:
        interrupts.check()
        print(json.dumps(message), file=answers, flush=True)

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        handler = start(asked.get())
        interrupts.watch(signal.SIGTERM)  # before, it ends the process: interrupted imports raise other errors
        answer("ready")
        while True:
            handler(_next(asked), answer)
    driver.exit_fast(0)


def _listen(asked: queue.SimpleQueue[Any]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    if os.name == "nt":
        _thread.interrupt_main(signal.SIGTERM)
    else:  # also interrupts a waiting main thread
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _next(asked: queue.SimpleQueue[Any]) -> Any:
    """The next request. Polls, since signals did not interrupt a wait without timeout with CUDA in the process."""
    while True:
        with contextlib.suppress(queue.Empty):
            return asked.get(timeout=0.2)
