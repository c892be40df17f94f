"""Paths in scenes: only files within a root are read, and paths are mended for a scene in another folder."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from sdfcli.cook.scene.base import shown
from sdfcli.cook.scene.xml_tree import parsed
from sdfcli.errors import InputError, SdfError, UsageError

MARKS = ("package.xml", "model.config", ".git")
"""Files and folders that mark a package's top, or a repository's."""
PACKAGES = ("package://", "model://")


def root_of(asset: Path, root: Path | None) -> Path:
    """The folder that holds all files that an asset may name: `root`, else the nearest folder above the asset with a
    mark from MARKS, else the asset's own folder.

    Raises UsageError for a root that is not above the asset.
    """
    folder = asset.resolve().parent
    if root is None:
        return next((each for each in (folder, *folder.parents) if _has(each, MARKS)), folder)
    if not root.is_dir() or not folder.is_relative_to(root.resolve()):
        raise UsageError(f"--root {root}: use a folder above {asset}")
    return root.resolve()


def resolved(name: str, folders: list[Path], root: Path) -> Path:
    """The file that a scene names, from the first folder that has it.

    Raises InputError for a missing file, and for one outside the root, also by links.
    """
    outside = False
    for place in located(name, folders, root):
        try:
            path = place.resolve()
            found = path.is_file()
        except (OSError, ValueError, RuntimeError):  # names that no system has; loops of links
            continue
        inside = any(path.is_relative_to(each) for each in (root, *_packages(name, folders[0], root)))
        if found and inside:
            return path
        outside |= not inside
    if outside:
        raise InputError(f"{shown(name)}: is outside of {root}; --root names a folder above")
    if name.startswith(PACKAGES) and not _packages(name, folders[0], root):
        package = shown(name.partition("://")[2].partition("/")[0])
        above = next((str(each) for each in folders[0].parents if shown(each.name) == package), "a folder above")
        raise InputError(f"{shown(name)}: no package {package} in {root}, nor with a package.xml; use --root {above}")
    raise InputError(f"{shown(name)}: no such file")


def located(name: str, folders: list[Path], root: Path) -> list[Path]:
    """Where a scene's file may be, whether or not it is there; nothing for addresses and unknown packages."""
    scheme, found, rest = name.partition("://")
    if not found:
        return [folder / name for folder in folders]
    if name.startswith(PACKAGES):
        inner = rest.partition("/")[2]
        return [package / inner for package in _packages(name, folders[0], root)]
    return [Path(unquote(rest))] if scheme == "file" and rest.startswith("/") else []


def mended(name: str, folders: list[Path], root: Path, home: Path) -> str:
    """The file's name in a scene in the folder `home`; unchanged for addresses and unknown packages. Reads no file."""
    try:
        places = located(name, folders, root)
        return relative(next((each for each in places if each.exists()), places[0]), home) if places else name
    except (OSError, ValueError):  # names that no system has
        return name


def relative(place: Path, home: Path) -> str:
    """The path from a folder to a file, with slashes; absolute on another drive. Links to folders are followed:
    `..` leads out from their targets."""
    target = Path(os.path.realpath(place.parent), place.name)
    try:
        return Path(os.path.relpath(target, os.path.realpath(home))).as_posix()
    except ValueError:
        return target.as_posix()


def _packages(name: str, folder: Path, root: Path) -> list[Path]:
    """A package's folders: above the scene's with the package's name, by folder or package.xml, or beside these by
    folder; within the root, or with a package.xml."""
    if not name.startswith(PACKAGES):
        return []
    package = name.partition("://")[2].partition("/")[0]
    if package in ("", ".", "..") or "\0" in package or len(package.encode()) > 255 or os.sep in package:
        return []
    above = [folder, *folder.parents]
    places = [each for up in above for each in ([up] if package in (up.name, _called(up)) else []) + [up / package]]
    return [
        each.resolve()
        for each in places
        if each.is_dir() and (each.resolve().is_relative_to(root) or _has(each, MARKS[:2]))
    ]


def _called(folder: Path) -> str | None:
    """The name in a folder's package.xml, if it has one."""
    try:
        file = folder / MARKS[0]
        return parsed(file).findtext("name", "").strip() if file.is_file() else None
    except (SdfError, OSError):
        return None


def _has(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).exists() for name in names)
