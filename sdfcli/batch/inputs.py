"""Meshes named on a command line, each with its output file."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.formats.readers import FORMATS, IS_FIELD
from sdfcli.params import ENDINGS, NAME
from sdfcli.runtime.files import check_ending
from sdfcli.runtime.remote import file_name, is_remote

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
"""A number, in place of a mesh's name."""


class Job(NamedTuple):
    """A mesh and its output file."""

    mesh: str
    output: str


def find_jobs(
    named: Iterable[str],
    listed: Iterable[str],
    output: str | None,
    recursive: bool,
    endings: tuple[str, ...] = ENDINGS,
) -> list[Job]:
    """Finds the meshes among files, folders and patterns; `-` stands for the names in `listed`.

    An output has its mesh's name with the first of `endings`, and is written to `output`, or to the current folder;
    with `recursive`, subfolders are preserved. `{name}` in `output` stands for each mesh's name. Otherwise, for a
    single mesh named directly, `output` is the file to write, unless it is a folder or ends with a slash; for a
    pattern, a folder or a list it is a folder, whatever they hold. A mesh named twice counts once.

    Raises InputError for patterns without matches alone; UsageError without meshes, for a folder without meshes, for an
    output name with another format's ending (or none, for a single mesh), for several meshes with a single output name,
    and if two meshes would have the same output.
    """
    named = list(named)
    words, found = _found(named, listed, recursive)
    if output is None and len(found) == 1 and found[0][0].lower().endswith(ENDINGS):
        raise UsageError(f"{found[0][0]}: {IS_FIELD}")
    if output is not None and NAME in output:
        return _jobs(found, lambda place: _named(output, place, endings), recursive)
    single = words == named and len(words) == 1 and not os.path.isdir(words[0])
    names_a_file = single and output is not None and not output.endswith((os.sep, "/"))
    if output is not None and names_a_file and (is_remote(output) or not os.path.isdir(output)):
        check_ending(output, "", *endings)
        if not Path(output).suffix:
            raise UsageError(f"{output}: a file or a folder? use {output}{endings[0]}, or {output}/")
        return [Job(words[0], output)]
    if output is not None and output.lower().endswith(endings[0]) and not os.path.isdir(output):
        raise UsageError(
            f"{output}: the outputs of a folder, or of several meshes, need a folder; end its name with /, or use "
            f"{NAME}{endings[0]}"
        )
    return _jobs(found, lambda place: _target(output, place.with_suffix(endings[0])), recursive)


def _jobs(found: Iterable[tuple[str, Path]], target_of: Callable[[Path], str], recursive: bool) -> list[Job]:
    """Jobs for meshes, each with its output folder path. Raises UsageError for two meshes with one output."""
    jobs: dict[str, str] = {}
    for mesh, place in found:
        target = target_of(place)
        first = jobs.setdefault(target, mesh)
        if first != mesh and not _same(first, mesh):
            raise UsageError(
                f"{first} and {mesh} would both be written to {target}; "
                + ("use different folders" if recursive else "name their folder with -r to keep its subfolders")
                + ", or rename one of them"
            )
    return [Job(mesh, target) for target, mesh in jobs.items()]


def find_meshes(named: Iterable[str], listed: Iterable[str], recursive: bool) -> list[str]:
    """The meshes of `find_jobs` without outputs. Raises UsageError as it does, but for outputs."""
    return list(dict.fromkeys(mesh for mesh, _ in _found(named, listed, recursive)[1]))


def find_fields(named: Iterable[str], recursive: bool = False, *, meshes: bool = False) -> dict[str, Path]:
    """The fields among files, folders and patterns, each with its path in its folder.

    Without `recursive`, a folder's subfolders are not searched, `**` in a pattern is. Raises InputError for patterns
    without matches alone, UsageError for a folder without fields. meshes: whether the command takes single meshes,
    too, which the error for a mesh folder then says.
    """
    named = list(named)
    matches = _matches(named)
    words = [word for name in named for word in matches[name]]
    for word in words if meshes else ():
        if os.path.isdir(word) and not _first(word, ENDINGS) and (mesh := _first(word, FORMATS)):
            pattern = os.path.join(word, f"*{Path(mesh).suffix}")
            raise UsageError(f"{word}: a folder of meshes; name them one by one, or by a pattern as '{pattern}'")
    found: dict[str, Path] = {}
    for word in words:
        for field, place in _files(word, recursive, ENDINGS, "fields"):
            found.setdefault(field, place)
    return found


def _found(named: Iterable[str], listed: Iterable[str], recursive: bool) -> tuple[list[str], list[tuple[str, Path]]]:
    """Files and folders, and their meshes, each with its path in an output folder."""
    named = list(named)
    for name in named:
        if NUMBER.fullmatch(name) and not os.path.lexists(name):
            raise UsageError(f"{name}: no such file; an option's values are one word, as in --sigma 0.05,0.0158")
    matches = _matches(named)
    words = [word for name in named for word in (listed if name == "-" else matches[name])]
    found = [pair for word in words for pair in _files(word, recursive, FORMATS, "meshes")]
    if not found:
        raise UsageError("no names on standard input" if "-" in named else "no meshes given")
    return words, found


def _matches(named: list[str]) -> dict[str, list[str]]:
    """Each name's files and folders: a quoted pattern's sorted matches (`*`, `?`, `[...]`, `**` for folders); the name
    itself if it has none, as in a shell. Raises InputError if all are patterns that match nothing."""
    patterns = [each for each in named if glob.has_magic(each) and not is_remote(each) and not os.path.lexists(each)]
    found = {each: sorted(glob.glob(each, recursive=True)) for each in patterns}
    if named and len(patterns) == len(named) and not any(found.values()):
        raise InputError(
            f"{', '.join(named)}: no file matches {'this pattern' if len(named) == 1 else 'these patterns'}"
        )
    return {each: found.get(each) or [each] for each in named}


def _named(output: str, place: Path, endings: tuple[str, ...]) -> str:
    """An output path, a mesh's name replacing {name}; subfolders precede the last part."""
    if output.endswith((os.sep, "/")):
        return _target(output.replace(NAME, place.stem), place.with_suffix(endings[0]))
    check_ending(output, *endings)
    folder, _, name = output.replace(os.sep, "/").replace(NAME, place.stem).rpartition("/")
    return _target(folder or ("/" if output.startswith("/") else None), place.with_name(name))


def _target(output: str | None, place: Path) -> str:
    """Path of an output in the output folder."""
    if output is not None and is_remote(output):
        return f"{output.rstrip('/')}/{place.as_posix()}"
    return str(Path(output or "", place))


def _files(named: str, recursive: bool, endings: tuple[str, ...], what: str) -> Iterator[tuple[str, Path]]:
    """A file, or a folder's files with one of `endings`, and their paths in the output folder. Folders are read by
    name, without hidden files. what: their name in errors, `meshes` or `fields`."""
    if not named:
        raise UsageError("a file or a folder has an empty name")
    if not os.path.isdir(named):
        yield named, Path(file_name(named) if is_remote(named) else Path(named).name)
        return
    count, linked = 0, False
    for folder, below, files in os.walk(named, onerror=_unreadable):
        below[:] = sorted(name for name in below if recursive and not name.startswith("."))
        linked = linked or any(os.path.islink(Path(folder, name)) for name in below)
        for name in sorted(files):
            if name.lower().endswith(endings) and not name.startswith("."):
                count += 1
                path = Path(folder, name)
                yield str(path), path.relative_to(named)
    if not count:
        hint = "; -r looks into its folders" if what == "meshes" else "; a pattern with ** looks into its folders"
        if recursive:
            hint = "; links to folders are not followed" if linked else ""
        raise UsageError(f"{named}: no {what} ({', '.join(endings)}) in this folder{hint}")


def _first(folder: str, endings: tuple[str, ...]) -> str | None:
    """The first file in a folder with such an ending."""
    try:
        return min((name for name in os.listdir(folder) if name.lower().endswith(endings)), default=None)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error


def _unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: cannot be read: {error.strerror}")


def _same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
