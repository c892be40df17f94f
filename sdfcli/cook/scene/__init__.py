"""Scenes: robots and worlds read for their collision meshes, and written back with cooked ones."""

from __future__ import annotations

from pathlib import Path

from sdfcli.cook.scene.base import Scene
from sdfcli.cook.scene.paths import root_of
from sdfcli.cook.scene.xml_tree import parsed
from sdfcli.errors import InputError
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable

__all__ = ["Scene", "read_scene"]

USD = (".usd", ".usda", ".usdc", ".usdz")


def read_scene(path: Path, root: Path | None = None) -> Scene:
    """A scene with its collision meshes: USD by the file name's ending, URDF and MJCF by the root element. root: folder
    that holds all files that the scene may name; None: see `root_of`.

    A mesh that cannot be used costs a line in `faults`. Raises InputError for a file that cannot be read at all,
    UsageError for a scene outside the root, DeviceError where USD needs an extra that is missing.
    """
    path = existing_file(path)
    folder = root_of(path, root)
    try:
        if path.suffix.lower() in USD:
            from sdfcli.cook.scene.usd import Usd

            return Usd(path, folder)
        if path.suffix.lower() == ".xacro":
            raise InputError("holds xacro macros; expand them first: `xacro FILE > robot.urdf`")
        tree = parsed(path)
        if tree.tag == "robot":
            from sdfcli.cook.scene.urdf import Urdf

            return Urdf(path, folder, tree)
        if tree.tag == "mujoco":
            from sdfcli.cook.scene.mjcf import Mjcf

            return Mjcf(path, folder, tree)
        if tree.tag == "mujocoinclude":
            raise InputError("is a part of a model, for <include>; cook the model's file")
        raise InputError(f"its root element is <{tree.tag[:40]}>, neither the <robot> of a URDF nor MJCF's <mujoco>")
    except Exception as error:
        raise unreadable(path, "cannot be read as a scene", error) from error
