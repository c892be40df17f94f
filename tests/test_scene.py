"""A scene makes its trees on first use, frees them by the device's policy, and makes the same ones again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.params import QUERIES
from sdfcli.runtime.schedule import Deferred
from sdfcli.scene import Scene

backend, warps = backends.backend, backends.warps

OPEN = shapes.holed(np.random.default_rng(3), shapes.icosphere(2), 0.1)
POINTS = np.random.default_rng(1).random((300, 3)).astype(np.float32)


def scene_of(device: Backend, **options: Any) -> Scene:
    return Scene.of(make_mesh(*OPEN), "winding", device, **options)


def plain_distances() -> shapes.Floats:
    return MeshDistance(OPEN, "winding", device="cpu").signed_distance(POINTS)


def answers(scene: Scene) -> list[bytes]:
    """Distances, nearest slots and signs at POINTS."""
    at = scene.backend.from_host(POINTS)
    distance, slot = scene.index.nearest(at)
    return [scene.backend.to_host(each).tobytes() for each in (distance, slot, scene.signer.inside(at, slot))]


@pytest.mark.parametrize("one_tree", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_all_queries_and_policies_give_the_same(backend: Backend, warps: Backend, query: str, one_tree: bool) -> None:
    expected = answers(scene_of(backend))
    for device in (backend, warps):
        scene = scene_of(device, query=query, trees_dominate=one_tree)
        assert answers(scene) == expected
        scene.release_index()
        scene.release_sign_data()
        assert answers(scene) == expected
        distance, slot = scene.reference.nearest(device.from_host(POINTS))
        assert [device.to_host(each).tobytes() for each in (distance, slot)] == expected[:2]


def test_what_is_idle_is_freed_where_memory_is_scarce(backend: Backend, warps: Backend) -> None:
    for device in (backend, warps):
        scene = scene_of(device, trees_dominate=True)
        first = scene.index
        scene.release_index()
        assert (scene.index is first) == (not device.memory.scarce)
        scene.release_index()
        one_tree, plain = type(scene.reference), type(scene_of(device).reference)
        assert (one_tree is plain) == (not device.memory.scarce)


def test_the_index_is_made_again_for_a_measurement_where_there_is_room(warps: Backend) -> None:
    for query in QUERIES:
        scene = scene_of(warps, trees_dominate=True, query=query)
        expected, radix = answers(scene), type(scene_of(warps, query="cct").index)
        scene.release_index()
        for leaves in (len(scene.order) - 1, len(scene.order)):
            scene.restore_index(leaves, Deferred.known(None))
            again = query == "fast" and leaves == len(scene.order)
            assert (type(scene.reference) is radix) == (not again)
            distance, slot = scene.reference.nearest(warps.from_host(POINTS))
            assert [warps.to_host(each).tobytes() for each in (distance, slot)] == expected[:2]
        exact = MeshDistance._of(scene)
        assert np.array_equal(exact.signed_distance(POINTS), plain_distances())
        assert type(scene.reference) is radix
        assert np.array_equal(exact.signed_distance(POINTS), plain_distances())


def test_the_radix_tree_goes_before_the_index_is_made(backend: Backend) -> None:
    for query in QUERIES:
        scene = scene_of(backend, query=query)
        before = scene.bvh
        index = scene.index
        assert (scene.bvh is before) == (query != "fast")
        assert index is scene.index


def test_stages_of_what_is_made(backend: Backend) -> None:
    scene = scene_of(backend)
    assert scene.stages.seconds() == {"total": 0.0}
    _ = scene.order
    assert [*scene.stages.seconds()] == ["morton", "sort", "total"]
    _ = scene.index
    assert [*scene.stages.seconds()] == ["morton", "sort", "tree", "refit", "sign", "total"]
    assert scene.choice.method == "winding"
