"""Seconds by stage, and profiler ranges of the same names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sdfcli.backend import Backend
from sdfcli.runtime import interrupts


class Stages:
    """Seconds by stage, in the order in which stages were first entered. A nested stage is not counted in its outer
    one. Work of a device is timed by its own clock, without synchronisation."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._open: list[str] = []
        self._spans: list[tuple[str, str | None, Backend | None, Any, Any]] = []

    def __reduce__(self) -> Any:  # events belong to this object: copies begin empty
        return Stages, ()

    @contextmanager
    def __call__(self, name: str, backend: Backend | None = None) -> Iterator[None]:
        now = backend.record_event if backend else time.perf_counter
        outer = self._open[-1] if self._open else None
        self._names.setdefault(name)
        self._open.append(name)
        start = now()
        try:
            with backend.annotate(name) if backend else nullcontext():
                yield
            interrupts.check()
        finally:
            self._open.pop()
            self._spans.append((name, outer, backend, start, now()))

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and their `total`; waits for the end of the last stage."""
        seconds = dict.fromkeys(self._names, 0.0)
        for name, outer, backend, start, end in self._spans:
            elapsed = backend.elapsed(start, end) if backend else end - start
            seconds[name] += elapsed
            if outer is not None:
                seconds[outer] -= elapsed
        return {**seconds, "total": sum(seconds.values())}
