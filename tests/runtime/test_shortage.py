"""Where memory is short every command ends with exit code 5 and one line, before the system ends it."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import sdfcli
import shapes
from sdfcli.batch.messages import failure
from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.field import store
from sdfcli.mesh import load as mesh
from sdfcli.mesh.formats import readers
from sdfcli.query.point_files import open_points
from sdfcli.runtime import memory
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.memory import as_sdf_error, free_memory, is_shortage, require
from sdfcli.runtime.parts import write_part

MB = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    vertices, faces = shapes.torus(300, 150)
    with open(folder / "torus.obj", "w") as file:
        file.writelines(f"v {x} {y} {z}\n" for x, y, z in vertices)
        file.writelines(f"f {a} {b} {c}\n" for a, b, c in faces + 1)
    sdfcli.build((vertices, faces), device="cpu", tolerance=3e-4).save(folder / "torus.h5")
    return folder


COMMANDS = {
    "check": "check torus.obj",
    "build": "build torus.obj -o new.h5 --force -q --device cpu",
    "dry run": "build torus.obj --dry-run --device cpu",
    "skip existing": "build torus.obj -o torus.h5 --skip-existing --force --tolerance 3e-4 --device cpu",
    "extract": "extract torus.h5 -o new.stl --force -q --device cpu",
    "samples": "samples torus.obj -o new.npz --count 200000 --force -q --device cpu",
    "render": "render torus.h5 -o new.png --force --device cpu",
    "slice": "slice torus.h5 -o new.png --force",
    "query": "query torus.obj torus.obj -o new.npy --force --device cpu",
    "bench": "bench torus.obj --repeat 1 --depth 5 --device cpu",
}


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA], ids=["as", "data"])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_little_memory_is_said_in_one_line(folder: Path, command: str, kind: int) -> None:
    before = (folder / "torus.h5").read_bytes()
    codes = []
    for limit in (60 * MB, 95 * MB, 150 * MB):
        space = limit + (60 * MB if kind == resource.RLIMIT_AS else 0)
        done = subprocess.run(
            [sys.executable, "-m", "sdfcli", *COMMANDS[command].split()],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda space=space: resource.setrlimit(kind, (space, space)),
        )
        assert done.returncode in (0, 5), (limit, done.returncode, done.stderr)
        if done.returncode == 5:
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert "Traceback" not in done.stderr
        codes.append(done.returncode)
    assert codes[0] == 5
    assert (folder / "torus.h5").read_bytes() == before  # an intact field is not taken for a damaged one


def test_the_command_line_bounds_itself(tmp_path: Path) -> None:
    # Without a limit of the system's, an allocation beyond --max-memory fails.
    path = tmp_path / "ball.ply"
    shape = shapes.icosphere(6)
    trimesh.Trimesh(*shape, process=False).export(path)
    words = ["build", path, "--max-memory", "60M", "--device", "cpu", "-o", tmp_path / "o.h5"]
    done = subprocess.run([sys.executable, "-m", "sdfcli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "o.h5").exists()


def test_bounds_are_for_processes_of_our_own() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    memory.bound(10**6)  # nobody has said that this process is one
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_failed_allocation_is_no_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 2.57 MiB")

    path, field = tmp_path / "ball.obj", tmp_path / "ball.h5"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    sdfcli.build(shapes.icosphere(1), device="cpu", depth=3, tolerance=0.1).save(field)
    monkeypatch.setitem(readers.READERS, ".obj", fails)
    monkeypatch.setattr(store, "read", fails)
    for free, error in ((100 * MB, OutOfMemoryError), (10**12, InputError)):  # where there is plenty, the file lies
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        for read in (mesh.load_mesh, store.load):
            with pytest.raises(error, match="ball"):
                read(path if read is mesh.load_mesh else field)


def test_what_is_known_to_be_too_much_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is free, in all that reads files."""

    def too_much(*_: Any) -> Any:
        raise OutOfMemoryError("reading it takes too much")

    path = tmp_path / "ball.obj"
    path.write_text("v 0 0 0\n")
    monkeypatch.setitem(readers.READERS, ".obj", too_much)
    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    with pytest.raises(OutOfMemoryError, match=r"ball\.obj: reading it takes too much"):
        mesh.load_mesh(path)
    with pytest.raises(OutOfMemoryError, match=r"ball\.obj: reading it takes too much"), open_points(str(path)):
        pass


def test_reading_and_checking_are_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, faces = shapes.icosphere(5)
    path = tmp_path / "ball.obj"
    path.write_text(
        "".join(["v {} {} {}\n".format(*v) for v in vertices] + ["f {} {} {}\n".format(*f) for f in faces + 1])
    )
    monkeypatch.setattr(memory, "free_memory", lambda: MB)
    with pytest.raises(OutOfMemoryError, match=r"ball\.obj: reading it takes about \d+ MB of memory"):
        mesh.load_mesh(path)
    with pytest.raises(OutOfMemoryError, match="checking 20,480 triangles"):
        _ = mesh.make_mesh(vertices, faces).health


def test_shortages() -> None:
    wrapped = RuntimeError("x")
    wrapped.__cause__ = MemoryError()
    for error in (
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        wrapped,
        RuntimeError("can't start new thread"),
        SystemError("<built-in method reduce of numpy.ufunc object> returned NULL without setting an exception"),
    ):
        assert is_shortage(error)
    assert not is_shortage(ValueError("no such thing"))


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("bad.ply: no faces"), 3, "bad.ply: no faces"),
        (MemoryError("std::bad_alloc"), 5, "mesh.ply: out of memory: std::bad_alloc; try a smaller input"),
        (ValueError("no such thing"), 1, "mesh.ply: internal error: ValueError: no such thing"),
    ],
)
def test_every_exception_has_a_message_and_an_exit_code(error: Exception, code: int, message: str) -> None:
    known = as_sdf_error(error, "mesh.ply")
    assert known.exit_code == code
    assert str(known).startswith(message)
    outcome = failure("mesh.ply", "mesh.h5", known)
    assert (outcome["exit_code"], outcome["error"]) == (code, str(known))
    require(1, "nothing")
    assert free_memory() > 0


def test_memory_that_ends_while_a_file_is_written_is_no_fault_of_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(OutOfMemoryError, match=r"ball\.stl: out of memory"),
        written_whole(tmp_path / "ball.stl", False),
    ):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    assert not list(tmp_path.iterdir())


def test_memory_that_ends_while_a_part_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OutOfMemoryError, match=f"{tmp_path}: out of memory"):
        write_part(tmp_path, 0, {})


def test_an_error_is_told_with_the_memory_of_the_calls_that_failed() -> None:
    def fails(cause: BaseException | None) -> None:
        large = np.zeros(9)
        held.append(weakref.ref(large))
        raise MemoryError(len(large)) from cause

    held: list[weakref.ref[Any]] = []
    error: BaseException | None = None
    for _ in range(2):
        try:
            fails(error)
        except MemoryError as failed:
            error = failed
    assert all(large() is not None for large in held)
    memory.release_frames(error)
    assert [large() for large in held] == [None, None]


@pytest.mark.parametrize("free", [1_100, 1_600, 2_000, 2_200, 3_000])
def test_h5py_is_not_imported_where_memory_is_short(free: int) -> None:
    """free: kB of data. With about 2,000 its import may hang, or end the process. Python itself takes 1 MiB at once."""
    program = f"""
import resource
from sdfcli.errors import OutOfMemoryError
from sdfcli.field.store import is_level_set, load
from sdfcli.runtime import memory
from sdfcli.runtime.files import existing_file
is_level_set(existing_file({__file__!r}))  # these import modules and compile patterns at their first call
data = memory._mapped()[1] + {free} * 1000
resource.setrlimit(resource.RLIMIT_DATA, (data, data))
try: load({__file__!r})
except OutOfMemoryError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.startswith("importing h5py takes about 8 MB of memory")


@pytest.mark.parametrize("free", [8 * MB, 30 * MB, 60 * MB])
def test_trimesh_is_not_imported_where_memory_is_short(free: int) -> None:
    program = f"""
import resource
from sdfcli.errors import OutOfMemoryError
from sdfcli.runtime import memory
from sdfcli.runtime.libraries import import_trimesh
data = memory._mapped()[1] + {free}
resource.setrlimit(resource.RLIMIT_DATA, (data, data))
try: import_trimesh()
except OutOfMemoryError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.startswith("importing trimesh takes about 67 MB of memory")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not the GNU C library")
def test_threads_take_no_addresses_for_heaps_of_their_own() -> None:
    program = """
import resource, threading
from sdfcli.runtime import memory
resource.setrlimit(resource.RLIMIT_AS, (2**30, resource.RLIM_INFINITY))
memory.bound()
before, over = memory._mapped()[0], threading.Event()
threads = [threading.Thread(target=lambda: [bytearray(1000) for _ in range(1000)] and over.wait()) for _ in range(6)]
threading.stack_size(1 << 20)
for thread in threads: thread.start()
print(memory._mapped()[0] - before)
over.set()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40 * MB
