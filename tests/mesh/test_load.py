"""Arrays of the caller, which a build hashes in a thread: they may change as soon as it has returned."""

from __future__ import annotations

import hashlib
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import trimesh

import sdfcli
import shapes
from sdfcli.errors import InputError
from sdfcli.mesh import load, mesh
from sdfcli.mesh.load import load_mesh, make_mesh
from sdfcli.mesh.mesh import Mesh

SMALL: dict[str, Any] = {"device": "cpu", "depth": 3, "tolerance": 0.05}


def test_a_build_returns_when_arrays_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their copy is made when nothing else is left to wait for, and is the caller's for good."""
    waited, copied = Event(), Event()
    without_arrays_of = load._without_arrays_of

    class Awaited(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.set()
            return super().wait(timeout)

    def at_last(source: Any, mesh: Mesh) -> Mesh:
        waited.wait()
        own = without_arrays_of(source, mesh)
        copied.set()
        return own

    monkeypatch.setattr(load, "Event", Awaited)
    monkeypatch.setattr(load, "_without_arrays_of", at_last)
    vertices, faces = shapes.cube()
    try:
        field = sdfcli.build((vertices, faces), **SMALL)
        assert copied.is_set()
    finally:
        waited.set()  # for the thread, if nobody has waited
    vertices[:] = 0
    assert field.info["mesh"]["sha256"] == make_mesh(*shapes.cube()).sha256


@pytest.mark.parametrize("changed", [0, 1])
def test_arrays_change_while_they_are_hashed(monkeypatch: pytest.MonkeyPatch, changed: int) -> None:
    free = Event()

    def slow(data: Any = b"") -> Any:
        free.wait()
        return hashlib.sha256(data)

    expected = make_mesh(*shapes.cube()).sha256
    monkeypatch.setattr(mesh, "hashlib", SimpleNamespace(sha256=slow))
    arrays = tuple(array.copy() for array in shapes.cube())
    arrays = arrays[0], arrays[1].astype("u4")  # which a mesh takes as they are
    try:
        field = sdfcli.build(arrays, **SMALL)
        arrays[changed][:] = 0
    finally:
        free.set()
    assert field.info["mesh"]["sha256"] == expected


def test_a_scene_is_told_from_a_mesh() -> None:
    scene = trimesh.Scene(trimesh.creation.box())
    with pytest.raises(InputError, match=r"not Scene; of a scene, its to_mesh\(\)"):
        load_mesh(scene)
    with pytest.raises(InputError, match=r"needed, not int$"):
        load_mesh(3)  # type: ignore[arg-type]
    assert len(load_mesh(scene.to_mesh()).faces) == 12
