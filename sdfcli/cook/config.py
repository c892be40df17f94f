"""CookConfig: one configuration for all targets, from options and a settings file."""

from __future__ import annotations

from dataclasses import dataclass, field

from sdfcli.cook.tables import GenesisTable, NewtonCall, PhysxTable
from sdfcli.errors import UsageError
from sdfcli.params import LENGTHS, real, whole

TARGETS = ("mujoco", "mujoco-warp", "newton", "bullet", "genesis", "physx", "drake")
"""Simulators that fields are cooked for, each with a module of this folder."""
CELLS = 16, 1024
"""Minimum and maximum cell count along a grid's longest side."""


BAND = 8.0
"""Default band, in tolerances. With 4, leaves larger than the band miss the tolerance twice over beside flat faces."""


@dataclass(frozen=True)
class CookConfig:
    """Configuration of a cook. Raises UsageError for values out of range.

    Attributes:
        tolerance: maximum error near the surface, in metres. None: the target's preset, a share of each mesh's size.
        band: distance from the surface, in metres, up to which the tolerance holds. None: eight tolerances.
        margin: metres of space around a mesh's box in targets that store boxes. None: the target's preset.
        cells: cells along the longest side, for targets that store grids. None: as the tolerance asks.
        max_bytes: maximum size of a mesh's files. None: no limit.
        solid: cook the solid that `sdfcli.solidify` makes of each mesh, for soups; else the mesh as it is.
        newton, physx, genesis: options of one target each.
    """

    tolerance: float | None = None
    band: float | None = None
    margin: float | None = None
    cells: int | None = None
    max_bytes: int | None = None
    newton: NewtonCall = field(default_factory=NewtonCall)
    physx: PhysxTable = field(default_factory=PhysxTable)
    genesis: GenesisTable = field(default_factory=GenesisTable)
    solid: bool = False

    def __post_init__(self) -> None:
        for name in ("tolerance", "band"):
            value = getattr(self, name)
            if value is not None and not LENGTHS[0] < real(value) < LENGTHS[1]:
                raise UsageError(f"--{name} {value}: use a length in metres above 0")
        if self.margin is not None and not 0 <= real(self.margin) < LENGTHS[1]:
            raise UsageError(f"--margin {self.margin}: use a length in metres, 0 or more")
        if self.cells is not None and not CELLS[0] <= whole(self.cells) <= CELLS[1]:
            raise UsageError(f"--cells {self.cells}: use {CELLS[0]} to {CELLS[1]}")
