"""Fields cooked for simulators: the collision meshes of an asset become files that a simulator loads."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sdfcli.cook.config import TARGETS, CookConfig

if TYPE_CHECKING:
    from sdfcli.cook.run import CookedPart

__all__ = ["TARGETS", "CookConfig", "cook"]


def cook(
    asset: str | PathLike[str],
    targets: str | Sequence[str],
    folder: str | PathLike[str],
    *,
    config: CookConfig | None = None,
    scale: float | None = None,
    root: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    force: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[CookedPart]:
    """Cooks an asset's collision meshes for simulators. The files appear in the folder together.

    Args:
        asset: a mesh, a field, or a scene: .urdf, .xml (MJCF), .usd.
        targets: a name in `TARGETS`, or several, which then have a folder each in `folder`.
        folder: output folder.
        config: tolerance and sizes, for all targets. None: their presets.
        scale: factor from a mesh file's coordinates to metres. None: by the unit that it names; else 1.
        root: folder that a scene's files must be in. None: that of the scene, or of its package.
        cache: folder of fields built before, by content. None: one in the user's cache.
        force: replace existing files.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or several GPUs, as in `cuda:0,1`.
        threads: number of CPU threads; default: all CPUs available to the process.

    Returns:
        a CookedPart for each collision mesh and target: its files and facts, or its `error`.

    Raises:
        InputError: the asset cannot be read, has no collision mesh, or is a scene that a target does not load.
        UsageError: an option is out of range, a file exists, or the folder cannot be written.
    """
    from sdfcli.batch.messages import Settings
    from sdfcli.cook.asset import read_asset
    from sdfcli.cook.run import CookRequest, user_cache
    from sdfcli.cook.run import cook as cook_parts

    found = read_asset(Path(asset), scale, None if root is None else Path(root))
    names = (targets,) if isinstance(targets, str) else tuple(dict.fromkeys(targets))
    settings = Settings(device, threads, force=force)
    place = user_cache() if cache is None else Path(cache)
    return list(cook_parts(CookRequest(found, names, Path(folder), place, config or CookConfig(), settings)))
