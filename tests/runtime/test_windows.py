"""What Windows lacks is not needed: the package's modules are imported, and used, in a process that has no more.

Windows itself is not at hand. What it does otherwise with open files is imitated: they are neither renamed nor removed,
and folders are not opened.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trimesh

import sdfcli
import shapes

LACKS = """
import os, signal, sys, types

# Imported before: their own choice for this machine.
import ctypes, h5py, json, lxml.etree, multiprocessing, numpy, numpy.lib.format, PIL.Image, random, secrets, shutil
import subprocess, tempfile, trimesh, typer, rich.console, rich.progress
import concurrent.futures, http.client, unittest.mock, urllib.request, zipfile
import trimesh.exchange.load, trimesh.visual
try:
    import scipy.spatial
except ImportError:
    pass
from pathlib import Path

for name in ("fcntl", "resource", "pwd", "grp", "termios", "syslog"):
    sys.modules[name] = None
MODULES = {
    os: "O_TMPFILE O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC fork fchmod sysconf sched_getaffinity mkfifo getuid "
    "geteuid killpg setsid setpgid wait3 statvfs getpgid posix_spawn register_at_fork",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGPIPE pthread_kill pthread_sigmask alarm setitimer",
}
for module, names in MODULES.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.supports_dir_fd = set()
sys.platform = "win32"
os.O_BINARY, os.O_TEMPORARY = 0, 1 << 40
sys.modules["psutil"] = types.SimpleNamespace(
    virtual_memory=lambda: types.SimpleNamespace(available=4 << 30),
    Process=lambda: types.SimpleNamespace(memory_info=lambda: types.SimpleNamespace(rss=1 << 20)),
)

# Open files: by descriptor, whoever opened them.
temporary = {}
plain_open, plain_close = os.open, os.close


def opened(path, flags, mode=0o777, *, dir_fd=None):
    assert dir_fd is None
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied")
    number = plain_open(path, flags & ~os.O_TEMPORARY, mode)
    if flags & os.O_TEMPORARY:
        temporary[number] = os.path.abspath(path)
    return number


def closed(number):
    plain_close(number)
    if number in temporary:
        os_unlink(temporary.pop(number))


def in_use(path):
    found = os.path.realpath(path)
    numbers = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return any(os.path.realpath(number) == found for number in numbers)


def guarded(function, lists=1, replaces=True):
    def run(*paths, src_dir_fd=None, dst_dir_fd=None, dir_fd=None, **options):
        assert src_dir_fd is None and dst_dir_fd is None and dir_fd is None
        for path in paths:
            if os.path.lexists(path) and in_use(path):
                raise PermissionError(13, f"used by a process: {path}")
        if not replaces and os.path.lexists(paths[1]):
            raise FileExistsError(17, "File exists")
        return function(*paths, **options)

    return run


os_unlink = os.unlink
os.open, os.close = opened, closed
os.replace, os.rename = guarded(os.replace), guarded(os.rename, replaces=False)
os.unlink, os.remove = guarded(os.unlink), guarded(os.remove)
real_fsync = os.fsync


def fsync(number):
    import _io

    with open(f"/proc/self/fdinfo/{number}") as file:
        flags = int(next(line.split()[1] for line in file if line.startswith("flags")), 8)
    assert flags & 3, "Windows syncs no file that was opened for reading"
    real_fsync(number)


os.fsync = fsync
"""

MODULES = """
import importlib, pkgutil, sys
import sdfcli
optional = ("sdfcli.apps.bench", "sdfcli.__main__", "sdfcli.batch.worker", "sdfcli.torch", "sdfcli.jax", "sdfcli.warp",
            "sdfcli.mujoco.compiled", "sdfcli.mujoco.plugin_library")
sys.modules.update(dict.fromkeys(("torch", "jax", "warp", "mujoco")))  # importing them fails
for module in pkgutil.walk_packages(sdfcli.__path__, "sdfcli."):
    if not module.name.startswith(optional) and "libsdfcli" not in module.name:
        importlib.import_module(module.name)
"""

BUILD = """
import sys
from pathlib import Path
import sdfcli
from sdfcli.errors import UsageError

mesh, folder = map(Path, sys.argv[1:])
options = dict(device="cpu", depth=5, tolerance=5e-3)
field = sdfcli.build(mesh, **options)
field.save(folder / "a.h5")
field.save(folder / "a.h5", force=True)
try:
    field.save(folder / "a.h5")
except UsageError:
    print(sdfcli.load(folder / "a.h5").content_sha256)

from sdfcli.runtime.parts import folder_of, kept_frames, parts_folder, read_part, write_part

path = folder / "a.seq"
try:
    with parts_folder(path, False, False) as parts:
        write_part(parts, 0, {"n": 0}, b"\\r\\n\\x1a")
        try:
            with parts_folder(path, True, False):
                raise AssertionError("locked")
        except UsageError:
            pass
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
assert kept_frames(path) == 1
with parts_folder(path, True, False) as parts:
    assert read_part(parts, 0) == ({"n": 0}, b"\\r\\n\\x1a")
    write_part(parts, 0, {"n": 0}, b"again")
    assert read_part(parts, 0) == ({"n": 0}, b"again")
assert not folder_of(path).exists()
"""


def without(code: str, *words: object) -> str:
    run = [sys.executable, "-c", LACKS + code, *map(str, words)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by Linux's means")


def test_imports() -> None:
    without(MODULES)


def test_files(tmp_path: Path) -> None:
    mesh, folder = tmp_path / "ball.ply", tmp_path / "out"
    folder.mkdir()
    trimesh.Trimesh(*shapes.icosphere(3), process=False).export(mesh)
    hashed = without(BUILD, mesh, folder).strip()
    assert hashed == sdfcli.build(mesh, device="cpu", depth=5, tolerance=5e-3).content_sha256
    assert os.listdir(folder) == ["a.h5"]
