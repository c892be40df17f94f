"""Arguments reach the kernels as C has them, and wrong ones are refused."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdfcli.backend import arguments
from sdfcli.backend.arguments import ArgumentStruct, Group, argument_group, argument_structs
from sdfcli.backend.cpu import CpuBackend
from sdfcli.backend.headers import KERNELS, headers

BODY = """
    u32 n;                // a comment;
    const float* points;  // [n, 3] float
    u8 flag;
    Domain domain;        // a group
    int step, turn;
    u64* keys;            // [ceil(n / 4)] out
    u32* row;             // [rows + 1]
    const u32* cell;      // [2, rows]
    float tolerance;
"""


class Domain(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("x", "y", "z", "length")]


class Expected(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_uint32),
        ("points", ctypes.c_void_p),
        ("flag", ctypes.c_uint8),
        ("domain", Domain),
        ("step", ctypes.c_int32),
        ("turn", ctypes.c_int32),
        ("keys", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("cell", ctypes.c_void_p),
        ("tolerance", ctypes.c_float),
    ]


def values(**changed: Any) -> dict[str, Any]:
    domain = argument_group("Domain").group({"x": 1.0, "y": 2.0, "z": 3.0, "length": 0.5}, CpuBackend.address)
    arrays = {
        "points": np.zeros((7, 3), np.float32),
        "keys": np.zeros(2, np.uint64),
        "row": np.zeros(6, np.uint32),
        "cell": np.zeros((2, 5), np.uint32),
    }
    numbers = {"n": 7, "flag": 3, "step": -5, "turn": 6, "tolerance": 0.25}
    return {"domain": domain, **numbers, **arrays, **changed}


def packed(given: dict[str, Any]) -> bytes:
    return ArgumentStruct("some", BODY).pack(given, CpuBackend.address)


def test_the_layout_is_that_of_c() -> None:
    given = values()
    found = Expected.from_buffer_copy(packed(given))
    assert len(packed(given)) == ctypes.sizeof(Expected)
    assert (found.n, found.flag, found.step, found.turn, found.tolerance) == (7, 3, -5, 6, 0.25)
    assert [getattr(found.domain, name) for name in ("x", "y", "z", "length")] == [1, 2, 3, 0.5]
    assert all(getattr(found, name) == given[name].ctypes.data for name in ("points", "keys", "row", "cell"))


def test_every_struct_is_laid_out_as_the_compiler_has_it(tmp_path: Path) -> None:
    fibres = Path(__file__).parents[1] / "warp.cpp"
    kernels = {f"{name}_args": struct for name, struct in argument_structs().items()}
    groups = {name: argument_group(name) for name in re.findall(r"^struct ([A-Z]\w*) \{$", joined(), re.MULTILINE)}
    used = {
        field.kind.name for each in kernels.values() for field in each.fields if isinstance(field.kind, ArgumentStruct)
    }
    assert len(kernels) > 90
    assert len(used) > 10
    checks = [
        f"static_assert(sizeof({name}) == {struct.size});"
        for name, struct in (*kernels.items(), *((name, groups[name]) for name in used))
    ]
    sources = [f'#include "{name}"' for name in headers() if not name.startswith(("base/launch", "cpu/"))]
    file = tmp_path / "sizes.cpp"
    file.write_text("\n".join([f'#include "{fibres}"', *sources, *checks]))
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", f"-I{KERNELS}", str(file)]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""


def joined() -> str:
    return "\n".join(headers().values())


def test_every_array_has_a_length() -> None:
    for struct in argument_structs().values():
        for each in (struct, *(field.kind for field in struct.fields if isinstance(field.kind, ArgumentStruct))):
            assert each.fields[0].name == "n" or each is not struct
            arrays = [field for field in each.fields if isinstance(field.kind, np.dtype)]
            assert [field.name for field in arrays if not field.length] == [], each.name
            lines = [line for line in each._body.splitlines() if line.split("//")[0].strip()]
            assert len(lines) <= len(each.fields), f"{each.name}: a line that is no field"


def test_a_missing_array_is_a_null_pointer() -> None:
    assert Expected.from_buffer_copy(packed(values(keys=None))).keys is None


def test_a_missing_group_is_all_zero() -> None:
    found = Expected.from_buffer_copy(packed(values(domain=None))).domain
    assert [getattr(found, name) for name in ("x", "y", "z", "length")] == [0, 0, 0, 0]


@pytest.mark.parametrize("points", [np.zeros((7, 3)), np.zeros((7, 3), np.int32), np.zeros((7, 6), np.float32)[:, ::2]])
def test_arrays_of_another_type_are_refused(points: Any) -> None:
    with pytest.raises(TypeError, match="some: points must be a contiguous array of float32"):
        packed(values(points=points))


def test_another_group_is_refused() -> None:
    for other in (Group("Limits", b"", {}, id), {"x": 1.0}):
        with pytest.raises(TypeError, match="some: domain must be a group Domain"):
            packed(values(domain=other))


def test_a_missing_name_is_refused() -> None:
    given = values()
    del given["step"]
    with pytest.raises(TypeError, match=r"some needs step$"):
        packed(given)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"some has no argument stride$"):
        packed(values(stride=1))
    given = values(stride=1)
    del given["step"]
    with pytest.raises(TypeError, match=r"some has no argument stride, needs step$"):
        packed(given)


@pytest.mark.parametrize(
    ("short", "said"),
    [
        ({"points": np.zeros((6, 3), np.float32)}, r"some: points \[n, 3\] has 18 entries, 21 are needed"),
        ({"keys": np.zeros(1, np.uint64)}, r"some: keys \[ceil\(n / 4\)\] has 1 entries, 2 are needed"),
        ({"row": np.zeros(5, np.uint32)}, r"some: row \[rows \+ 1\] has 5 entries, 6 are needed"),
        ({"cell": np.zeros((2, 4), np.uint32)}, r"some: cell \[2, rows\] has 8 entries, 10 are needed"),
    ],
)
def test_a_short_array_is_refused(short: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "CHECK", True)
    with pytest.raises(ValueError, match=said):
        packed(values(**short))
    monkeypatch.setattr(arguments, "CHECK", False)
    packed(values(**short))


def test_a_kernel_does_not_run_on_a_short_array(cpu: CpuBackend) -> None:
    """Lengths are checked in all tests."""
    with pytest.raises(ValueError, match=r"sdf_morton: keys \[n\] has 4 entries, 5 are needed"):
        cpu.run("sdf_morton", 5, points=np.zeros((5, 3)), keys=np.zeros(4, np.uint64))
