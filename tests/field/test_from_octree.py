"""The field of a grown octree, whose arrays come to the host beside its measurement."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
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
from sdfcli.mesh.mesh import Mesh
from sdfcli.quality.measure import draw_samples

OPEN = shapes.holed(np.random.default_rng(3), shapes.icosphere(2), 0.1)
"""Some samples lie at jumps of the sign."""


class Late(CpuBackend):
    """Its copies have other values until they are waited for."""

    def to_host_async(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        copies = [np.full_like(array, 77) for array in arrays]

        def wait() -> None:
            for copy, array in zip(copies, arrays, strict=True):
                copy[...] = array

        return copies, wait


class Failing(CpuBackend):
    """Its copies fail."""

    def to_host_async(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        def wait() -> None:
            raise MemoryError("no buffer")

        return [np.empty_like(array) for array in arrays], wait


def build_on(backend: Backend, monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> sdfcli.Field:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=3000))
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: backend)
    return sdfcli.build(OPEN, depth=5, tolerance=2e-3, **parameters)


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_nothing_is_read_before_it_has_arrived(cpu: CpuBackend, octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = (build_on(each, monkeypatch, octree=octree, sign="winding", nearest=True) for each in (cpu, Late()))
    assert late.content_sha256 == early.content_sha256
    assert late.info == early.info
    assert np.array_equal(late.nearest, early.nearest)  # type: ignore[arg-type]
    assert (late.step is None) == (octree == "bvh")
    assert late.distance.tobytes() == early.distance.tobytes()


def test_what_fails_on_the_way_fails_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    field = build_on(Failing(), monkeypatch)
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="no buffer"):
            _ = field.distance
    with pytest.raises(OutOfMemoryError, match="no buffer"):
        _ = field.info


def test_arrays_may_change_once_the_build_has_returned(cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mesh is hashed meanwhile, by the slowest hash there is."""
    begun = Event()
    told = Mesh.sha256.func

    def slow(mesh: Mesh) -> str:
        begun.wait(10)
        return told(mesh)

    vertices, faces = OPEN[0].copy(), OPEN[1].astype(np.uint32)
    first = sdfcli.build((vertices, faces), device="cpu", depth=3, tolerance=1e-2)
    expected = first.info["mesh"]["sha256"]
    monkeypatch.setattr(Mesh, "sha256", property(slow))
    second = sdfcli.build((vertices, faces), device="cpu", depth=3, tolerance=1e-2)
    vertices += 1.0
    faces[:] = faces[::-1].copy()
    begun.set()
    assert second.info["mesh"]["sha256"] == expected


def test_a_field_has_no_other_attributes(cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    field = build_on(cpu, monkeypatch)
    with pytest.raises(AttributeError, match="no attribute 'distances'"):
        _ = field.distances  # type: ignore[attr-defined]


def test_what_is_late_is_made_once_whoever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    field = build_on(Late(), monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        infos = [*threads.map(lambda _: field.info, range(8))]
    assert all(info is infos[0] for info in infos)
    copy = pickle.loads(pickle.dumps(build_on(Late(), monkeypatch)))
    assert copy.content_sha256 == field.content_sha256
    assert copy.info == field.info
