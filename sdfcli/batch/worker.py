"""A process that builds meshes one by one, for pool.py: a request is a mesh and an output, the answer an outcome."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from sdfcli.runtime import memory
from sdfcli.runtime.serve import Answer, Handler, serve
from sdfcli.startup import driver


def main() -> None:
    """Serves until the input ends."""
    serve(_start)


def _start(request: Any) -> Handler:
    driver.start(request["settings"]["device"])
    from sdfcli.mesh.formats.notes import keep_warnings

    keep_warnings()
    from sdfcli.backend import select_backend
    from sdfcli.batch.job import outcome_of
    from sdfcli.batch.messages import Settings
    from sdfcli.errors import SdfError
    from sdfcli.quality.estimate import memory_limit

    settings, share = Settings.of_json(request["settings"]), request["share"]
    with contextlib.suppress(SdfError):  # a missing device is reported for every mesh
        backend = select_backend(settings.device, settings.threads)
        settings = replace(settings, max_memory=settings.max_memory or memory_limit(backend, None) // share)
        memory.bound(settings.max_memory)

    def build(job: Any, answer: Answer) -> None:
        mesh, output = job
        answer(outcome_of(mesh, output, settings))

    return build
