"""Bullet: Discregrid's `.cdf` files, the URDF element `<cdf>`."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, build_parameters, plan_for
from sdfcli.export.cdf import write_cdf
from sdfcli.export.lattice import Lattice
from sdfcli.field.field import Field
from sdfcli.params import BuildKeywords

SCENES = ("urdf",)
PRESET = 40
"""Cells along the longest side."""
RATIO = 2.0
"""Cell edge in tolerances; nodes are a third of an edge apart."""
CELL_BYTES = 8 * 7 + 4 * 32 + 4
"""Bytes per cell: values at its corner and three edges, 32 indices, its place."""


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """Build parameters for an eighth of the tolerance."""
    return build_parameters(_plan(config, part), part)


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """Size of the file, without values on the grid's upper sides."""
    return int(_size(_plan(config, part)))


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.cdf`."""
    check_signed(field, part)
    plan, name = _plan(config, part), f"{part.name}.cdf"
    x, y, z = plan.cells()
    write_cdf(folder / name, field, Lattice(plan.low, plan.cell, (int(x) + 1, int(y) + 1, int(z) + 1)))
    return Cooked(files=[name], urdf=Element("cdf", filename=name))


def _plan(config: CookConfig, part: Part) -> Plan:
    return plan_for(config, part, PRESET, _size, ratio=RATIO)


def _size(plan: Plan) -> float:
    return CELL_BYTES * float(plan.cells().prod())
