"""Processes that build a sequence's frames, in blocks of consecutive frames.

Several processes share a GPU, as Python launches kernels more slowly than a GPU runs them; on a CPU each has a core.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import asdict, replace

from sdfcli.backend.select import device_names, first_device
from sdfcli.errors import SdfError
from sdfcli.runtime.child import Child, end_all, process_count
from sdfcli.runtime.hardware import available_threads
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.frames import FrameArray, FrameFiles
from sdfcli.sequence.parts import Parts, Row
from sdfcli.sequence.worker import row_of

BLOCK = 8
"""Maximum frames per block. A block's first frame is built cold."""
PER_GPU = 8
"""Maximum processes per GPU."""


def build_rows(build: SequenceBuild, parts: Parts | None, jobs: int | None = None) -> Generator[Row]:
    """Rows for all frames (see `Parts.write`), in order, once their parts are written.

    parts: None: fields are built and discarded, to measure the time. jobs: process count; None: by cores, memory and
    devices. With one job, or frames that are not in files, this process builds.

    Closing the iterator ends the processes. Raises a build's errors; the first failing frame ends the sequence.
    """
    devices, frames = device_names(build.options.device), build.frames
    block = min(BLOCK, -(-len(build) // (jobs or len(devices) * 2)))
    jobs = min(jobs or process_count(devices, 1, PER_GPU), -(-len(build) // block))
    if jobs == 1 or not isinstance(frames, FrameFiles | FrameArray):
        build.options = replace(build.options, device=first_device(build.options.device))
        return (row_of(frame, parts) for frame in build)
    threads = build.options.threads or max(1, available_threads() // jobs)
    common = {
        "frames": frames.as_json(),
        "params": asdict(build.params),
        "cold": build.cold,
        "folder": parts and str(parts.folder),
        "share": -(-jobs // len(devices)),
    }
    blocks = [(start, min(start + block, len(build))) for start in range(0, len(build), block)]
    own = [replace(build.options, device=devices[k % len(devices)], threads=threads) for k in range(jobs)]
    return _rows(blocks, [{**common, "options": asdict(options)} for options in own], threads)


def _rows(blocks: list[tuple[int, int]], settings: list[dict[str, object]], threads: int) -> Generator[Row]:
    waiting: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    rows: queue.SimpleQueue[Row | SdfError] = queue.SimpleQueue()
    for block in (*blocks, *[None] * len(settings)):
        waiting.put(block)
    children = [Child("sdfcli.sequence.worker", each, threads) for each in settings]

    def serve(child: Child) -> None:
        child.wait_until_ready()
        while (block := waiting.get()) is not None:
            child.send(block)
            for index in range(*block):
                row = child.receive()
                if row is None:
                    rows.put(child.fault(f"frame {index}", "fewer --jobs or a larger --tolerance"))
                    return
                rows.put(_error(row) if "error" in row else row)
                if "error" in row:
                    return

    for child in children:
        threading.Thread(target=serve, args=(child,), daemon=True).start()
    done: dict[int, Row] = {}
    try:
        for index in range(blocks[-1][1]):
            while index not in done:
                row = rows.get()
                if isinstance(row, SdfError):
                    raise row
                done[row["index"]] = row
            yield done.pop(index)
        for child in children:
            child.dismiss()
    finally:
        end_all(child for child in children if child.alive)


def _error(row: Row) -> SdfError:
    """The error from a frame built in another process."""
    error = SdfError(row["error"])
    error.exit_code = row["exit_code"]
    return error
