"""Seconds a stage, and ranges of the same names for profilers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

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
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] += elapsed - self._inner.pop()
            self._inner[-1] += elapsed
