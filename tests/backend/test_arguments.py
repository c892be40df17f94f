"""Arguments reach the kernels as C has them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from sdfcli.backend.base import ArgumentStruct

BODY = """
    unsigned n;            /* a comment; */
    const float* points;
    unsigned char flag;
    double length;
    int step;
    unsigned long long* keys;
    float tolerance;
"""


class Expected(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_uint32),
        ("points", ctypes.c_void_p),
        ("flag", ctypes.c_uint8),
        ("length", ctypes.c_double),
        ("step", ctypes.c_int32),
        ("keys", ctypes.c_void_p),
        ("tolerance", ctypes.c_float),
    ]


def values(**changed: Any) -> dict[str, Any]:
    arrays = {"points": np.zeros((3, 3), np.float32), "keys": np.zeros(2, np.uint64)}
    return {"n": 7, "flag": 3, "length": 0.1, "step": -5, "tolerance": 0.25, **arrays, **changed}


def address(array: Any) -> int | None:
    return array.ctypes.data if array.flags.c_contiguous else None


def pack(**changed: Any) -> bytes:
    return ArgumentStruct("some", BODY).pack(values(**changed), address)


def test_the_layout_is_that_of_c() -> None:
    given = values()
    packed = pack(**given)
    assert len(packed) == ctypes.sizeof(Expected)
    found = Expected.from_buffer_copy(packed)
    assert (found.n, found.flag, found.length, found.step, found.tolerance) == (7, 3, 0.1, -5, 0.25)
    assert (found.points, found.keys) == (given["points"].ctypes.data, given["keys"].ctypes.data)


def test_a_missing_array_is_a_null_pointer() -> None:
    assert Expected.from_buffer_copy(pack(keys=None)).keys is None


@pytest.mark.parametrize("points", [np.zeros((3, 3)), np.zeros((3, 3), np.int32), np.zeros((3, 6), np.float32)[:, ::2]])
def test_arrays_of_another_type_are_refused(points: Any) -> None:
    with pytest.raises(TypeError, match="some: points must be a contiguous array of float32"):
        pack(points=points)


def test_a_missing_value_is_refused() -> None:
    given = values()
    del given["step"]
    with pytest.raises(KeyError, match="step"):
        ArgumentStruct("some", BODY).pack(given, address)
