"""Processes that build a sequence's frames, in blocks of consecutive frames.

Several processes share a GPU (see runtime/mps.py), as Python launches kernels more slowly than a GPU runs them; on a
CPU each has a core.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from sdfcli.backend.select import device_names, first_device
from sdfcli.errors import SdfError
from sdfcli.runtime import mps
from sdfcli.runtime.child import Child, end_all, process_count
from sdfcli.runtime.hardware import available_threads
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.frames import FrameArray, FrameFiles
from sdfcli.sequence.parts import Parts, Row
from sdfcli.sequence.worker import row_of

BLOCK = 8
"""Maximum frames per block. A block's first frame is built cold."""
PER_GPU, PER_SHARED_GPU = 8, 12
"""Maximum processes per GPU; and if kernels of several run concurrently."""


def build_rows(build: SequenceBuild, parts: Parts | None, jobs: int | None = None) -> Generator[Row]:
    """Rows for all frames (see `Parts.write`), in order, once their parts are written.

    parts: None: fields are built and discarded, to measure the time. jobs: process count; None: by cores, memory and
    devices. With one job, or frames that are not in files, this process builds.

    Closing the iterator ends the processes. Raises a build's errors; the first failing frame ends the sequence.
    """
    devices, frames = device_names(build.options.device), build.frames
    block = min(BLOCK, -(-len(build) // (jobs or len(devices) * 2)))
    most = PER_SHARED_GPU if mps.is_there() else PER_GPU
    jobs = min(jobs or process_count(devices, 1, most), -(-len(build) // block))
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


def _rows(blocks: list[tuple[int, int]], settings: list[dict[str, Any]], threads: int) -> Generator[Row]:
    waiting: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    rows: queue.SimpleQueue[Row | SdfError] = queue.SimpleQueue()
    for block in (*blocks, *[None] * len(settings)):
        waiting.put(block)
    share = settings[0]["share"] if settings[0]["options"]["device"] != "cpu" else 1
    with mps.service(share) as service:
        workers = [_Worker(each, threads, service) for each in settings]

        def serve(worker: _Worker) -> None:
            while (block := waiting.get()) is not None:
                for row in worker.build(*block):
                    rows.put(row)
                    if isinstance(row, SdfError):
                        return

        for worker in workers:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        done: dict[int, Row] = {}
        try:
            for index in range(blocks[-1][1]):
                while index not in done:
                    row = rows.get()
                    if isinstance(row, SdfError):
                        raise row
                    done[row["index"]] = row
                yield done.pop(index)
            for worker in workers:
                worker.child.dismiss()
        finally:
            for worker in workers:
                worker.stop()
            end_all(worker.child for worker in workers if worker.child.alive)


class _Worker:
    """A process that builds blocks of frames. service: environment of a GPU service; see runtime/mps.py."""

    def __init__(self, settings: dict[str, Any], threads: int, service: Mapping[str, str]) -> None:
        self._settings, self._threads, self._service = settings, threads, service
        self._changing, self._stopped = threading.Lock(), False
        self.child = self._start()

    def _start(self) -> Child:
        return Child("sdfcli.sequence.worker", self._settings, self._threads, self._service)

    def stop(self) -> None:
        """Starts no process from now on."""
        with self._changing:
            self._stopped = True

    def _again(self) -> bool:
        """Starts another process, without the service. Returns False once stopped."""
        with self._changing:
            if not self._stopped:
                self.child.end()
                self._service = {}
                self.child = self._start()
            return not self._stopped

    def build(self, start: int, stop: int) -> Iterator[Row | SdfError]:
        """Rows of frames, until an error. After a fault that the service may have caused, the process is replaced by
        one without it."""
        self.child.wait_until_ready()
        self.child.send((start, stop))
        for index in range(start, stop):
            row = self.child.receive()
            if row is None:
                error = self.child.fault(f"frame {index}", "fewer --jobs or a larger --tolerance")
            elif "error" in row:
                error = _error(row)
            else:
                yield row
                continue
            if self._service and error.exit_code in mps.OF_SERVICE and self._again():
                yield from self.build(index, stop)
            else:
                yield error
            return


def _error(row: Row) -> SdfError:
    """The error from a frame built in another process."""
    error = SdfError(row["error"])
    error.exit_code = row["exit_code"]
    return error
