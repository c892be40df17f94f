"""Threads of Python where memory suffices. Without memory for what it begins with, a thread may end before it has told
that it began, and who started it waits for that for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from sdfcli.runtime.memory import STACK, allowed_memory

SPARE = 64 << 20
"""Bytes that must be left beside the stacks of new threads, for what they and others allocate."""


def may_start(count: int = 1) -> int:
    """How many of `count` new threads the limits of this process leave memory for."""
    return max(0, min(count, (allowed_memory() - SPARE) // STACK))


def executor(count: int) -> Executor:
    """At most `count` threads, fewer where memory is short; without memory for one the calling thread, which does the
    work when it is submitted."""
    most = may_start(count)
    return ThreadPoolExecutor(most) if most else _CallingThread()


def kept_threads(count: int) -> Executor:
    """The same, but not to be shut down: where memory suffices for all, these threads stay for who comes next, as one
    takes 0.4 ms to start. They serve first who came first."""
    return _kept() if may_start(count) == count else executor(count)


@cache
def _kept() -> Executor:
    return ThreadPoolExecutor(thread_name_prefix="sdfcli")


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_kept.cache_clear)  # a child has none of its parent's threads


class _CallingThread(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        result = Future[Any]()
        try:
            result.set_result(fn(*args, **kwargs))
        except Exception as error:
            result.set_exception(error)
        return result
