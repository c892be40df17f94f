"""What is set up for a GPU before CuPy is imported."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from sdfcli.cli.registry import COMMANDS
from sdfcli.startup import driver
from sdfcli.startup.cupy import device_count


class Driver:
    """Stands for libcuda: `devices` GPUs, whether it was initialised, and the numbers of those whose contexts were
    made."""

    def __init__(self, devices: int) -> None:
        self.devices, self.initialised, self.made = devices, False, list[int]()
        self.others = threading.enumerate()

    def wait(self) -> None:
        """Until the threads have ended that were started since."""
        for thread in threading.enumerate():
            if thread not in self.others:
                thread.join()

    def cuInit(self, flags: int) -> int:  # noqa: N802
        self.initialised = True
        return 0 if self.devices else 100

    def cuDeviceGet(self, device: Any, number: int) -> int:  # noqa: N802
        device._obj.value = 10 + number
        return 0 if number < self.devices else 101

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.devices
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:  # noqa: N802
        self.made.append(device.value)
        return 0


Install = Callable[[Driver], Driver]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts CuPy and a driver in their places."""

    def install(library: Driver) -> Driver:
        monkeypatch.setattr(driver, "find_spec", lambda name: object())
        monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
        return library

    return install


@pytest.mark.parametrize(
    ("device", "devices", "made"),
    [
        ("auto", 2, [10]),
        ("cuda", 2, [10]),
        ("cuda:1", 2, [11]),
        ("cuda:2", 2, []),
        ("cpu", 2, []),
        ("cuda:0,1", 2, [10, 11]),
        ("cuda:1,2", 2, [11]),
        ("nonsense", 2, []),
        ("auto", 0, []),
    ],
)
def test_the_context_of_the_device(installed: Install, device: str, devices: int, made: list[int]) -> None:
    library = installed(Driver(devices))
    driver.start(device)
    library.wait()
    assert sorted(library.made) == made
    assert library.initialised == (device not in ("cpu", "nonsense"))


@pytest.mark.parametrize(
    ("words", "woken"),
    [
        ("build a.ply", True),
        ("--debug build a.ply --device cuda:1", True),
        ("sequence a.ply b.ply", True),
        ("build a.ply --device cpu", False),
        ("build a.ply --device=cpu", False),
        ("build --help", False),
        ("info a.h5", False),
        ("--version", False),
        ("", False),
    ],
)
def test_a_command_line_that_may_use_a_gpu_wakes_the_driver(
    installed: Install, monkeypatch: pytest.MonkeyPatch, words: str, woken: bool
) -> None:
    library = installed(Driver(1))
    for present in (False, True):
        monkeypatch.setattr(driver, "present", lambda present=present: present)
        driver.wake(words.split())
        library.wait()
        assert library.initialised == (woken and present)


def test_users_are_commands() -> None:
    assert set(COMMANDS) >= driver.USERS


@pytest.mark.parametrize("devices", [0, 1, 3])
def test_the_number_of_devices(installed: Install, devices: int) -> None:
    installed(Driver(devices))
    assert driver.device_count() == devices


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr(driver, "find_spec", lambda name: object())
    monkeypatch.setattr(ctypes, "CDLL", missing)
    driver._make_context(0)
    assert driver.device_count() == 0


def test_without_cupy(installed: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    library = installed(Driver(1))
    monkeypatch.setattr(driver, "find_spec", lambda name: None)
    driver.start("auto")
    library.wait()
    assert (driver.device_count(), library.initialised) == (0, False)


@pytest.mark.gpu
def test_the_driver_and_cupy_count_alike() -> None:
    assert driver.device_count() == device_count() > 0


def test_the_user_decides_how_arrays_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_ACCELERATORS", "cub")
    driver.without_cub()
    assert driver.os.environ["CUPY_ACCELERATORS"] == "cub"
    monkeypatch.delenv("CUPY_ACCELERATORS")
    driver.without_cub()
    assert driver.os.environ["CUPY_ACCELERATORS"] == ""


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("None", 0), ("7", 7), ("'text'", 5)])
def test_leaving(code: str, expected: int) -> None:
    """The process ends at once, what was printed is there, and nothing else of Python runs."""
    program = f"""
import atexit, sys
from sdfcli.startup import driver
atexit.register(print, "the end")
print("printed")
driver.exit_fast({code})
print("and more")
sys.exit(5)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, text=True)
    printed = ["printed"] if expected != 5 else ["printed", "and more", "the end"]
    assert (ended.stdout.splitlines(), ended.returncode) == (printed, expected)


def test_leaving_what_dask_has_started() -> None:
    program = """
import atexit, sys
from sdfcli.startup import driver
sys.modules["distributed"] = sys
atexit.register(print, "the end")
driver.exit_fast(0)
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "the end\n"


def test_leaving_where_nobody_reads() -> None:
    program = """
import os, sys
from sdfcli.startup import driver
read, write = os.pipe()
os.close(read)
sys.stdout = os.fdopen(write, "w")
print("lost")
driver.exit_fast(0)
os._exit(6)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 6


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed")
def test_linear_algebra_of_cupyx_is_loaded_when_it_is_touched() -> None:
    """In a process of its own: here it may be loaded already."""
    program = """
import sys
import threading
from collections.abc import Callable
from importlib.util import _LazyModule
from sdfcli.startup.cupy import device_count, import_cupy
import_cupy()
import cupyx.scipy.special
assert type(sys.modules["cupyx.linalg"]) is _LazyModule
assert "cupyx.scipy.sparse" not in sys.modules
import cupyx.linalg
assert callable(cupyx.linalg.invh) and callable(cupyx.linalg.sparse.lschol)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_auto_falls_back_where_cupy_and_the_driver_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.backend import select
    from sdfcli.startup import cupy

    monkeypatch.setattr(driver, "device_count", lambda: 1)
    monkeypatch.setattr(cupy, "device_count", lambda: 0)
    assert select.device_names("auto") == ["cpu"]


def test_the_end_with_closed_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.delitem(sys.modules, "distributed", raising=False)  # other tests may have imported it
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(os, "_exit", codes.append)
    driver.exit_fast(6)
    assert codes == [6]
