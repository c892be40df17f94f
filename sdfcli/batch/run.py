"""Builds or checks of one or many meshes, in this process, in others, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sdfcli.backend.select import device_names
from sdfcli.batch import pool
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.batch.shards import Shard, packed
from sdfcli.errors import SdfError, UsageError
from sdfcli.runtime import mps, remote
from sdfcli.runtime.files import identities, refuse_existing, refuse_input
from sdfcli.runtime.hardware import available_threads

if TYPE_CHECKING:
    from sdfcli.pipeline import Helpers

Progress = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Given a mesh, returns a context for its build that yields a function to call with each stage."""


@dataclass(frozen=True)
class BuildRequest:
    """Meshes to build, or check, with the same settings.

    jobs       meshes, each with its output; "" for a check.
    settings   common settings.
    workers    process count; None: by cores, memory and devices.
    timeout    seconds per mesh; None: no limit.
    fail_fast  start no mesh after the first failure.
    scheduler  Dask's address, or `local`; None: processes on this machine.
    raises     raise the error of a mesh built in this process; otherwise it becomes the outcome.
    shards     shards of samples, which have all the jobs; none for an output per mesh.
    """

    jobs: list[Job]
    settings: Settings
    workers: int | None = None
    timeout: float | None = None
    fail_fast: bool = False
    scheduler: str | None = None
    raises: bool = False
    shards: list[Shard] = field(default_factory=list)

    @property
    def here(self) -> bool:
        """Whether this process builds: starting another one takes longer than many a single mesh. A scheduler's workers
        then help."""
        return len(self.jobs) == 1 and self.timeout is None

    @property
    def inputs(self) -> list[str]:
        """Files to read."""
        previous = self.settings.previous
        return [job.mesh for job in self.jobs] + ([] if previous is None else [previous])


def run(request: BuildRequest, progress: Progress) -> Iterator[Outcome]:
    """Outcomes in order of completion. Builds start with the first iteration.

    Raises UsageError for impossible settings and outputs, DeviceError for a missing device, and the build's errors if
    `raises` is set. Otherwise the outcome of a single mesh tells an impossible output, too.
    """
    outcomes = _here(request, progress) if request.here else _elsewhere(request)
    if not request.settings.check:
        try:
            _make_room(request)
        except SdfError as error:
            if request.raises or not request.here:
                raise
            return iter([failure(*request.jobs[0], error)])
    return packed(outcomes, request.shards) if request.shards else outcomes


def _here(request: BuildRequest, progress: Progress) -> Iterator[Outcome]:
    from sdfcli.batch.job import build_into, check_mesh

    (job,) = request.jobs
    try:
        with progress(job.mesh) as update, _query_pool(request) as helpers:
            if request.settings.check:
                outcome = check_mesh(job.mesh, request.settings)
            else:
                outcome = build_into(job.mesh, job.output, request.settings, update, helpers)
    except SdfError as error:
        if request.raises:
            raise
        outcome = failure(*job, error)
    yield outcome


def _query_pool(request: BuildRequest) -> AbstractContextManager[Helpers | None]:
    """Query helpers for a single mesh; None without a scheduler."""
    if request.scheduler is None:
        return nullcontext()
    from sdfcli.batch import cluster

    return cluster.query_pool(request.scheduler, _plan(request, available_threads()))


def _plan(request: BuildRequest, tasks: int) -> pool.Plan:
    """Plans workers for a number of tasks."""
    settings = request.settings
    if request.scheduler not in (None, "local"):
        return pool.Plan([settings], 1)
    most = pool.PER_SHARED_GPU if request.scheduler is None and mps.is_there() else pool.PER_GPU
    return pool.plan(settings, device_names(settings.device), tasks, request.workers, most)


def _elsewhere(request: BuildRequest) -> Iterator[Outcome]:
    from sdfcli.batch import cluster
    from sdfcli.field.store import load

    settings, jobs = request.settings, request.jobs
    if settings.threads is not None and settings.threads < 1:
        raise UsageError(f"--threads {settings.threads}: use 1 or more")
    if settings.previous is not None:
        load(settings.previous)
    workers = _plan(request, len(jobs))
    if request.scheduler is None:
        return pool.build_all(jobs, workers, request.timeout, request.fail_fast)
    return cluster.build_all(jobs, workers, request.scheduler, request.timeout, request.fail_fast)


def _make_room(request: BuildRequest) -> None:
    """Creates the output folders. Raises UsageError if a file may not be written."""
    taken = identities(request.inputs)
    force, skip_existing = request.settings.force, request.settings.skip_existing
    for shard in request.shards:
        shard.check(force, skip_existing)
    for job in request.jobs:
        if remote.is_remote(job.output):
            if skip_existing:
                raise UsageError("--skip-existing: is for files of this machine, not for fields elsewhere")
            remote.refuse_existing(job.output)
            continue
        refuse_input(Path(job.output), taken)
        if not (skip_existing and os.path.isfile(job.output)):  # an existing field is compared first
            refuse_existing(Path(job.output), force)
    here = [job for job in request.jobs if not remote.is_remote(job.output)]
    for folder in {Path(job.output).parent: None for job in here}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be created: {error.strerror}") from error
