"""Builds distributed by Dask over any number of machines with a shared file system."""

from __future__ import annotations

import contextlib
import gc
import logging
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdfcli.backend import Array, Backend
from sdfcli.backend.select import any_backend, first_device, select_backend
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.batch.pool import Plan, Worker
from sdfcli.errors import DeviceError, SdfError
from sdfcli.mesh.mesh import Mesh
from sdfcli.query.helper import DeviceHelper
from sdfcli.runtime.child import end_all
from sdfcli.runtime.remote import is_remote, shown
from sdfcli.spatial.query_pool import Answer, Helper

RETRIES = 2
"""Retries per failed task; Dask runs a task whose worker is lost up to three times."""

PATIENCE = 10
"""Timeout for a scheduler's answer, in seconds."""


def build_all(jobs: list[Job], plan: Plan, scheduler: str, timeout: float | None, fail_fast: bool) -> Iterator[Outcome]:
    """Outcomes in order of completion. With `fail_fast`, no mesh is started after the first failure.

    scheduler  an address, `tcp://host:8786`, whose workers use the plan's first settings; or `local`: one worker on
               this machine for each of the plan's settings.

    Raises DeviceError if Dask is not installed or the scheduler does not answer.
    """
    with _client(scheduler, len(plan.settings)) as client:
        run = secrets.token_hex(8)
        try:
            yield from _outcomes(client, run, jobs, plan, timeout, fail_fast)
        finally:
            _end(client, run)


@contextlib.contextmanager
def _client(scheduler: str, workers: int) -> Iterator[Any]:
    """A scheduler's client. workers: worker count for `local`. Raises DeviceError as `build_all` does."""
    try:
        import distributed
    except ImportError as error:
        raise DeviceError("Dask is not installed: pip install 'sdfcli[cluster]', or leave out --scheduler") from error
    logging.getLogger("distributed").setLevel(logging.ERROR)  # losing a worker is harmless
    fault: DeviceError | None = None
    with contextlib.ExitStack() as stack:
        try:
            address: Any = scheduler
            if scheduler == "local":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdfcli-"))
                address = stack.enter_context(_local_cluster(workers, folder))
            client = stack.enter_context(distributed.Client(address, timeout=PATIENCE))
        except Exception as error:  # Dask has no exception type for a wrong address or key
            fault = DeviceError(f"--scheduler {scheduler}: no scheduler answers there: {error}")
        if fault:
            gc.collect()  # the failed client: its finaliser, run while another client starts, would wait forever
            raise fault
        yield client


@contextlib.contextmanager
def query_pool(scheduler: str, plan: Plan) -> Iterator[Callable[[Mesh], list[Helper]]]:
    """Yields a function that creates a build's query helpers (see spatial/query_pool.py): each chunk of queries is a
    task for any Dask worker. scheduler: as for `build_all`. Each worker builds its own trees of the mesh.

    Raises DeviceError as `build_all` does.
    """
    with _client(scheduler, len(plan.settings)) as client:
        import dask

        run = secrets.token_hex(8)

        def helpers(mesh: Mesh) -> list[Helper]:
            # A task is repeated if its worker is lost; scattered data, stored once by Dask, would not be restored.
            there = client.submit(tuple, (mesh.vertices, mesh.faces, mesh.domain, mesh.unit), pure=False)

            def ask(backend: Backend, points: Array, seed: Array) -> Callable[[], Answer]:
                piece = backend.to_host(points), backend.to_host(seed)
                task = client.submit(answer_here, run, there, plan.settings, *piece, pure=False, retries=RETRIES)

                def ended() -> Answer:
                    distance, slot = map(backend.from_host, task.result())
                    return distance, slot

                return ended

            return [ask] * len(client.ncores())

        try:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GB"}):
                yield helpers
        finally:
            with contextlib.suppress(Exception):
                client.run(forget_here, run)


def _local_cluster(workers: int, folder: str) -> Any:
    """A scheduler and workers in this process, without network addresses.

    Dask's processes would listen on ports, where any client runs code as this user, and would import Python's modules
    from the current folder. Builds, which may crash, still run in separate processes: see `build_here`.
    """
    import distributed

    class Scheduler(distributed.Scheduler):  # type: ignore[misc]
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Serves no pages for browsers."""

    class DaskWorker(distributed.Worker):  # type: ignore[misc]
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Serves no pages for browsers."""

    options = {"protocol": "inproc://", "nthreads": 1, "memory_limit": 0, "local_directory": folder}
    return distributed.SpecCluster(
        scheduler={"cls": Scheduler, "options": {"protocol": "inproc://", "dashboard": False}},
        workers={number: {"cls": DaskWorker, "options": options} for number in range(workers)},
        silence_logs=logging.CRITICAL,  # failures are reported with their meshes
    )


def _outcomes(
    client: Any, run: str, jobs: list[Job], plan: Plan, timeout: float | None, fail_fast: bool
) -> Iterator[Outcome]:
    from distributed import as_completed

    # On a retry, an existing field was written by the lost worker.
    # Other machines have other current folders.
    settings = [
        replace(
            each,
            skip_existing=each.skip_existing or not each.force,
            previous=each.previous and str(Path(each.previous).absolute()),
        )
        for each in plan.settings
    ]
    tasks = {
        client.submit(
            build_here,
            run,
            _absolute(job),
            settings,
            plan.share,
            timeout,
            key=f"sdfcli-{run}-{k}",
            retries=RETRIES,
        ): job
        for k, job in enumerate(jobs)
    }
    try:
        for task in as_completed(tasks):
            job = tasks.pop(task)
            try:
                outcome = task.result()
            except Exception as error:
                message = f"{job.mesh}: the cluster gave up: {type(error).__name__}: {error}"
                outcome = failure(*job, SdfError(message))
            yield _as_named(outcome, job)
            if fail_fast and outcome["exit_code"]:
                break
    finally:
        client.cancel(list(tasks))


def _absolute(job: Job) -> Job:
    return Job(*(path if is_remote(path) else str(Path(path).absolute()) for path in job))


def _as_named(outcome: Outcome, job: Job) -> Outcome:
    """The outcome of a job with absolute paths, with its files as the user named them, in `error` and `notes`, too."""
    pairs = sorted(zip(map(shown, _absolute(job)), map(shown, job), strict=True), reverse=True)  # prefixes last

    def named(text: str) -> str:
        for absolute, name in pairs:
            text = text.replace(absolute, name)
        return text

    found = {**outcome, "input": shown(job.mesh), "output": shown(job.output)}
    if "error" in outcome:
        found["error"] = named(outcome["error"])
    if "notes" in outcome:
        found["notes"] = [named(note) for note in outcome["notes"]]
    return found


def _worker_name() -> Any:
    """Name of the Dask worker that runs this."""
    from distributed import get_worker

    return get_worker().name


def _settings_of(name: Any, settings: list[Settings]) -> Settings:
    """A worker's settings; the names of a local cluster's workers are numbers."""
    return settings[name % len(settings)] if isinstance(name, int) else settings[0]


_workers: dict[str, dict[Any, tuple[list[Worker], list[Worker]]]] = {}
"""Idle and busy child processes, by batch and Dask worker name."""


def build_here(run: str, job: Job, settings: list[Settings], share: int, timeout: float | None) -> Outcome:
    """Builds a mesh on a Dask worker, in a separate process, whose crash does not affect Dask."""
    name = _worker_name()
    mine = _settings_of(name, settings)
    idle, busy = _workers.setdefault(run, {}).setdefault(name, ([], []))
    worker = idle.pop() if idle else Worker(mine, share)
    busy.append(worker)
    try:
        return worker.build(job, timeout)
    finally:
        busy.remove(worker)
        if worker.alive:
            idle.append(worker)


_helpers: dict[tuple[str, Any], DeviceHelper] = {}
"""A mesh's trees, by build and Dask worker name."""
_making = threading.Lock()


def answer_here(run: str, mesh: Any, settings: list[Settings], points: Any, seed: Any) -> Answer:
    """Answers a chunk of a build's queries on a Dask worker."""
    name = _worker_name()
    with _making:
        if (run, name) not in _helpers:
            mine = _settings_of(name, settings)
            vertices, faces, domain, unit = mesh
            backend = select_backend(first_device(mine.device), mine.threads)
            _helpers[run, name] = DeviceHelper(backend, Mesh(vertices, faces).placed(domain, unit))
    backend = any_backend()
    distance, slot = _helpers[run, name](backend, backend.from_host(points), backend.from_host(seed))()
    return backend.to_host(distance), backend.to_host(slot)


def forget_here(run: str) -> None:
    """Frees a build's trees."""
    for key in [key for key in _helpers if key[0] == run]:
        del _helpers[key]


def end_here(run: str) -> None:
    """Ends a batch's child processes in this process's Dask workers."""
    parts = _workers.pop(run, {}).values()
    for worker in [worker for idle, _ in parts for worker in idle]:
        worker.dismiss()
    end_all([worker for _, busy in parts for worker in busy])


def _end(client: Any, run: str) -> None:
    with contextlib.suppress(Exception):  # a lost cluster has nothing left to end
        client.run(end_here, run)
