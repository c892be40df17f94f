"""Work goes to threads, and stays in the calling one where a thread might not find the memory that it begins with."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from sdfcli.runtime import threads

PROGRAM = """
import resource, threading
from sdfcli.runtime import memory
from sdfcli.runtime.threads import executor
data = memory._mapped()[1] + {free}
resource.setrlimit(resource.RLIMIT_DATA, (data, data))
with executor(5) as helpers:
    print(helpers.submit(threading.get_ident).result() == threading.get_ident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize(
    ("free", "stays"),
    [
        ("memory.STACK + 8192", True),  # a thread would start, and not come to its first line
        ("memory.STACK + (40 << 20)", True),
        ("memory.STACK + (80 << 20)", False),
    ],
)
def test_short_of_memory_no_thread_starts(free: str, stays: bool) -> None:
    program = PROGRAM.format(free=free)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == f"{stays}\n"


def test_as_many_threads_as_have_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for stacks, most in ((-1, 0), (0, 0), (1, 1), (4, 4), (5, 5), (9, 5)):
        free = threads.SPARE + stacks * threads.STACK
        monkeypatch.setattr(threads, "allowed_memory", lambda free=free: free)
        assert threads.may_start(5) == most


@pytest.mark.parametrize("free", [0, sys.maxsize])
def test_results_and_errors_are_the_same(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "allowed_memory", lambda: free)
    with threads.executor(2) as helpers:
        assert list(helpers.map(lambda x, y: x - y, [1, 2, 3], [3, 2, 1])) == [-2, 0, 2]
        failed = helpers.submit(int, "no number")
        with pytest.raises(ValueError, match="no number"):
            failed.result()
        here = helpers.submit(threading.current_thread).result() is threading.current_thread()
    assert here == (free == 0)


@pytest.mark.parametrize("free", [0, threads.SPARE + threads.STACK, sys.maxsize])
def test_threads_are_kept_where_memory_suffices(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "allowed_memory", lambda: free)
    first, second = (threads.kept_threads(2) for _ in range(2))
    assert (first is second) == (free == sys.maxsize)
    names = {helpers.submit(threading.current_thread).result().name for helpers in (first, second)}
    assert (threading.current_thread().name in names) == (free == 0)
