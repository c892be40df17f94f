"""Worker processes with a shared mesh queue. A worker that crashes, hangs or is killed costs only its mesh."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.errors import SdfError, TimeUpError
from sdfcli.runtime import mps
from sdfcli.runtime.child import Child, end_all, process_count
from sdfcli.runtime.hardware import available_threads

PER_GPU, PER_SHARED_GPU = 6, 12
"""Maximum workers per GPU: while one computes there, the others read, check or write, each on a core; and the maximum
if kernels of several processes run concurrently (see runtime/mps.py)."""


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
    with mps.service(plan.share if on_gpu else 1) as service:
        yield from _Run(jobs, plan, timeout, fail_fast, service).outcomes()


class _Run:
    """Workers that share a queue of jobs, each served by a thread."""

    def __init__(
        self, jobs: Iterable[Job], plan: Plan, timeout: float | None, fail_fast: bool, service: Mapping[str, str]
    ) -> None:
        self._waiting, self._plan, self._timeout, self._fail_fast = deque(jobs), plan, timeout, fail_fast
        self._service = service
        self._workers: list[Worker | None] = [None] * len(plan.settings)
        self._done: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        self._changing, self._stopped = threading.Lock(), False

    def outcomes(self) -> Iterator[Outcome]:
        """Outcomes in order of completion."""
        serving = len(self._workers)
        for k in range(serving):
            threading.Thread(target=self._serve, args=(k,), daemon=True).start()
        try:
            while serving:
                done = self._done.get()
                if isinstance(done, BaseException):
                    raise done
                if done is None:
                    serving -= 1
                else:
                    yield done
        finally:
            self._stop()
            end_all(filter(None, self._workers))

    def _serve(self, k: int) -> None:
        try:
            while job := self._next():
                outcome = self._build(k, job)
                if outcome is None:
                    continue
                if self._fail_fast and outcome["exit_code"]:
                    self._stop()
                self._done.put(outcome)
            with self._changing:
                idle, self._workers[k] = self._workers[k], None
            if idle:
                idle.dismiss()
            self._done.put(None)
        except BaseException as error:  # raised in the thread that waits for outcomes
            self._done.put(error)

    def _next(self) -> Job | None:
        with self._changing:
            return self._waiting.popleft() if self._waiting else None

    def _build(self, k: int, job: Job) -> Outcome | None:
        """Outcome of a job by worker k; None if the job is queued again, or builds are stopped."""
        with self._changing:
            if self._stopped:
                return None
            try:
                worker = self._workers[k]
                if worker and worker.service != self._service:
                    worker.dismiss()
                    worker = None
                if worker is None or not worker.alive:
                    worker = self._workers[k] = Worker(self._plan.settings[k], self._plan.share, self._service)
            except OSError as error:
                return failure(*job, SdfError(f"{job.mesh}: no process can be started: {error}"))
        outcome = worker.build(job, self._timeout)
        return None if worker.service and outcome["exit_code"] in mps.OF_SERVICE and self._again(job) else outcome

    def _again(self, job: Job) -> bool:
        """Requeues a job, for a worker without the service: another process sharing the GPU may have caused its fault.
        Returns False once builds are stopped."""
        with self._changing:
            if not self._stopped:
                self._service = {}
                self._waiting.appendleft(job)
            return not self._stopped

    def _stop(self) -> None:
        with self._changing:
            self._stopped = True
            self._waiting.clear()
