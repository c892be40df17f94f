"""Fields in MuJoCo and MuJoCo Warp: by a plugin that reads `.oct` files, or as octrees of compiled models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdfcli.mujoco.compiled import mesh_of, put, put_warp
    from sdfcli.mujoco.plugin_library import load, load_plugin, plugin_path

__all__ = ["load", "load_plugin", "mesh_of", "plugin_path", "put", "put_warp"]

MODULES = dict.fromkeys(("load", "load_plugin", "plugin_path"), "plugin_library")
MODULES |= dict.fromkeys(("mesh_of", "put", "put_warp"), "compiled")
"""Modules that import MuJoCo, by the names in them: files are written without it."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    return found
