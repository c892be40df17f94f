"""MuJoCo: an `.oct` file per mesh, which the plugin `sdfcli.field` reads, and an example for a mesh without a scene."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from sdfcli.cook.config import BAND, CookConfig
from sdfcli.cook.mesh_file import predicted_mesh_bytes, write_part
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.scene.mjcf import change_geom
from sdfcli.field.field import Field
from sdfcli.mujoco.oct_file import predicted_size, write_oct
from sdfcli.mujoco.octree import Octree
from sdfcli.params import BuildKeywords
from sdfcli.quality.estimate import estimate

SCENES = ("mjcf",)
PLUGIN = "sdfcli.field"
FINE, COARSE = 1e-4, 2e-4
"""Smallest and largest preset tolerance, as a share of the diagonal."""
CLEARANCE = 1.4e-4
"""Preset tolerance between these, in metres. With this preset a peg with a clearance of 0.1 mm enters plates from 0.04
to 1 m; with COARSE it does not enter the largest (docs/internals/cook.md)."""
LARGEST = 0.5
"""Maximum tolerance and band, as a share of the diagonal."""


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """The preset, or the configuration's tolerance and band."""
    diagonal = part.diagonal
    preset = min(max(CLEARANCE / diagonal, FINE), COARSE)
    tolerance = preset if config.tolerance is None else min(config.tolerance / diagonal, LARGEST)
    band = BAND * tolerance if config.band is None else config.band / diagonal
    return {"tolerance": tolerance, "band": min(band, LARGEST)}


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """Size of the `.oct` file, from an estimate of the leaf count, and of the example."""
    example = predicted_mesh_bytes(part) if part.place == part.source else 0
    return example + predicted_size(estimate((part.vertices, part.faces), **parameters(config, part)).leaves)


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.oct`, and for a mesh without a scene `NAME.xml`, in which it falls on a floor.

    The geom's mesh is made by MuJoCo from the field, in the field's frame, and has no mass, since MuJoCo would take its
    centre of mass for the geom's origin. A copy of the original geom keeps mass and picture, and does not collide.
    """
    name = f"{part.name}.oct"
    write_oct(folder / name, Octree.of(field))
    instance = f"{part.name}_sdf"
    extension = Element("plugin", plugin=PLUGIN)
    SubElement(SubElement(extension, "instance", name=instance), "config", key="file", value=name)
    mesh = Element("mesh", name=instance)
    SubElement(mesh, "plugin", instance=instance)
    cooked = Cooked(
        [name],
        mjcf={"type": "sdf", "mesh": instance, "mass": "0", "density": None, "group": "3"},
        mjcf_children=[Element("plugin", instance=instance)],
        mjcf_copy={"name": None, "contype": "0", "conaffinity": "0"},
        mjcf_asset=[mesh],
        mjcf_extension=[extension],
    )
    if part.place == part.source:
        cooked.files.extend(write_example(part, cooked, folder))
    return cooked


def write_example(part: Part, cooked: Cooked, folder: Path) -> list[str]:
    """Writes `NAME.xml`, a scene in which a part falls on a floor, and its mesh, `NAME.obj`. Returns their names."""
    root = Element("mujoco", model=part.name)
    SubElement(root, "extension").extend(cooked.mjcf_extension)
    asset = SubElement(root, "asset")
    mesh = write_part(part, folder)
    SubElement(asset, "mesh", name=part.name, file=mesh)
    asset.extend(cooked.mjcf_asset)
    world = SubElement(root, "worldbody")
    SubElement(world, "light", pos="0 0 10", dir="0 0 -1", directional="true")
    SubElement(world, "geom", type="plane", size="0 0 1")
    low = float(part.vertices[:, 2].min())
    body = SubElement(world, "body", name=part.name, pos=f"0 0 {0.1 * part.diagonal - low!r}")
    SubElement(body, "freejoint")
    change_geom(SubElement(body, "geom", type="mesh", mesh=part.name), body, cooked, {})
    indent(root)
    ElementTree(root).write(folder / f"{part.name}.xml", encoding="utf-8")
    return [f"{part.name}.xml", mesh]
