"""Builds distributed by Dask, on any number of machines that share their files."""

from __future__ import annotations

import contextlib
import gc
import logging
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.batch.pool import Plan, Worker
from sdfcli.errors import DeviceError, SdfError
from sdfcli.runtime.child import end_all
from sdfcli.runtime.remote import is_remote, shown

RETRIES = 2
"""Retries of a failed task; Dask runs a task whose worker is lost up to three times."""

PATIENCE = 10
"""Seconds to wait for a scheduler."""


def build_all(jobs: list[Job], plan: Plan, scheduler: str, timeout: float | None, fail_fast: bool) -> Iterator[Outcome]:
    """The outcomes of meshes, in order of completion. With `fail_fast` none is begun after the first failure.

    scheduler  the address of one, `tcp://host:8786`, whose workers take the first settings of the plan; or `local`:
               as many workers on this machine as the plan has settings, one for each.

    Raises DeviceError where Dask is not installed or the scheduler does not answer.
    """
    try:
        import distributed
    except ImportError as error:
        raise DeviceError("Dask is not installed: pip install 'sdfcli[cluster]', or leave out --scheduler") from error
    logging.getLogger("distributed").setLevel(logging.ERROR)  # the loss of a worker is nothing to worry about
    fault: DeviceError | None = None
    with contextlib.ExitStack() as stack:
        try:
            address: Any = scheduler
            if scheduler == "local":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdfcli-"))
                address = stack.enter_context(_local_cluster(len(plan.settings), folder))
            client = stack.enter_context(distributed.Client(address, timeout=PATIENCE))
        except Exception as error:  # Dask has no kind of its own for what is wrong with an address or a key
            fault = DeviceError(f"--scheduler {scheduler}: no scheduler answers there: {error}")
        if fault:
            gc.collect()  # a client that could not start: its finaliser within the start of another would wait for ever
            raise fault
        run = secrets.token_hex(8)
        stack.callback(_end, client, run)
        yield from _outcomes(client, run, jobs, plan, timeout, fail_fast)


def _local_cluster(workers: int, folder: str) -> Any:
    """A scheduler and workers in this process, without network addresses.

    Dask's processes would listen on ports, where any client runs code as this user, and would import Python's modules
    from the current folder. What may crash is in processes of its own here, too: see `build_here`.
    """
    import distributed

    class Scheduler(distributed.Scheduler):  # type: ignore[misc]
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Pages for browsers are not served."""

    class DaskWorker(distributed.Worker):  # type: ignore[misc]
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Pages for browsers are not served."""

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

    # On a retry, an existing field was written by the worker that was lost.
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
            Job(*(path if is_remote(path) else str(Path(path).absolute()) for path in job)),
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
            yield {**outcome, "input": shown(job.mesh), "output": shown(job.output)}
            if fail_fast and outcome["exit_code"]:
                break
    finally:
        client.cancel(list(tasks))


_workers: dict[str, dict[Any, tuple[list[Worker], list[Worker]]]] = {}
"""The idle and the busy processes of each batch that this process has a part in, by the name of the worker of Dask."""


def build_here(run: str, job: Job, settings: list[Settings], share: int, timeout: float | None) -> Outcome:
    """Builds a mesh on a worker of Dask, in a process beside it: what crashes there is no loss to Dask."""
    from distributed import get_worker

    name = get_worker().name
    mine = settings[name % len(settings)] if isinstance(name, int) else settings[0]
    idle, busy = _workers.setdefault(run, {}).setdefault(name, ([], []))
    worker = idle.pop() if idle else Worker(mine, share)
    busy.append(worker)
    try:
        return worker.build(job, timeout)
    finally:
        busy.remove(worker)
        if worker.alive:
            idle.append(worker)


def end_here(run: str) -> None:
    """Ends a batch's processes of the Dask workers of this process."""
    parts = _workers.pop(run, {}).values()
    for worker in [worker for idle, _ in parts for worker in idle]:
        worker.dismiss()
    end_all([worker for _, busy in parts for worker in busy])


def _end(client: Any, run: str) -> None:
    with contextlib.suppress(Exception):  # a cluster that is gone has nothing left to end
        client.run(end_here, run)
