"""Worker processes with a shared mesh queue. A worker that crashes, hangs or is killed costs only its mesh."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.errors import DeviceError, SdfError, TimeUpError
from sdfcli.runtime import mps
from sdfcli.runtime.child import Child, end_all, process_count
from sdfcli.runtime.hardware import available_threads

PER_GPU, PER_SHARED_GPU = 6, 12
"""Maximum workers per GPU: while one computes there, the others read, check or write, each on a core; and the maximum
if kernels of several processes run concurrently (see runtime/mps.py)."""

OF_SERVICE = SdfError.exit_code, DeviceError.exit_code
"""Exit codes of faults that a service, or other processes sharing it, may have caused."""


@dataclass(frozen=True)
class Plan:
    """Settings for each worker, and worker count per device."""

    settings: list[Settings]
    share: int


def plan(settings: Settings, devices: list[str], meshes: int, workers: int | None, most_per_gpu: int = PER_GPU) -> Plan:
    """Plans workers for a number of meshes, dealt out to devices. By default, workers divide the CPU threads evenly."""
    if workers is None:
        workers = process_count(devices, 2, most_per_gpu)
    workers = min(workers, meshes)
    threads = settings.threads or max(1, available_threads() // workers)
    return Plan(
        [replace(settings, device=devices[k % len(devices)], threads=threads) for k in range(workers)],
        -(-workers // len(devices)),
    )


class Worker(Child):
    """A process for builds or samplings, one by one. service: environment of a GPU service; see runtime/mps.py."""

    def __init__(self, settings: Settings, share: int = 1, service: Mapping[str, str] | None = None) -> None:
        self.service = service or {}
        self._remedy = "fewer --jobs or a " + ("smaller --count" if settings.samples else "larger --tolerance")
        first = {"settings": settings.as_json(), "share": share}
        super().__init__("sdfcli.batch.worker", first, settings.threads, self.service)

    def build(self, job: Job, timeout: float | None = None) -> Outcome:
        """Outcome for a mesh; a failure if the process ends or the time is up."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.end()

        self.wait_until_ready()
        timer = threading.Timer(min(timeout, threading.TIMEOUT_MAX), stop) if timeout else None
        if timer:
            timer.start()
        self.send(list(job))
        outcome: Outcome | None = self.receive()
        if timer:
            timer.cancel()
            timer.join()
        if outcome is not None:
            return outcome
        if late.is_set():
            return failure(*job, TimeUpError(f"{job.mesh}: took longer than --timeout {timeout:g} s"))
        return failure(*job, self.fault(job.mesh, self._remedy))


def build_all(jobs: Iterable[Job], plan: Plan, timeout: float | None, fail_fast: bool) -> Iterator[Outcome]:
    """Outcomes in order of completion. With `fail_fast`, no mesh is started after the first failure.

    Closing the iterator ends the workers and their current builds.
    """
    on_gpu = any(settings.device != "cpu" for settings in plan.settings)
    none: AbstractContextManager[dict[str, str]] = nullcontext({})
    with mps.service(plan.share) if on_gpu and plan.share > 1 else none as service:
        yield from _build_all(jobs, plan, timeout, fail_fast, service)


def _build_all(
    jobs: Iterable[Job], plan: Plan, timeout: float | None, fail_fast: bool, service: Mapping[str, str]
) -> Iterator[Outcome]:
    waiting = deque(jobs)
    outcomes: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
    workers: list[Worker | None] = [None] * len(plan.settings)
    changing, stopped = threading.Lock(), False

    def stop() -> None:
        nonlocal stopped
        with changing:
            stopped = True
            waiting.clear()

    def again(job: Job) -> bool:
        """Requeues a job, for a worker without the service: another process sharing the GPU may have caused its fault.
        Returns False once builds are stopped."""
        nonlocal service
        with changing:
            if not stopped:
                service = {}
                waiting.appendleft(job)
            return not stopped

    def serve(k: int) -> None:
        while True:
            with changing:
                if not waiting:
                    break
                job = waiting.popleft()
                try:
                    worker = workers[k]
                    if worker and worker.service != service:
                        worker.dismiss()
                        worker = None
                    if worker is None or not worker.alive:
                        worker = workers[k] = Worker(plan.settings[k], plan.share, service)
                except OSError as error:
                    worker = None
                    outcome = failure(*job, SdfError(f"{job.mesh}: no process can be started: {error}"))
            if worker:
                outcome = worker.build(job, timeout)
                if worker.service and outcome["exit_code"] in OF_SERVICE and again(job):
                    continue
            if fail_fast and outcome["exit_code"]:
                stop()
            outcomes.put(outcome)
        with changing:
            idle, workers[k] = workers[k], None
        if idle:
            idle.dismiss()
        outcomes.put(None)

    for k in range(len(workers)):
        threading.Thread(target=serve, args=(k,), daemon=True).start()
    try:
        serving = len(workers)
        while serving:
            outcome = outcomes.get()
            if outcome is None:
                serving -= 1
            else:
                yield outcome
    finally:
        stop()
        end_all(filter(None, workers))
