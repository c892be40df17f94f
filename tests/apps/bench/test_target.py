"""What the profiler runs, and which of it the profiler sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trimesh

import backends
from sdfcli.apps.bench import ncu, target
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import DeviceError

backend = backends.backend


class Log:
    """A workload that writes down what it is asked for."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def query(self, variant: str) -> None:
        self.events.append(variant)

    def stages(self) -> dict[str, float]:
        self.events.append("whole")
        return {}

    @contextmanager
    def profiled(self) -> Iterator[None]:
        self.events.append("start")
        yield
        self.events.append("stop")


def profiled(log: Log, counted: int) -> list[str]:
    """Everything was asked for `counted` times between the start and the stop; returns what came before them."""
    start = log.events.index("start")
    assert log.events.count("start") == log.events.count("stop") == 1
    assert log.events[-1] == "stop"
    seen = log.events[start + 1 : -1]
    assert all(seen.count(name) == counted for name in seen)
    return log.events[:start]


@pytest.mark.parametrize(("skip", "count"), [(5, 10), (0, 1)])
def test_only_the_counted_launches_are_seen(skip: int, count: int, cpu: Backend, monkeypatch: Any) -> None:
    log = Log()
    monkeypatch.setattr(cpu, "profiled", log.profiled)
    target.run(log, cpu, skip, count)  # type: ignore[arg-type]
    before = profiled(log, count)
    assert {name: before.count(name) for name in before} == (dict.fromkeys(ncu.KERNELS, skip) if skip else {})
    assert len(log.events) == 2 + len(ncu.KERNELS) * (skip + count)


def test_the_whole_pipeline(cpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(cpu, "profiled", log.profiled)
    target.run(log, cpu, 2, 3, whole=True)  # type: ignore[arg-type]
    assert log.events == ["whole", "whole", "start", "whole", "whole", "whole", "stop"]


def test_every_backend_can_be_profiled(backend: Backend) -> None:
    log = Log()
    with backend.profiled():
        log.query("cct")
    assert log.events == ["cct"]


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Takes the place of the workload; the list fills with its arguments."""
    made: list[Any] = []

    class Made(Log):
        def __init__(self, mesh: Any, backend: Backend, points: str = "octree", depth: int = 9) -> None:
            super().__init__()
            made.append((len(mesh.faces), type(backend), points, depth, self))

    monkeypatch.setattr("sdfcli.apps.bench.workload.Workload", Made)
    return made


def test_the_command_that_ncu_is_given(workload: list[Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    mesh = Path("-ball.ply")
    trimesh.creation.icosphere(subdivisions=1).export(mesh)

    def arguments(kernels: str | None) -> list[str]:
        words = ncu.command("ncu", str(mesh), points="near", depth=7, device="cpu", skip=1, count=2, kernels=kernels)
        return words[words.index("sdfcli.apps.bench.target") + 1 :]

    target.main(arguments(None))
    [(faces, kind, points, depth, log)] = workload
    assert (faces, kind, points, depth) == (80, CpuBackend, "near", 7)
    assert log.events.count("fast") == 3
    target.main(arguments("octree"))
    assert workload[1][-1].events == ["whole"] * 3


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [(DeviceError("no such\n device"), 4, "no such device"), (MemoryError(), 5, "out of memory")],
)
def test_errors_are_one_line(
    error: Exception,
    code: int,
    says: str,
    workload: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(device: str) -> Backend:
        raise error

    monkeypatch.setattr("sdfcli.backend.select_backend", fail)
    with pytest.raises(SystemExit) as stopped:
        target.main(["mesh.ply"])
    assert stopped.value.code == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sdfcli: {says}")


def test_a_mesh_that_is_not_there(workload: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        target.main(["missing.ply", "--device", "cpu"])
    assert stopped.value.code == 3
    assert "missing.ply" in capsys.readouterr().err


def test_time_steps_of_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr("sdfcli.apps.flow.bench.FlowSteps.run", lambda self, count: steps.append(count))
    target.main(["flow:bucket", "--device", "cpu", "--skip", "2", "--count", "3"])
    assert steps == [2, 3]
