"""The plugin `sdfcli.field` for MuJoCo, a compiled library, and models that use it."""

from __future__ import annotations

import functools
import importlib.util
import os
from os import PathLike
from pathlib import Path

import mujoco

from sdfcli.errors import DeviceError, InputError

NAME = "sdfcli.field"
"""The plugin's name in models."""
LIBRARY = "libsdfcli_mujoco.dll" if os.name == "nt" else "libsdfcli_mujoco.so"


def plugin_path() -> Path:
    """The plugin's library, for `mj_loadPluginLibrary`. Raises DeviceError if the package was installed without it."""
    found = importlib.util.find_spec(f"sdfcli.mujoco.{LIBRARY.partition('.')[0]}")  # where an editable install has it
    path = Path(found.origin) if found is not None and found.origin else Path(__file__).with_name(LIBRARY)
    if not path.exists():
        raise DeviceError(f"{path}: missing; install the package with `pip install .`")
    return path


@functools.cache
def load_plugin() -> None:
    """Registers the plugin with MuJoCo, once in a process. Raises DeviceError if it cannot be loaded."""
    try:
        mujoco.mj_loadPluginLibrary(str(plugin_path()))
    except mujoco.FatalError as error:
        raise DeviceError(f"MuJoCo cannot load {plugin_path()}: {error}") from error


def load(path: str | PathLike[str]) -> mujoco.MjModel:
    """Compiles a scene whose fields' files are named relative to its folder, as `sdfcli cook` writes them.

    MuJoCo itself looks for them in the working directory, and in the folders that SDFCLI_FIELDS lists.

    Raises:
        InputError: the scene cannot be read or compiled.
        DeviceError: the plugin cannot be loaded, or a MuJoCo before 4.0, whose scenes do not tell plugins' files.
    """
    load_plugin()
    if not hasattr(mujoco.MjsPlugin, "config"):
        raise DeviceError(
            f"MuJoCo {mujoco.mj_versionString()} is too old for this; in the scene's folder use "
            "sdfcli.mujoco.load_plugin() and mujoco.MjModel.from_xml_path"
        )
    folder = Path(path).resolve().parent
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for plugin in spec.plugins:
            if plugin.plugin_name == NAME and "file" in plugin.config:
                plugin.config = {**plugin.config, "file": str(folder / plugin.config["file"])}
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
