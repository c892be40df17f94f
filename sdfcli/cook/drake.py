"""Drake: a closed surface for rigid hydroelastic contact, in URDF with Drake's proximity properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, area_of, build_parameters, plan_for
from sdfcli.extract.isosurface import isosurface
from sdfcli.extract.mesh_file import write_obj
from sdfcli.field.field import Field
from sdfcli.params import BuildKeywords

SCENES = ("urdf",)
Y_UP = (".gltf", ".glb")
"""Files that Drake turns: their y is its z."""
PRESET = 64
"""Cells along the longest side: contact surfaces cost time by triangles."""
RATIO = 0.75
"""Cell edge in tolerances: cells cut sharp edges."""
TRIANGLES = 3.0
"""Triangles per squared cell edge, about."""
TRIANGLE_BYTES = 50


def placed(part: Part) -> Part:
    """A part as Drake reads its file: glTF turned, for scales that are equal along y and z."""
    if Path(part.source).suffix.lower() not in Y_UP:
        return part
    x, y, z = part.vertices.T
    return replace(part, vertices=np.column_stack((x, -z, y)))


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """Build parameters for an eighth of the tolerance."""
    return build_parameters(_plan(config, part), part)


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """Surface file size."""
    return int(_size(part, _plan(config, part)))


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.obj`, by marching cubes. Sharp edges are cut: Drake refuses queries on folded surfaces, and
    thin triangles along an edge may be folds."""
    check_signed(field, part)
    plan, name = _plan(config, part), f"{part.name}.obj"
    cells = int(np.ceil(field.domain.length / plan.cell))
    write_obj(folder / name, isosurface(field, cells=cells, device="cpu"))
    properties = Element("drake:proximity_properties")
    SubElement(properties, "drake:rigid_hydroelastic")
    return Cooked(files=[name], urdf=Element("mesh", filename=name), urdf_collision=[properties])


def _plan(config: CookConfig, part: Part) -> Plan:
    return plan_for(config, part, PRESET, lambda plan: _size(part, plan), ratio=RATIO)


def _size(part: Part, plan: Plan) -> float:
    return TRIANGLE_BYTES * TRIANGLES * area_of(part) / plan.cell**2
