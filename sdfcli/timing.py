"""Seconds a stage, and ranges of the same names for profilers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sdfcli import interrupts
from sdfcli.backend import Backend


class Stages:
    """Seconds by stage, in the order in which stages were first entered. A stage entered within another one counts as
    its own, not as part of the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def __call__(self, name: str, backend: Backend | None = None) -> Iterator[None]:
        self.seconds.setdefault(name, 0.0)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            if backend is None:
                yield
            else:
                with backend.annotate(name):
                    yield
                backend.synchronize()
            interrupts.check()
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] += elapsed - self._inner.pop()
            self._inner[-1] += elapsed


class Marks:
    """Seconds of stages that follow one another, by the device's own clock: nothing waits in between."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._names: list[str] = []
        self._marks = [backend.mark()]

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        with self._backend.annotate(name):
            yield
        self._names.append(name)
        self._marks.append(self._backend.mark())

    def seconds(self) -> dict[str, float]:
        """By stage; waits until the last one has ended."""
        spans = zip(self._marks[:-1], self._marks[1:], strict=True)
        return {name: self._backend.elapsed(*span) for name, span in zip(self._names, spans, strict=True)}
