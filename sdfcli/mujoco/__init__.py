"""Fields in MuJoCo and MuJoCo Warp: by a plugin that reads `.oct` files, or as octrees of compiled models."""

from sdfcli.mujoco.plugin_library import load, load_plugin, plugin_path
from sdfcli.mujoco.put import mesh_of, put, put_warp

__all__ = ["load", "load_plugin", "mesh_of", "plugin_path", "put", "put_warp"]
