"""Tables: options of one target each, set by `newton.margin=0.01`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from sdfcli.errors import UsageError
from sdfcli.params import real

TEXTURES = "uint8", "uint16", "float32"
SIGNS = "auto", "parity", "winding", "normal"


@dataclass(frozen=True)
class NewtonCall:
    """Options `newton.NAME`: the program's arguments to `newton.Mesh.build_sdf`, with Newton's defaults. They
    are part of a cached file's key; the grid in the file is cooked as the other options ask. Raises UsageError.

    Attributes:
        max_resolution: None with target_voxel_size None: 64, as Newton has it.
        target_voxel_size: metres.
        margin: metres.
        narrow_band_range: signed distances in metres, inside and outside.
        texture_format: `uint8`, `uint16` or `float32`: also the file's.
        sign_method: `auto`: `parity` for meshes that are watertight by Newton's test, else `winding`.
        is_solid: the mesh's attribute.
        scale: the scale baked into the field; None: none. The cooked mesh has it already. In USD scenes, the prim's.
    """

    max_resolution: int | None = None
    target_voxel_size: float | None = None
    margin: float = 0.05
    narrow_band_range: tuple[float, float] = (-0.1, 0.1)
    texture_format: str = "uint16"
    sign_method: str = "auto"
    is_solid: bool = True
    scale: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("texture_format", TEXTURES), ("sign_method", SIGNS)):
            if getattr(self, name) not in allowed:
                raise UsageError(f"newton.{name} {getattr(self, name)}: use {', '.join(allowed)}")
        for name, length in (("narrow_band_range", 2), ("scale", 3)):
            value = getattr(self, name)
            if value is not None and not (len(value) == length and all(math.isfinite(real(each)) for each in value)):
                raise UsageError(f"newton.{name} {value}: use {length} numbers")


@dataclass(frozen=True)
class PhysxTable:
    """Options `physx.NAME`. Raises UsageError.

    Attributes:
        dense: one grid of float32 values instead.
        bits: per fine value in a sparse grid: 8, 16 or 32.
    """

    dense: bool = False
    bits: int = 16

    def __post_init__(self) -> None:
        if self.bits not in (8, 16, 32):
            raise UsageError(f"physx.bits {self.bits}: use 8, 16 or 32")


@dataclass(frozen=True)
class GenesisTable:
    """Options `genesis.NAME`.

    Attributes:
        version: Genesis's version, which enters a cached file's key.
    """

    version: str = "1.4.5"


TABLES = {"newton": NewtonCall, "physx": PhysxTable, "genesis": GenesisTable}
"""Tables by target; CookConfig has them by these names."""
KINDS = {"bool": bool, "int": int, "float": (int, float), "tuple": list, "str": str}
"""TOML's types by the first word of an option's."""


def tables_of(words: Iterable[str]) -> dict[str, Any]:
    """Tables by target, from words such as `newton.margin=0.01`; values are TOML's, and texts may lack their quotes.

    Raises UsageError for unknown options, and for values of another type or out of range.
    """
    given: dict[str, dict[str, Any]] = {}
    for word in words:
        name, _, value = word.partition("=")
        target, _, option = name.strip().partition(".")
        known = {each.name: str(each.type) for each in fields(TABLES[target])} if target in TABLES else {}
        if option not in known:
            names = [f"{table}.{each.name}" for table, kind in TABLES.items() for each in fields(kind)]
            raise UsageError(f"--set {word[:80]}: use NAME=VALUE with a name of {', '.join(names)}")
        given.setdefault(target, {})[option] = _typed(name, value.strip(), known[option])
    return {target: TABLES[target](**options) for target, options in given.items()}


def _typed(name: str, text: str, annotation: str) -> Any:
    """A value as its option's type has it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    kind = annotation.partition("[")[0].partition(" ")[0]
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "bool"):  # type: ignore[arg-type]
        raise UsageError(f"--set {name}={text[:80]}: use a value of the type {annotation.removesuffix(' | None')}")
    return tuple(value) if kind == "tuple" else value
