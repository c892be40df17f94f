"""Training samples of one mesh into a file, unless they exist there."""

from __future__ import annotations

import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.backend import select_backend
from sdfcli.backend.select import first_device
from sdfcli.batch.messages import Outcome, Settings
from sdfcli.errors import InputError, UsageError
from sdfcli.export.samples import draw
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import load_mesh
from sdfcli.params import SampleParams
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.memory import memory_errors
from sdfcli.scene import Scene

FAULTS = OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error
"""Exceptions from reading a file that is damaged, or not one of samples."""


@memory_errors("try a smaller --count, or fewer --jobs")
def sample_into(
    mesh: str, target: Path, settings: Settings, params: SampleParams, progress: Callable[[str], None]
) -> Outcome:
    """Draws a mesh's samples into a file, or finds them there.

    Raises the errors of `samples` and `Samples.save`, and UsageError if the file holds other samples.
    """
    start = time.perf_counter()
    progress("loading and checking the mesh")
    backend = select_backend(first_device(settings.device), settings.threads)
    given = load_mesh(mesh, backend).on(backend)
    known = {"input": mesh, "output": str(target), "exit_code": 0, "triangles": len(given.faces), "notes": given.notes}
    wanted = {"mesh_sha256": given.sha256, "parameters": json.loads(json.dumps(asdict(params)))}
    if settings.skip_existing and os.path.exists(target):
        progress("comparing with the samples that are there")
        found = _facts(target, wanted)
        if not isinstance(found, str):
            return {**known, "status": "skipped", **found, "bytes": target.stat().st_size}
        if not settings.force:
            raise UsageError(
                f"{target}: exists, and {found}; add --force to replace it, while samples that are the same are skipped"
            )
    loaded = time.perf_counter()
    progress("sampling")
    try:
        index = MeshDistance._of(Scene.of(treated(given, params.holes), params.sign, backend), given)
        samples = draw(index, params)
    except InputError as error:
        raise InputError(f"{mesh}: {error}") from error
    sampled = time.perf_counter()
    progress("writing")
    try:
        samples.save(target, settings.force)
    except UsageError:
        if not settings.skip_existing or isinstance(_facts(target, wanted), str):  # else another process has written it
            raise
        return {**known, "status": "skipped", **samples.facts, "bytes": target.stat().st_size}
    ends = {"load": loaded - start, "sample": sampled - loaded, "write": time.perf_counter() - sampled}
    seconds = {name: round(value, 4) for name, value in [*ends.items(), ("total", time.perf_counter() - start)]}
    size = target.stat().st_size
    return {**known, "status": "ok", **samples.facts, "bytes": size, "device": backend.name, "seconds": seconds}


def _facts(path: Path, wanted: dict[str, Any]) -> dict[str, Any] | str:
    """The facts in an intact samples file with the wanted mesh and parameters; for any other file, the difference in
    words."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                return "is damaged"
        with np.load(path, allow_pickle=False) as arrays:
            info = json.loads(str(arrays["info"]))
        facts = dict(info["facts"])
        if info["mesh_sha256"] != wanted["mesh_sha256"]:
            return "was drawn from another mesh"
        found = dict(info["parameters"])
        asked = wanted["parameters"]
        names = [name for name in {**asked, **found} if found.get(name) != asked.get(name)]
    except FAULTS:
        return "is damaged, or not of this command"
    other = ", ".join(f"{name} {_text(found.get(name))}, asked for {_text(asked.get(name))}" for name in names)
    return f"has other parameters ({other})" if names else facts


def _text(value: Any) -> str:
    """A parameter as an option's value."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
