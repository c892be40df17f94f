"""The field of a grown octree, whose arrays come to the host beside its measurement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sdfcli
import shapes
from sdfcli import pipeline
from sdfcli.backend import Array, Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import OutOfMemoryError
from sdfcli.verify.measure import draw_samples

OPEN = shapes.holed(np.random.default_rng(3), shapes.icosphere(2), 0.1)
"""Some samples lie at jumps of the sign."""


class Late(CpuBackend):
    """Its copies have other values until they are waited for."""

    def to_host_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        copies = [np.full_like(array, 77) for array in arrays]

        def wait() -> None:
            for copy, array in zip(copies, arrays, strict=True):
                copy[...] = array

        return copies, wait


class Failing(CpuBackend):
    """Its copies fail."""

    def to_host_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        def wait() -> None:
            raise MemoryError("no buffer")

        return [np.empty_like(array) for array in arrays], wait


def build_on(backend: Backend, monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> sdfcli.Field:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=3000))
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: backend)
    return sdfcli.build(OPEN, depth=5, tolerance=2e-3, **parameters)


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_nothing_is_read_before_it_has_arrived(cpu: CpuBackend, octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = (
        build_on(each, monkeypatch, octree=octree, sign="winding", keep_nearest=True) for each in (cpu, Late())
    )
    assert late.content_sha256 == early.content_sha256
    assert late.info == early.info
    assert np.array_equal(late.nearest, early.nearest)  # type: ignore[arg-type]
    assert (late.steps is None) == (octree == "bvh")
    if late.steps is not None:
        assert np.array_equal(late.steps, early.steps)  # type: ignore[arg-type]


def test_what_fails_on_the_way_fails_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfMemoryError, match="no buffer"):
        build_on(Failing(), monkeypatch)
