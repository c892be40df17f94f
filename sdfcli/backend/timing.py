"""Seconds by stage, and profiler ranges of the same names."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sdfcli.backend import Backend
from sdfcli.runtime import interrupts


class Stages:
    """Seconds by stage, in order of first entry. A nested stage is not counted in its outer one. Device work is timed
    by the device's clock, without synchronisation."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._open: list[str] = []
        self._spans: list[tuple[str, str | None, Backend | None, Any, Any]] = []

    def __reduce__(self) -> Any:  # events belong to this object: copies begin empty
        return Stages, ()

    def __call__(self, name: str, backend: Backend | None = None) -> AbstractContextManager[None]:
        return _Stage(name, backend, self._names, self._open, self._spans)

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and their `total`; waits for the last stage's end."""
        seconds = dict.fromkeys(self._names, 0.0)
        for name, outer, backend, start, end in self._spans:
            elapsed = backend.elapsed(start, end) if backend else end - start
            seconds[name] += elapsed
            if outer is not None:
                seconds[outer] -= elapsed
        return {**seconds, "total": sum(seconds.values())}


class _Stage(AbstractContextManager[None]):
    """One stage, recorded in the lists of `Stages`. Not a generator: an octree enters hundreds."""

    def __init__(
        self,
        name: str,
        backend: Backend | None,
        names: dict[str, None],
        open_stages: list[str],
        spans: list[tuple[str, str | None, Backend | None, Any, Any]],
    ) -> None:
        self._name, self._backend, self._names, self._open, self._spans = name, backend, names, open_stages, spans
        self._now = backend.record_event if backend else time.perf_counter
        self._range = backend.annotate(name) if backend else nullcontext()

    def __enter__(self) -> None:
        self._outer = self._open[-1] if self._open else None
        self._names.setdefault(self._name)
        self._open.append(self._name)
        self._start = self._now()
        self._range.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._range.__exit__(*raised)
        self._open.pop()
        self._spans.append((self._name, self._outer, self._backend, self._start, self._now()))
        if raised[0] is None:
            interrupts.check()
