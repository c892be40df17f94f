"""Training samples of one mesh into a file, unless they exist there."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.backend import select_backend
from sdfcli.backend.select import first_device
from sdfcli.batch.messages import Outcome, Settings
from sdfcli.batch.shards import member, place_in_shard
from sdfcli.errors import InputError, UsageError
from sdfcli.export.samples import Shape, draw
from sdfcli.mesh.load import load_mesh
from sdfcli.params import SampleParams
from sdfcli.runtime.memory import memory_errors

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
    wanted = {"mesh_sha256": given.sha256, "parameters": json.loads(json.dumps(params.stored))}
    there = _there(target) if settings.skip_existing else None
    if there is not None:
        progress("comparing with the samples that are there")
        found = _facts(there, wanted)
        if not isinstance(found, str):
            return {**known, "status": "skipped", **found, "bytes": len(there)}
        if not settings.force:
            named = ", ".join(map(str, place_in_shard(target) or [target]))
            raise UsageError(
                f"{named}: exists, and {found}; add --force to replace it, while samples that are the same are skipped"
            )
    loaded = time.perf_counter()
    progress("sampling")
    try:
        samples = draw(Shape.made(given, params, backend, settings.max_memory), params)
    except InputError as error:
        raise InputError(f"{mesh}: {error}") from error
    sampled = time.perf_counter()
    progress("writing")
    try:
        samples.save(target, settings.force)
    except UsageError:
        written = _there(target) if settings.skip_existing else None  # by another process
        if written is None or isinstance(_facts(written, wanted), str):
            raise
        return {**known, "status": "skipped", **samples.facts, "bytes": len(written)}
    ends = {"load": loaded - start, "sample": sampled - loaded, "write": time.perf_counter() - sampled}
    seconds = {name: round(value, 4) for name, value in [*ends.items(), ("total", time.perf_counter() - start)]}
    size = target.stat().st_size
    return {**known, "status": "ok", **samples.facts, "bytes": size, "device": backend.name, "seconds": seconds}


def _there(target: Path) -> bytes | None:
    """The content of a file of samples, or of its place in a shard; None if neither is there."""
    if os.path.exists(target):
        return target.read_bytes()
    place = place_in_shard(target)
    return None if place is None else member(*place)


def _facts(content: bytes, wanted: dict[str, Any]) -> dict[str, Any] | str:
    """The facts in an intact samples file with the wanted mesh and parameters; for any other file, the difference in
    words."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.testzip() is not None:
                return "is damaged"
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
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
