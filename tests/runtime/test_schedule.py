"""Values that are computed later, once, and work that runs in threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from sdfcli.errors import OutOfMemoryError
from sdfcli.runtime.schedule import Deferred, Schedule

T = TypeVar("T")


class Device:
    """A device whose streams and copies note what they do."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def low_priority(self, work: Callable[[], T]) -> T:
        self.noted.append("low")
        return work()

    def high_priority(self, work: Callable[[], T]) -> Callable[[], T]:
        self.noted.append("high")
        return work

    def to_host_async(self, arrays: list[Any]) -> tuple[list[Any], Callable[[], None]]:
        self.noted.append("async")
        copies = [np.zeros_like(array) for array in arrays]

        def wait() -> None:
            for copy, array in zip(copies, arrays, strict=True):
                copy[...] = array

        return copies, wait

    def to_host_now(self, arrays: list[Any]) -> tuple[list[Any], Callable[[], None]]:
        self.noted.append("now")
        return arrays, lambda: None


def test_a_value_is_computed_once_by_whichever_thread_needs_it_first() -> None:
    made: list[int] = []

    def work() -> object:
        made.append(threading.get_ident())
        return object()

    value = Deferred(work)
    with ThreadPoolExecutor(4) as threads:
        values = [*threads.map(lambda _: value.get(), range(16))]
    assert len(made) == 1
    assert all(each is values[0] for each in values)
    assert Deferred.known(values[0]).get() is values[0]


def test_an_error_is_raised_whenever_the_value_is_needed() -> None:
    made: list[int] = []

    def work() -> None:
        made.append(1)
        raise ValueError("no")

    value = Deferred(work)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            value.get()
    assert len(made) == 1


def test_an_interrupted_computation_is_repeated() -> None:
    made: list[int] = []

    def work() -> int:
        made.append(1)
        if len(made) == 1:
            raise KeyboardInterrupt
        return len(made)

    value = Deferred(work)
    with pytest.raises(KeyboardInterrupt):
        value.get()
    assert value.get() == 2


def test_a_started_value_is_computed_there_and_not_here() -> None:
    run, main = Schedule(), threading.get_ident()
    for place, here in ((run.thread, False), (Deferred, True)):
        value = Deferred(threading.get_ident)
        value.start(place)
        value.start(lambda _: pytest.fail("started twice"))
        assert (value.get() == main) == here
        value.start(lambda _: pytest.fail("started when done"))


def test_what_is_needed_for_a_value_is_freed_with_it() -> None:
    large = np.zeros(3)
    gone, value = weakref.ref(large), Deferred(partial(len, large))
    del large
    gc.disable()
    try:
        assert gone() is not None
        assert value.get() == 3
        assert gone() is None
    finally:
        gc.enable()


def test_work_at_high_priority_is_repeated_here_for_lack_of_memory() -> None:
    device, run, main, made = Device(), Schedule(), threading.get_ident(), list[bool]()

    def work() -> int:
        made.append(threading.get_ident() == main)
        if not made[-1]:
            raise MemoryError
        return 7

    assert run.high_priority(device, work).get() == 7
    assert (device.noted, made) == (["high"], [False, True])


def test_other_errors_at_high_priority_are_raised() -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Schedule().high_priority(Device(), work).get()


def test_work_at_low_priority_is_launched_at_once() -> None:
    device, launched = Device(), list[int]()

    def launch() -> Callable[[], int]:
        launched.append(1)
        return lambda: 5

    value = Schedule.low_priority(device, launch)
    assert (device.noted, launched) == (["low"], [1])
    assert value.get() == 5


@pytest.mark.parametrize("concurrent", [False, True])
def test_copies_are_read_once_they_have_arrived(concurrent: bool) -> None:
    device, arrays = Device(), {"one": np.arange(3), "two": np.arange(4)}
    copies, arrived = Schedule.to_host(device, arrays, concurrent)
    assert device.noted == ["async" if concurrent else "now"]
    assert [copies[name].get().tolist() for name in arrays] == [[0, 1, 2], [0, 1, 2, 3]]
    arrived.get()


def test_copies_that_fail_say_what_helps() -> None:
    class Full(Device):
        def to_host_async(self, arrays: list[Any]) -> tuple[list[Any], Callable[[], None]]:
            def wait() -> None:
                raise MemoryError("no buffer")

            return arrays, wait

    copies, _ = Schedule.to_host(Full(), {"one": np.arange(3)}, concurrent=True)
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="no buffer"):
            copies["one"].get()
