"""Target: a simulator that fields are cooked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from sdfcli.cook.config import TARGETS, CookConfig
from sdfcli.cook.part import Cooked, Part
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.params import BuildKeywords


class Target(Protocol):
    """A module of this folder, named as the target.

    SCENES  kinds of scenes that the simulator loads: `urdf`, `mjcf`, `usd`.
    placed  optional: a part in its field's frame, if the simulator moves meshes.
    """

    SCENES: tuple[str, ...]

    def parameters(self, config: CookConfig, part: Part) -> BuildKeywords:
        """A part's build parameters: the preset where the configuration is silent."""

    def predicted_bytes(self, config: CookConfig, part: Part) -> int:
        """Size of a part's files, before anything is built; an estimate within a factor of about 2."""

    def write(self, field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
        """Writes a part's files into an existing folder, `part.name` in their names.

        Raises InputError for a field that the format cannot hold.
        """


def target_of(name: str) -> Target:
    """A target's module. Raises UsageError for an unknown name."""
    if name not in TARGETS:
        raise UsageError(f"--for {name}: use {', '.join(TARGETS)}")
    module: Target = import_module(f"sdfcli.cook.{name.replace('-', '_')}")
    return module


def placed(target: Target, part: Part) -> Part:
    """A part in its field's frame: moved by the target's `placed`, if it has one. Raises the target's errors."""
    move = getattr(target, "placed", None)
    moved: Part = part if move is None else move(part)
    return moved
