"""Cooks an asset for simulators: fields of its collision meshes, built in a batch and cached by content, then each
target's files, and the changed scenes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli import __version__
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Settings
from sdfcli.batch.run import BuildRequest
from sdfcli.batch.run import run as run_builds
from sdfcli.cook.asset import Asset
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.scene.urdf import write_link
from sdfcli.cook.target import placed, target_of
from sdfcli.errors import InputError, SdfError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.mesh_file import write_ply
from sdfcli.field.field import Field
from sdfcli.field.store import load
from sdfcli.params import FLOOD, BuildParams
from sdfcli.runtime.files import refuse_existing
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.memory import as_sdf_error, unwritable
from sdfcli.runtime.threads import executor

WRITERS = 4
"""Maximum parts that are written at a time: their grids are in memory."""


@dataclass(frozen=True)
class CookRequest:
    """An asset, the targets that it is cooked for, and how.

    targets   names in `target.TARGETS`; with several, each has a folder of its name in `folder`.
    folder    output folder; its files appear together, once all are made.
    cache     folder for fields by content.
    settings  devices, threads and memory; `force` replaces files in `folder`.
    workers, timeout, fail_fast  as in BuildRequest.
    """

    asset: Asset
    targets: tuple[str, ...]
    folder: Path
    cache: Path
    config: CookConfig = field(default_factory=CookConfig)
    settings: Settings = field(default_factory=Settings)
    workers: int | None = None
    timeout: float | None = None
    fail_fast: bool = False

    def folder_of(self, target: str) -> Path:
        """A target's folder in the output folder, relative to it."""
        return Path(target) if len(self.targets) > 1 else Path()

    def params(self, target: str, part: Part) -> BuildParams:
        """Build parameters of a part's field. Raises UsageError for a configuration that the target cannot use."""
        chosen = target_of(target).parameters(self.config, part)
        return BuildParams.of(**{**chosen, "sign": FLOOD} if self.config.solid else chosen)

    def field_file(self, part: Part, params: BuildParams) -> Path:
        """A part's field in the cache: named by its mesh, parameters and version."""
        words = json.dumps([part.sha256, repr(params), __version__])
        return self.cache / f"{hashlib.sha256(words.encode()).hexdigest()}.h5"


@dataclass(frozen=True)
class CookedPart:
    """A part cooked for a target, or the error that it failed with.

    files    written, relative to the output folder.
    max_error, tolerance  of the field, in metres; `misses`: whether the error is larger, wherever it was measured.
    cached   whether the field was in the cache.
    seconds  `build` and `write`.
    """

    target: str
    part: Part
    files: list[Path]
    bytes: int = 0
    triangles: int = 0
    leaves: int = 0
    tolerance: float = 0.0
    max_error: float = 0.0
    misses: bool = False
    cached: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    verdict: str = ""
    error: SdfError | None = None


Progress = Callable[[str], None]


def user_cache() -> Path:
    """The folder for fields in the user's cache: by XDG_CACHE_HOME, or the platform's custom."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "sdfcli", "fields")


def cook(request: CookRequest, progress: Progress = lambda _: None) -> Iterator[CookedPart]:
    """Cooks an asset; yields each part of each target. At the end the files appear in the output folder, with scenes in
    which failed parts are as they were. Nothing appears if no part was cooked.

    Raises UsageError for files that exist, without `force`, or a folder that cannot be written; InputError for a target
    that does not load such scenes.
    """
    asset, folder = request.asset, request.folder
    for name in request.targets:
        _check_scene(asset, name)
    with _stage(folder) as stage:
        sources, done = _sources(request, progress), 0
        write = partial(_written, request, sources, stage / "parts")
        helpers = executor(min(available_threads(), WRITERS))
        try:
            written = iter([helpers.submit(write, name, part) for name in request.targets for part in asset.parts])
            for name in request.targets:
                cooked: dict[str, Cooked] = {}
                place = stage / "new" / request.folder_of(name)
                place.mkdir(parents=True)
                for part in asset.parts:
                    result, own = next(written).result()
                    if own is not None:
                        made = stage / "parts" / name / part.name
                        _publish(made, place, force=True)  # parts with equal meshes have equal files
                        cooked[part.name] = own
                        done += 1
                    yield result
                if asset.scene is not None and cooked:
                    asset.scene.write(place, cooked, folder / request.folder_of(name))
        finally:
            helpers.shutdown(cancel_futures=True)
        if done:
            _publish(stage / "new", folder, request.settings.force)


def _check_scene(asset: Asset, target: str) -> None:
    kinds = target_of(target).SCENES
    if asset.scene is not None and asset.scene.kind not in kinds:
        raise InputError(f"{asset.path}: {target} loads scenes in {', '.join(kinds)}, this is {asset.scene.kind}")


@contextlib.contextmanager
def _stage(folder: Path) -> Iterator[Path]:
    """A folder beside the output's files, in the same file system, that is removed at the end."""
    try:
        existed = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        stage = folder / f".{secrets.token_hex(8)}.tmp"
        stage.mkdir()
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if not existed:
            with contextlib.suppress(OSError):  # it has files
                folder.rmdir()


def _publish(stage: Path, folder: Path, force: bool) -> None:
    """Moves the staged files into the output folder, the scenes last. Raises UsageError, before the first is moved, for
    one that exists."""
    made = sorted((path for path in stage.rglob("*") if path.is_file()), key=lambda path: (path.parent == stage, path))
    targets = [folder / path.relative_to(stage) for path in made]
    for target in targets:
        refuse_existing(target, force)
    for path, target in zip(made, targets, strict=True):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
        except OSError as error:
            raise unwritable(target, error) from error


Source = Field | dict[str, Any] | SdfError
"""A part's field for a target: that of the asset, a build's outcome, or the error before the build."""


def _sources(request: CookRequest, progress: Progress) -> dict[tuple[str, str], Source]:
    """Sources by the names of targets and parts. Each mesh is built once for each set of parameters."""
    found: dict[tuple[str, str], Source] = {}
    files: dict[tuple[str, str], str] = {}
    wanted: dict[BuildParams, dict[str, Part]] = {}
    for name in request.targets:
        for part in request.asset.parts:
            try:
                own = placed(target_of(name), part)
                params = request.params(name, own)
            except SdfError as error:
                found[name, part.name] = error
                continue
            if request.asset.field is not None and own is part:
                found[name, part.name] = request.asset.field
                continue
            files[name, part.name] = str(request.field_file(own, params))
            wanted.setdefault(params, {})[files[name, part.name]] = own
    built = _built(request, wanted, progress)
    unbuilt = InputError("not built, as another mesh failed: --fail-fast")
    return found | {key: built.get(file, unbuilt) for key, file in files.items()}


def _built(
    request: CookRequest, wanted: dict[BuildParams, dict[str, Part]], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Outcomes of the builds by field file. wanted: parts by field file, by parameters."""
    request.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    done: dict[str, dict[str, Any]] = {}
    total = sum(map(len, wanted.values()))
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        for params, parts in wanted.items():
            jobs = []
            for output, part in parts.items():
                mesh = Path(folder, Path(output).stem + ".ply")
                write_ply(mesh, Surface(part.vertices, part.faces.astype(np.uint32), cut=False), np.float64)
                jobs.append(Job(str(mesh), output))
            settings = replace(request.settings, params=params, force=True, skip_existing=True)
            builds = BuildRequest(jobs, settings, request.workers, request.timeout, request.fail_fast)
            for outcome in run_builds(builds, lambda _: contextlib.nullcontext(progress)):
                done[outcome["output"]] = outcome
                progress(f"{len(done):,} of {total:,} fields")
    return done


def _written(
    request: CookRequest, sources: dict[tuple[str, str], Source], work: Path, target: str, part: Part
) -> tuple[CookedPart, Cooked | None]:
    """Writes a part for a target into a folder of its own in `work`."""
    source, start = sources[target, part.name], time.perf_counter()
    outcome = source if isinstance(source, dict) else {}
    try:
        if isinstance(source, SdfError):
            raise source
        if outcome.get("status") == "failed":
            kinds = {kind.exit_code: kind for kind in SdfError.__subclasses__()}
            raise kinds.get(outcome["exit_code"], SdfError)(outcome["error"].replace(outcome["input"], part.place))
        found = load(outcome["output"]) if outcome else source
        assert isinstance(found, Field)
        own = work / target / part.name
        own.mkdir(parents=True)
        cooked = target_of(target).write(found, part, request.config, own)
        names = list(cooked.files)
        if request.asset.scene is None and cooked.urdf is not None:
            names.append(write_link(part, cooked, own))
        size, most = sum((own / name).stat().st_size for name in names), request.config.max_bytes
        if most is not None and size > most:
            raise InputError(
                f"{size:,} bytes, more than --max-bytes {most:,}; use a larger --tolerance, or fewer --cells"
            )
    except Exception as error:
        known = as_sdf_error(error, part.place)
        text = str(known)
        failure = type(known)(text if part.place in text else f"{part.place}: {text}")
        return CookedPart(target, part, [], error=failure), None
    unit = found.info["parameters"].get("unit") or found.info["mesh"]["diagonal"]
    seconds = {"build": outcome["seconds"]["total"]} if "seconds" in outcome else {}
    return CookedPart(
        target,
        part,
        [request.folder_of(target) / name for name in names],
        bytes=size,
        triangles=len(part.faces),
        leaves=found.leaves,
        tolerance=found.info["parameters"]["tolerance"] * unit,
        max_error=found.info["max_error"] * unit,
        misses=found.info["error_limit"] is not None,
        cached=outcome.get("status") == "skipped",
        seconds={**seconds, "write": round(time.perf_counter() - start, 4)},
        verdict=found.info["verdict"],
    ), cooked
