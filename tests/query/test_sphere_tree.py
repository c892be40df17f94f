"""The tree of spheres over a mesh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import Backend
from sdfcli.errors import DeviceError, InputError, UsageError
from sdfcli.query.sphere_tree import ABREAST, FIRST, SphereTree

backend = backends.backend

COUNTS = [1, 2, 7, 8, 9, 64, 65, 511, 512, 513, 514, 530, 4096, 4097, 4200]


def check(tree: SphereTree) -> None:
    to_host = tree._backend.to_host
    triangle = to_host(tree._order.triangle).reshape(-1, 3, 3).astype(np.float64)
    below, span = None, 1
    for level in tree._levels:
        sphere = to_host(level.sphere).astype(np.float64)
        assert level.count == -(-len(triangle) // span)
        assert len(sphere) == -(-level.count // ABREAST) * ABREAST
        assert (sphere[: level.count, 3] >= 0).all()
        assert (sphere[level.count :, 3] < 0).all()
        for number, (*centre, radius) in enumerate(sphere[: level.count]):
            away = np.linalg.norm(triangle[number * span : (number + 1) * span] - centre, axis=2).max()
            assert away <= radius
            assert radius <= away * 1.00001 + 1e-6
            if below is not None:  # the centre is that of a child, so that the least of a level is not lost below
                children = below[number * ABREAST : (number + 1) * ABREAST]
                assert (children[children[:, 3] >= 0, :3] == centre).all(axis=1).any()
        # Of nodes that are none, too: what they say of a pose is true of a node beside them.
        assert (sphere[level.count :, :3] == sphere[level.count - 1, :3]).all()
        below, span = sphere, span * ABREAST
    assert tree._levels[-1].count <= FIRST
    assert all(level.count > FIRST for level in tree._levels[:-1])


@pytest.mark.parametrize("count", COUNTS)
def test_spheres_hold_their_triangles(count: int, backend: Backend) -> None:
    check(SphereTree(shapes.soup(np.random.default_rng(count), count, 0.2), backend.name))


@settings(max_examples=15, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_spheres_of_any_mesh(backend: Backend, kind: str, seed: int) -> None:
    check(SphereTree(shapes.ANY[kind](np.random.default_rng(seed)), backend.name))


def test_the_same_bits() -> None:
    shape = shapes.star(np.random.default_rng(1), 4)
    one, two = (SphereTree(shape, "cpu", threads) for threads in (1, 2))
    for a, b in zip(one._levels, two._levels, strict=True):
        assert a.sphere.tobytes() == b.sphere.tobytes()


@pytest.mark.gpu
def test_gpus_have_the_bits_of_the_cpu() -> None:
    shape = shapes.star(np.random.default_rng(1), 4)
    one, two = SphereTree(shape, "cpu"), SphereTree(shape, "cuda")
    for a, b in zip(one._levels, two._levels, strict=True):
        assert a.sphere.tobytes() == two._backend.to_host(b.sphere).tobytes()


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="device"):
        SphereTree(shapes.cube(), "nowhere")
    with pytest.raises(InputError):
        SphereTree("there/is/no.ply", "cpu")
    with pytest.raises(InputError):
        SphereTree((np.zeros((3, 3)), np.array([[0, 1, 2]])), "cpu")
    with pytest.raises((DeviceError, UsageError)):
        SphereTree(shapes.cube(), "cuda:99")
