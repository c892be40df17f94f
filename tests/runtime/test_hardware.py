"""The number of threads of a process, and of those that it starts."""

from __future__ import annotations

from typing import Any

import pytest

from sdfcli.batch.messages import Settings
from sdfcli.batch.pool import Worker
from sdfcli.runtime import child
from sdfcli.runtime.hardware import available_threads


@pytest.mark.parametrize("asked", ["", "0", "-1", "x", "1.5", str(1 << 40)])
def test_all_threads_where_none_are_asked_for(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.delenv("SDFCLI_THREADS", raising=False)
    every = available_threads()
    monkeypatch.setenv("SDFCLI_THREADS", asked)
    assert available_threads() == every


def test_threads_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDFCLI_THREADS", "1")
    assert available_threads() == 1


@pytest.mark.parametrize("threads", [None, 3])
def test_a_worker_has_the_threads_of_its_settings(monkeypatch: pytest.MonkeyPatch, threads: int | None) -> None:
    started: list[dict[str, Any]] = []

    def begins(*_: Any, env: dict[str, str], **__: Any) -> Any:
        started.append(env)
        raise FileNotFoundError

    monkeypatch.setattr(child.subprocess, "Popen", begins)
    monkeypatch.setenv("SDFCLI_THREADS", "2")
    with pytest.raises(FileNotFoundError):
        Worker(Settings(threads=threads))
    assert started[0]["SDFCLI_THREADS"] == str(threads or 2)
