"""The service by which processes share a GPU, with a program in its place that writes down how it is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sdfcli.batch import pool
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.errors import DeviceError, InputError, SdfError
from sdfcli.runtime import mps

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

pytestmark = pytest.mark.skipif(os.name == "nt", reason="MPS is for Linux")

STARTS = 'echo "start $*" >> "$CALLS"; touch "$CUDA_MPS_PIPE_DIRECTORY/control"'
ENDS = 'echo "said $(cat)" >> "$CALLS"'


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the program was called with, line by line; and no service of the system."""
    monkeypatch.setattr(mps, "SYSTEM_PIPES", str(tmp_path / "none"))
    monkeypatch.delenv(mps.PIPES, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    return tmp_path / "calls"


def program(folder: Path, starts: str = STARTS) -> None:
    path = folder / mps.PROGRAM
    path.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then {starts}; else {ENDS}; fi\n')
    path.chmod(0o755)


def ended(calls: Path) -> bool:
    """Whether the service was told to end, and has left no folder, within some minutes."""
    for _ in range(15_000):
        if calls.exists() and "said quit" in calls.read_text() and not list((calls.parent / "temporary").iterdir()):
            return True
        time.sleep(0.02)
    return False


def test_a_service_of_our_own(calls: Path) -> None:
    program(calls.parent)
    assert mps.is_there()
    with mps.service(3) as found:
        folder = Path(found[mps.PIPES])
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "control").exists()
        assert found[mps.CLIENTS] == "3"
        assert calls.read_text() == "start -d\n"
    assert ended(calls)


def test_a_service_whose_user_is_killed(calls: Path) -> None:
    program(calls.parent)
    code = (
        "import sys, time\n"
        "from sdfcli.runtime import mps\n"
        "mps.SYSTEM_PIPES = sys.argv[1]\n"
        "with mps.service(3):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(calls.parent / "none")], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ended(calls)


@pytest.mark.parametrize("starts", ["exit 1", "exec sleep 600"])
def test_a_service_that_does_not_start(starts: str, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "STARTING", 0.5)
    program(calls.parent, starts)
    with mps.service(3) as found:
        assert found == {}
    assert ended(calls)


def test_a_service_that_runs_already(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(calls.parent)
    (calls.parent / "none").mkdir()
    (calls.parent / "none" / "control").touch()
    with mps.service(3) as found:
        assert (found, mps.is_there()) == ({}, True)
    monkeypatch.setattr(mps, "SYSTEM_PIPES", str(calls.parent / "other"))
    monkeypatch.setenv(mps.PIPES, str(calls.parent))
    with mps.service(3) as found:
        assert (found, mps.is_there()) == ({}, True)
    assert not calls.exists()


@pytest.mark.parametrize(("told", "clients"), [("3", 3), ("", None), ("0", None), ("x", None)])
def test_how_many_share_a_service(told: str, clients: int | None, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mps.CLIENTS, told)
    assert mps.clients() == 1
    monkeypatch.setenv(mps.PIPES, str(calls.parent))
    assert mps.clients() == clients


@pytest.mark.gpu
@pytest.mark.parametrize("told", ["", "5"])
def test_grids_of_all_processes_fit_together(
    told: str, gpu: CudaBackend, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = gpu._load("sdf_octree_grow")[2]
    monkeypatch.setenv(mps.PIPES, str(calls.parent))
    monkeypatch.setenv(mps.CLIENTS, told)
    shared = type(gpu)()
    assert shared.grids == bool(told)
    if told:
        assert 0 < 5 * shared._load("sdf_octree_grow")[2] <= alone


def test_no_program(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(calls.parent)
    monkeypatch.chdir(calls.parent)
    monkeypatch.setenv("PATH", ".")  # a program of the current folder is not one
    assert not mps.is_there()
    with mps.service(3) as found:
        assert found == {}


class SharingWorker:
    """A worker without a process: meshes named `crash` fail, all others too where one of the service has crashed."""

    begun: list[bool]
    broken: bool
    error: SdfError = SdfError("CUDA error")

    def __init__(self, settings: Settings, share: int, service: dict[str, str]) -> None:
        self.service, self.alive = service, True
        self.begun.append(bool(service))

    def build(self, job: Job, timeout: float | None) -> Outcome:
        if job.mesh == "bad":
            return failure(*job, InputError("bad"))
        if job.mesh == "crash" or (self.service and self.broken):
            type(self).broken = True
            return failure(*job, self.error)
        return {"input": job.mesh, "output": job.output, "exit_code": 0}

    def dismiss(self) -> None:
        self.alive = False

    end = dismiss


@pytest.mark.parametrize("workers", [2, 4])
def test_a_service_that_nobody_can_use(workers: int, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(calls.parent)
    monkeypatch.setattr(pool, "Worker", SharingWorker)
    monkeypatch.setattr(SharingWorker, "error", DeviceError("there is no CUDA device 0"))
    SharingWorker.begun, SharingWorker.broken = [], True
    settings = [Settings(device="cuda:0")] * workers
    jobs = [Job(f"{number}", f"{number}.h5") for number in range(20)]
    outcomes = list(pool.build_all(jobs, pool.Plan(settings, workers), None, False))
    assert [each["exit_code"] for each in outcomes] == [0] * 20


@pytest.mark.parametrize("workers", [2, 4])
def test_a_crash_costs_its_mesh_alone(workers: int, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(calls.parent)
    monkeypatch.setattr(pool, "Worker", SharingWorker)
    SharingWorker.begun, SharingWorker.broken = [], False
    jobs = [Job(f"{number}", f"{number}.h5") for number in range(20)]
    jobs[3:3] = [Job("crash", "crash.h5"), Job("bad", "bad.h5")]
    settings = [Settings(device="cuda:0")] * workers
    outcomes = {each["input"]: each for each in pool.build_all(jobs, pool.Plan(settings, workers), None, False)}
    assert len(outcomes) == len(jobs)
    assert {name for name, each in outcomes.items() if each["exit_code"]} == {"crash", "bad"}
    assert SharingWorker.begun[0]
    assert not SharingWorker.begun[-1]
    assert ended(calls)


@pytest.mark.parametrize(("device", "workers"), [("cpu", 2), ("cuda:0", 1)])
def test_no_service_is_needed(device: str, workers: int, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(calls.parent)
    monkeypatch.setattr(pool, "Worker", SharingWorker)
    SharingWorker.begun, SharingWorker.broken = [], False
    settings = [Settings(device=device)] * workers
    jobs = [Job("a", "a.h5"), Job("b", "b.h5")]
    assert len(list(pool.build_all(jobs, pool.Plan(settings, workers), None, False))) == 2
    assert not any(SharingWorker.begun)
    assert not calls.exists()
