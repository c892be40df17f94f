"""Tables in `cook.toml` for one target each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdfcli.errors import UsageError
from sdfcli.params import real

TEXTURES = "uint8", "uint16", "float32"
SIGNS = "auto", "parity", "winding", "normal"


@dataclass(frozen=True)
class NewtonCall:
    """Table `[newton]` in `cook.toml`: the program's arguments to `newton.Mesh.build_sdf`, with Newton's defaults. They
    enter a cached file's key; the grid in the file is cooked as the other options ask. Raises UsageError.

    Attributes:
        max_resolution: None with target_voxel_size None: 64, as Newton has it.
        target_voxel_size: metres.
        margin: metres.
        narrow_band_range: signed distances in metres, inside and outside.
        texture_format: `uint8`, `uint16` or `float32`: also the file's.
        sign_method: `auto`: `parity` for meshes that are watertight by Newton's test, else `winding`.
        is_solid: the mesh's attribute.
        scale: the scale baked into the field; None: none. The cooked mesh has it already.
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
    """Table `[physx]` in `cook.toml`. Raises UsageError.

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
    """Table `[genesis]` in `cook.toml`.

    Attributes:
        version: Genesis's version, which enters a cached file's key.
    """

    version: str = "1.4.5"
