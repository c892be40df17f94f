"""Seconds by stage."""

from __future__ import annotations

import contextlib
import copy
import pickle
import time
from typing import Any

import pytest

from sdfcli.backend import Backend, select_backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.backend.timing import Stages


class Clock(CpuBackend):
    """A device with a clock that the test sets, which runs behind that of the host."""

    now = 0.0

    def record_event(self) -> Any:
        return self.now


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(time, "perf_counter", lambda: 1000.0 + 2 * Clock.now)
    monkeypatch.setattr(Clock, "now", 0.0)
    return Clock()


def test_inner_stages_count_as_their_own(device: Clock) -> None:
    stages = Stages()
    with stages("outer", device):
        Clock.now += 1.0
        for _ in range(3):
            with stages("inner", device):
                Clock.now += 4.0
                with stages("innermost", device):
                    Clock.now += 8.0
        Clock.now += 16.0
    with stages("inner", device):
        Clock.now += 32.0
    found = stages.seconds()
    assert list(found) == ["outer", "inner", "innermost", "total"]
    assert found == {"outer": 17.0, "inner": 44.0, "innermost": 24.0, "total": 85.0}


def test_without_a_device_the_host_is_timed(device: Clock) -> None:
    stages = Stages()
    with stages("host"):
        Clock.now += 5.0
    with stages("device", device):
        Clock.now += 5.0
    assert stages.seconds() == {"host": 10.0, "device": 5.0, "total": 15.0}


def test_a_stage_that_fails_is_left(device: Clock) -> None:
    stages = Stages()
    with contextlib.suppress(ValueError), stages("outer", device), stages("inner", device):
        Clock.now += 1.0
        raise ValueError
    with stages("after", device):
        Clock.now += 1.0
    assert stages.seconds() == {"outer": 0.0, "inner": 1.0, "after": 1.0, "total": 2.0}


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    backend: Backend = select_backend("cuda")
    stages = Stages()
    with stages("sorted", backend):
        backend.sort(backend.xp.arange(1 << 22, dtype="uint64")[::-1].copy())
    found = stages.seconds()
    assert 0 < found["sorted"] == found["total"] < 60


def test_copies_begin_empty(device: Clock) -> None:
    """A device's events are destroyed with the object that recorded them."""
    stages = Stages()
    with stages("device", device):
        pass
    for other in (copy.deepcopy(stages), pickle.loads(pickle.dumps(stages))):
        assert other.seconds() == {"total": 0.0}
