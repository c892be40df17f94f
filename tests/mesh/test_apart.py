"""Readers in processes of their own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import step_files
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Settings
from sdfcli.batch.pool import Worker
from sdfcli.errors import DeviceError, InputError, OutOfMemoryError
from sdfcli.mesh.formats import apart
from sdfcli.mesh.load import load_mesh

STUCK = """import ctypes
with open({pipe!r}, "w") as pipe:
    print("begun", file=pipe, flush=True)
    ctypes.PyDLL(None).pause()  # and holds Python's lock
"""


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pipe that says when the reader of `a.step` has begun, and ends when that ends: never by itself."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "cascadio.py").write_text(STUCK.format(pipe=str(tmp_path / "pipe")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"), prepend=os.pathsep)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "library"), *sys.path])
    (tmp_path / "a.step").write_text(step_files.cylinder(1.0, 1.0, [(0.0, 0.0, 0.0)]))
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield pipe
    os.close(pipe)


def awaited(pipe: int) -> bytes:
    """What comes out of a pipe, empty at its end."""
    assert select.select([pipe], [], [], 60)[0]
    return os.read(pipe, 100)


linux = pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell of a parent's end")


@linux
def test_a_reader_dies_with_its_parent(stuck: int, tmp_path: Path) -> None:
    """However that ends, and whatever the reader does."""
    program = f"from sdfcli.mesh.load import load_mesh; load_mesh({str(tmp_path / 'a.step')!r})"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        assert awaited(stuck) == b"begun\n"
        parent.kill()
    assert awaited(stuck) == b""


@linux
def test_a_reader_dies_with_a_worker(stuck: int, tmp_path: Path) -> None:
    """As --timeout ends it."""
    worker = Worker(Settings(device="cpu", threads=1))
    with ThreadPoolExecutor() as pool:
        outcome = pool.submit(worker.build, Job(str(tmp_path / "a.step"), str(tmp_path / "a.h5")))
        assert awaited(stuck) == b"begun\n"
        worker.end()
        assert outcome.result()["exit_code"]
    assert awaited(stuck) == b""


@linux
def test_a_reader_has_a_limit_of_processor_time(stuck: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library" / "cascadio.py").write_text("while True:\n    pass\n")
    monkeypatch.setattr(apart, "SECONDS", 1)
    with pytest.raises(InputError, match=r"a\.step: its reader took more than 1 s of processor time"):
        load_mesh(tmp_path / "a.step")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LIBRARIES", dict.fromkeys(apart.LIBRARIES, "no_such_library"))
    for suffix, extra in apart.EXTRAS.items():
        path = tmp_path / f"a{suffix}"
        path.write_text("")
        with pytest.raises(DeviceError, match=rf"not installed: pip install 'sdfcli\[{extra}\]'"):
            load_mesh(path)


def test_a_reader_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.step").write_text("")
    monkeypatch.setattr(apart.processes, "python", lambda module: ["sh", "-c", "kill -SEGV $$"])
    with pytest.raises(InputError, match=r"a\.step: its reader, cascadio, ended \(-11\)"):
        load_mesh(tmp_path / "a.step")


def test_a_reader_that_runs_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As C++ says it when it ends."""
    (tmp_path / "a.step").write_text("")
    said = "echo \"terminate called after throwing an instance of 'std::bad_alloc'\" >&2; kill -ABRT $$"
    monkeypatch.setattr(apart.processes, "python", lambda module: ["sh", "-c", said])
    with pytest.raises(OutOfMemoryError, match=r"a\.step: its reader ran out of memory"):
        load_mesh(tmp_path / "a.step")
