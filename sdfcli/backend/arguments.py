"""Kernel arguments, packed and checked against their declaration in `kernels/` (see kernels/base/kernel.h).

SDFCLI_CHECK=1 in the environment also checks array lengths before a kernel runs.
"""

from __future__ import annotations

import functools
import math
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sdfcli.backend.headers import KERNELS, headers

Array = Any
"""A NumPy or CuPy array, by backend."""

Address = Callable[[Array], "int | None"]
"""Returns an array's address; None if not contiguous."""

CHECK = os.environ.get("SDFCLI_CHECK") == "1"

_TYPES: dict[str, tuple[str, type]] = {
    "u32": ("I", np.uint32),
    "u64": ("Q", np.uint64),
    "u8": ("B", np.uint8),
    "int": ("i", np.int32),
    "long long": ("q", np.int64),
    "float": ("f", np.float32),
    "double": ("d", np.float64),
}
"""C field types: `struct` format and NumPy type."""

_WORD = re.compile(r"([a-z_]+(?: [a-z_]+)*)(?: \+ (\d+))?")
_FIELD = re.compile(r"^ +(?:const )?(\w[\w ]*?)(\*?) (\w+(?:, \w+)*);(?: *// \[(.*?)\])?", re.MULTILINE)


class Constants:
    """Constants of kernels/base/constants.h: `C.NONE` is SDF_NONE, an int or a float as declared there."""

    def __getattr__(self, name: str) -> Any:
        self.__dict__.update(_constants())
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"kernels/base/constants.h has no SDF_{name}") from None


def _constants() -> dict[str, int | float]:
    text = (KERNELS / "base" / "constants.h").read_text()
    found = re.findall(r"^constexpr (\w+) SDF_(\w+) = (\S+?)[uf]?;", text, re.MULTILINE)
    return {name: float(value) if ctype == "float" else int(value, 0) for ctype, name, value in found}


C = Constants()


class Field(NamedTuple):
    """A struct field: a number, an array or a group.

    kind       None for a number, dtype of an array, struct of a group
    layout     `struct` format
    alignment  bytes
    length     declared array length
    """

    name: str
    kind: np.dtype[Any] | ArgumentStruct | None
    layout: str
    alignment: int
    length: str


@dataclass(frozen=True)
class Group:
    """Packed arguments shared by several kernels: the struct's bytes, and the values, which stay alive with them."""

    struct: str
    data: bytes
    values: dict[str, Any]
    address: Address

    def __reduce__(self) -> Any:  # a copy's arrays lie at other addresses
        return _packed_again, (self.struct, self.values, self.address)


class ArgumentStruct:
    """A kernel argument struct: NAME_args, with `name` the kernel's, or a group."""

    def __init__(self, name: str, body: str) -> None:
        self.name, self._body = name, body

    @functools.cached_property
    def fields(self) -> list[Field]:
        """Fields in order, parsed on first use: a process runs few of the kernels."""
        found = []
        for ctype, star, names, length in _FIELD.findall(self._body):
            scalar = _TYPES.get(ctype)
            if scalar is None:
                kind: Any = _structs()[ctype]
                layout, alignment = f"{kind.size}s", kind.alignment
            else:
                kind, layout = (np.dtype(scalar[1]), "Q") if star else (None, scalar[0])
                alignment = struct.calcsize(layout)
            found += [Field(name, kind, layout, alignment, length) for name in names.split(", ")]
        return found

    @functools.cached_property
    def _packer(self) -> struct.Struct:
        layout = "="
        for field in self.fields:
            layout += f"{-struct.calcsize(layout) % field.alignment}x{field.layout}"
        return struct.Struct(f"{layout}{-struct.calcsize(layout) % self.alignment}x")

    @functools.cached_property
    def alignment(self) -> int:
        """Alignment in bytes, as in C."""
        return max(field.alignment for field in self.fields)

    @functools.cached_property
    def size(self) -> int:
        """Size in bytes, with padding as in C."""
        return self._packer.size

    @functools.cached_property
    def _plan(self) -> list[tuple[str, np.dtype[Any] | None, ArgumentStruct | None]]:
        """Name, array dtype and group struct by field."""
        groups = [field.kind if isinstance(field.kind, ArgumentStruct) else None for field in self.fields]
        dtypes = [field.kind if isinstance(field.kind, np.dtype) else None for field in self.fields]
        return list(zip((field.name for field in self.fields), dtypes, groups, strict=True))

    def pack(self, values: dict[str, Any], address: Address) -> bytes:
        """Packs numbers, arrays (None: a null pointer) and groups (None: all zero) into the struct's bytes.

        Raises TypeError for an unknown or missing name or a value of the wrong type; with SDFCLI_CHECK=1 ValueError for
        an array that is too short.
        """
        plan, filled = self._plan, []
        if len(values) != len(plan):
            raise self._misnamed(values)
        try:
            for name, dtype, group in plan:
                value = values[name]
                if dtype is not None:
                    if value is None:
                        value = 0
                    else:
                        same = value.dtype is dtype or value.dtype == dtype
                        value = address(value) if same else None
                        if value is None:
                            raise TypeError(f"{self.name}: {name} must be a contiguous array of {dtype}")
                elif group is not None:
                    value = group.filled(value, self.name, name)
                filled.append(value)
        except KeyError:
            raise self._misnamed(values) from None
        if CHECK:
            self.check(values)
        return self._packer.pack(*filled)

    def group(self, values: dict[str, Any], address: Address) -> Group:
        """Packs values as a group, for fields of other structs."""
        return Group(self.name, self.pack(values, address), values, address)

    def filled(self, value: Group | None, kernel: str, name: str) -> bytes:
        """The bytes of a kernel's field of this struct. Raises TypeError for a group of another struct."""
        if value is None:
            return bytes(self.size)
        if value.__class__ is not Group or value.struct != self.name:
            raise TypeError(f"{kernel}: {name} must be a group {self.name}")
        return value.data

    def _misnamed(self, values: dict[str, Any]) -> TypeError:
        names = {field.name for field in self.fields}
        wrong = [f"has no argument {name}" for name in sorted(values.keys() - names)]
        wrong += [f"needs {name}" for name in sorted(names - values.keys())]
        return TypeError(f"{self.name} {', '.join(wrong)}")

    def check(self, values: dict[str, Any]) -> None:
        """Raises ValueError for an array shorter than declared, or than others of the same length."""
        words: dict[str, int] = {}
        lengths = list(self._lengths(values))
        for _, found, factor, word, more in lengths:
            if word and factor:
                words[word] = max(words.get(word, 0), found // factor - more)
        for field, found, factor, word, more in lengths:
            wanted = factor * (words.get(word, 0) + more) if word else factor
            if found < wanted:
                raise ValueError(f"{self.name}: {field.name} [{field.length}] has {found} entries, {wanted} are needed")

    def _lengths(self, values: dict[str, Any]) -> Iterator[tuple[Field, int, int, str, int]]:
        """Yields (field, size, factor, word, addend) by array: its declared length is factor * (word + addend), or
        factor if the word is empty. A word is a symbolic length that no field holds."""
        numbers = {field.name: values[field.name] for field in self.fields if field.kind is None}
        for field in self.fields:
            if isinstance(field.kind, np.dtype) and values[field.name] is not None:
                factor, word, more = 1, "", 0
                for part in field.length.split(", "):
                    free = _WORD.fullmatch(part)
                    if free and free[1] not in numbers:
                        word, more = free[1], int(free[2] or 0)
                    else:
                        factor *= eval(part, {"__builtins__": {}, "ceil": math.ceil}, numbers)
                yield field, int(values[field.name].size), factor, word, more


@functools.cache
def _structs() -> dict[str, ArgumentStruct]:
    """Every struct that may hold arguments, by C name."""
    bodies, same = {}, {}
    for text in headers().values():  # str.split: a fifth of the time of regular expressions
        for declared in text.split("\nstruct ")[1:]:
            name, _, body = declared.partition(" {\n")
            bodies[name] = body.partition("\n};")[0]
        for declared in text.split("\nusing ")[1:]:
            name, _, other = declared.partition(";")[0].partition(" = ")
            same[name] = other
    bodies.update({name: bodies[other] for name, other in same.items() if other in bodies})
    return {name: ArgumentStruct(name.removesuffix("_args"), body) for name, body in bodies.items()}


@functools.cache
def argument_structs() -> dict[str, ArgumentStruct]:
    """Argument structs by kernel name."""
    return {each.name: each for name, each in _structs().items() if name.endswith("_args")}


def _packed_again(name: str, values: dict[str, Any], address: Address) -> Group:
    return argument_group(name).group(values, address)


def argument_group(name: str) -> ArgumentStruct:
    """A group's struct, by C name."""
    return _structs()[name]
