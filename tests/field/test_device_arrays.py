"""The arrays of a field for kernels of one's own, and the code that reads them."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvrtc import compile_kernels

import backends
import oracle
import sdfcli
from sdfcli.backend import Backend
from sdfcli.backend.headers import COMPILER_OPTIONS
from sdfcli.errors import InputError, UsageError
from sdfcli.field import blocks
from sdfcli.field.field import Field

backend = backends.backend

CLASHES = """
struct Sampler { int own; };
typedef float D3;
__device__ float dot(float a) { return a; }
extern "C" __global__ void look_up(sdf::Sampler field, double* point) {
    point[0] = sdf::sdf_sample(field, sdf::load3(point), nullptr) + dot(1.f);
}
"""


def test_kernels_of_a_field_number_leaves_not_their_corners(cpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    # More than 2^29 leaves, as a fine field has them, have eight times as many corners: more than 32 bits can number.
    field = oracle.random_field(np.random.default_rng(1), 300, [0.0, 0.0, 0.0], 1.0, deep=True)
    run, counts = type(cpu).run, {}

    def counted(self: Backend, kernel: str, n: int, **values: Any) -> None:
        counts[kernel] = n
        run(self, kernel, n, **values)

    monkeypatch.setattr(type(cpu), "run", counted)
    field.device_arrays("cpu")
    del counts["sdf_leaf_top"]  # always as many
    most = max(len(field.leaf_key), len(field.corner_key))
    assert {kernel: n for kernel, n in counts.items() if n > most} == {}


@pytest.mark.parametrize("splits", [0, 1, 300])
def test_the_arrays_of_a_field(backend: Backend, splits: int) -> None:
    field = oracle.random_field(np.random.default_rng(1), splits, [1.0, -2.0, 0.5], 3.0, deep=True)
    arrays = field.device_arrays(backend.name)
    given = [arrays.leaf_level, arrays.leaf_value, arrays.top, arrays.child]
    level, value, top, child = (backend.to_host(each) for each in given)
    n = len(field.leaf_key)
    assert [each.shape for each in (level, value, top)] == [(n,), (n, 8), (1 << 18,)]
    assert [each.dtype for each in (level, value, top, child)] == [np.uint8, np.float32, np.uint32, np.uint32]
    assert all(each.flags.c_contiguous for each in given)
    assert level.tolist() == field.leaf_level.tolist()
    corner = field.domain.origin + 3.0 * oracle.lattice(field.leaf_key) / 2.0**oracle.LATTICE_BITS
    assert np.allclose(value[:, 0], field.sample(corner), rtol=1e-6)
    # Every leaf is in the tree; one that is finer than level 6 once, in a node of level 6 or below.
    entries = np.concatenate([top, child.ravel()])
    assert np.unique(entries[entries >= 1 << 31] - (1 << 31)).tolist() == list(range(n))
    assert np.sum(child >= 1 << 31) == np.sum(level > 6)
    assert sorted(entries[entries < 1 << 31]) == list(range(len(child)))
    assert child.shape == (len(child), 8)
    assert bool(len(child)) == (splits == 300)
    assert arrays.device == backend.name
    assert arrays.origin.tolist() == [1.0, -2.0, 0.5]
    assert arrays.length == 3.0
    addresses = [backend.address(each) for each in given]
    assert struct.unpack("4d4Q", arrays.sampler.tobytes()) == (1.0, -2.0, 0.5, 3.0, *addresses)
    again = field.device_arrays(backend.name)
    assert [backend.address(each) for each in (again.leaf_level, again.leaf_value, again.top, again.child)] == addresses


@pytest.mark.parametrize("splits", [0, 1, 300])
def test_the_arrays_of_a_field_from_a_file(
    backend: Backend, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All divided cells are nodes, and the leaves are the same."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", 50)
    field = oracle.random_field(np.random.default_rng(1), splits, [1.0, -2.0, 0.5], 3.0, deep=True)
    loaded = sdfcli.load(field.save(tmp_path / "field.h5"))
    arrays, of_file = field.device_arrays(backend.name), loaded.device_arrays(backend.name)
    for name in ("leaf_level", "leaf_value"):
        assert np.array_equal(*(backend.to_host(getattr(each, name)) for each in (arrays, of_file)))
    top, child = (backend.to_host(each) for each in (of_file.top, of_file.child))
    assert child.shape == (max(1, (len(field.leaf_key) - 1) // 7), 8)
    tops = backend.to_host(arrays.top)
    assert np.array_equal(np.where(top >= 1 << 31, top, 0), np.where(tops >= 1 << 31, tops, 0))
    if splits:
        assert np.sort(child[child >= 1 << 31] - (1 << 31)).tolist() == list(range(len(field.leaf_key)))
    given = [of_file.leaf_level, of_file.leaf_value, of_file.top, of_file.child]
    addresses = [backend.address(each) for each in given]
    assert struct.unpack("4d4Q", of_file.sampler.tobytes()) == (1.0, -2.0, 0.5, 3.0, *addresses)


def test_they_are_read_only() -> None:
    field = oracle.random_field(np.random.default_rng(2), 3)
    arrays = field.device_arrays("cpu")
    for each in (arrays.origin, arrays.leaf_level, arrays.leaf_value, arrays.top, arrays.child):
        with pytest.raises(ValueError, match="read-only"):
            each[...] = 0
    assert field.domain.origin.flags.writeable  # a view was made read-only, not the domain's own


def test_they_outlive_the_field() -> None:
    field = oracle.random_field(np.random.default_rng(3), 100)
    arrays, expected = field.device_arrays("cpu"), field.leaf_level.tolist()
    del field
    gc.collect()
    assert arrays.leaf_level.tolist() == expected
    assert arrays.sampler.tobytes()[32:40] == struct.pack("Q", arrays.leaf_level.ctypes.data)


def test_they_are_not_copied() -> None:
    """A copy would have the addresses of arrays that it does not keep."""
    field = oracle.random_field(np.random.default_rng(4), 2)
    arrays = field.device_arrays("cpu")
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickle the field"):
            make(arrays)
    assert pickle.loads(pickle.dumps(field)).content_sha256 == field.content_sha256


def test_what_is_refused() -> None:
    field = oracle.random_field(np.random.default_rng(5), 2)
    with pytest.raises(UsageError, match="--device tpu"):
        field.device_arrays("tpu")
    broken = Field(field.domain, field.leaf_key, field.leaf_level, field.corner_key[:-1], field.distance[:-1])
    with pytest.raises(InputError, match="corner is missing"):
        broken.device_arrays("cpu")


def test_the_source_is_the_sampler_alone() -> None:
    source = sdfcli.sampler_source()
    assert "struct Sampler {" in source
    assert "double sdf_sample(const Sampler& field, D3 p, double* gradient)" in source
    assert '#include "' not in source
    assert "SDF_KERNEL" not in source
    assert re.findall(r"(\w+)_args\b", source) == []


def test_the_source_in_a_namespace() -> None:
    source = f"namespace sdf {{{sdfcli.sampler_source()}}}{CLASHES}"
    cubin = compile_kernels(source, *COMPILER_OPTIONS, "--gpu-architecture=sm_90")
    assert b".text.look_up\0" in cubin
