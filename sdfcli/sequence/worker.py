"""Process for workers.py that builds blocks of consecutive frames and answers with a row per frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sdfcli.runtime import memory
from sdfcli.runtime.serve import Answer, Handler, serve
from sdfcli.startup import driver


def main() -> None:
    """Serves requests until the input ends."""
    serve(_start)


def _start(request: Any) -> Handler:
    driver.start(request["options"]["device"])
    from sdfcli.backend import select_backend
    from sdfcli.params import BuildOptions, BuildParams
    from sdfcli.quality.estimate import memory_limit
    from sdfcli.runtime.memory import as_sdf_error
    from sdfcli.sequence.build import SequenceBuild
    from sdfcli.sequence.frames import of_json
    from sdfcli.sequence.parts import Parts, part_key

    frames, folder, share = of_json(request["frames"]), request["folder"], request["share"]
    options = BuildOptions(**request["options"])
    if share > 1 or options.max_memory:
        backend = select_backend(options.device, options.threads)
        options = replace(options, max_memory=options.max_memory or memory_limit(backend, None) // share)
        memory.bound(options.max_memory)
    build = SequenceBuild(frames, BuildParams(**request["params"]), options, request["cold"])
    parts = folder and Parts(Path(folder), part_key(build), options.threads)

    def work(block: list[int], answer: Answer) -> None:
        start, stop = block
        index = start
        try:
            for frame in build.span(start, stop):
                index = frame.index
                answer(row_of(frame, parts))
                index += 1
        except Exception as error:
            known = as_sdf_error(error, frames.name(index))
            answer({"index": index, "error": str(known), "exit_code": known.exit_code})

    return work


def row_of(frame: Any, parts: Any) -> dict[str, Any]:
    """A frame's row, after finding or writing its part. Without parts, the field is built and discarded."""
    if parts is None:
        frame.build()
        return {"index": frame.index}
    found: dict[str, Any] = parts.find(frame) or parts.write(frame, frame.build())
    return found
