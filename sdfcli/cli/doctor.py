"""`sdfcli doctor`: the installation, its devices and settings, for a bug report."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli import __version__
from sdfcli.cli import options, settings
from sdfcli.cli.output import human_bytes, print_error, print_json, print_table, progress
from sdfcli.cli.records import Amount, Count, Json, Line, Record
from sdfcli.cli.registry import BUILT_IN, plugins
from sdfcli.errors import CheckFailedError, SdfError
from sdfcli.runtime.hardware import available_threads
from sdfcli.startup import driver

if TYPE_CHECKING:
    from sdfcli.backend import Backend

NEEDED = ("numpy", "h5py", "trimesh", "pillow", "typer", "rich")
"""Packages that sdfcli requires on all systems."""
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
"""CuPy's packages, of which one is installed; the last one is conda's."""
EXTRAS = {
    "cluster": ("distributed",),
    "vdb": ("numcodecs",),
    "draco": ("DracoPy",),
    "step": ("cascadio",),
    "remote": ("fsspec", "s3fs"),
    "solid": ("manifold3d",),
    "usd": ("usd-core",),
    "torch": ("torch",),
    "jax": ("jax",),
    "mujoco": ("mujoco",),
}
"""Packages of each other extra."""
OTHERS = ("CUDA_VISIBLE_DEVICES", "CUPY_ACCELERATORS", "CUPY_CACHE_DIR", "NO_COLOR", "OMP_NUM_THREADS", "TMPDIR")
"""Environment variables shared with other programs."""
DEPTH = 4
"""Octree depth of the test build."""
CORNERS = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
FACES = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
"""An octahedron, the mesh of the test build."""


class TestedDevice(Record):
    """A device, and a small build on it."""

    device: Annotated[str, "`cpu` or `cuda:N`"]
    model: str
    free_bytes: Annotated[Count, "free memory"]
    seconds: Annotated[Amount | None, "of a small build; null if it failed"]
    content_sha256: Annotated[str | None, "the field's checksum; null if the build failed"]
    error: Annotated[str | None, "why it failed"]


class Folders(Record):
    """Folders that sdfcli uses."""

    installation: str
    temporary: Annotated[str | None, "null if none is writable"]
    kernel_cache: Annotated[str, "for compiled GPU kernels"]


class Diagnosed(Line, title="doctor"):
    """One line."""

    sdfcli: Annotated[str, "version of sdfcli"]
    python: Annotated[str, "version of Python"]
    platform: Annotated[str, "operating system and processor"]
    packages: Annotated[dict[str, str | None], "versions of required packages, and of the extras'; null if missing"]
    kernel_library: Annotated[str, "file with the compiled CPU kernels"]
    folders: Annotated[Folders, "`installation`, `temporary` (null if none is writable), `kernel_cache`"]
    config: Annotated[str | None, "[settings file](settings.md#file); null without one"]
    variables: Annotated[dict[str, str], "environment variables that change sdfcli's behaviour"]
    tested: Annotated[
        list[TestedDevice],
        "`device` (`cpu` or `cuda:N`), `model`, `free_bytes`; and of a small build `seconds`, the field's "
        "`content_sha256`, and `error` if it failed",
    ]
    problems: Annotated[list[str], "faults, with remedies"]


def doctor(context: typer.Context, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Report versions, extras, folders and settings, and test each device: for a bug report.

    A small field is built on each device; all must give the same bits. The exit code is 6 if anything is at fault.

    Example: sdfcli doctor --json
    """
    found = _facts(context)
    if not (json or quiet):
        print_table(f"sdfcli {__version__}", _rows(found))
    with progress("testing", json or quiet) as update:
        devices = [_tested(name, update) for name in _devices()]
    problems = [*_faults(found), *_device_faults(devices)]
    if json:
        print_json(Diagnosed(**found, tested=devices, problems=problems))
    elif not quiet:
        print_table("devices", [(each.device, _result(each)) for each in devices], apart=True)
    for problem in problems:
        print_error(CheckFailedError(problem))
    if problems:
        raise typer.Exit(CheckFailedError.exit_code)


def _facts(context: Any) -> Json:
    """A `Diagnosed` record's values, without devices and problems."""
    from sdfcli.backend.cpu.library import library_path
    from sdfcli.startup.cubins import cache_folder

    try:
        temporary: str | None = tempfile.gettempdir()
    except FileNotFoundError:
        temporary = None
    config = settings.config_file(context.parent.params.get("config"))
    return {
        "sdfcli": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.platform()}, {platform.machine()}",
        "packages": {name: _version(name) for names in (NEEDED, CUPY, *EXTRAS.values()) for name in names},
        "kernel_library": str(library_path()),
        "folders": Folders(
            installation=str(Path(__file__).parents[1]), temporary=temporary, kernel_cache=str(cache_folder())
        ),
        "config": None if config is None else str(config),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if value and (name in OTHERS or name.startswith(settings.PREFIX))
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _rows(found: Json) -> Iterator[tuple[str, str]]:
    versions, folders = found["packages"], found["folders"]
    yield "Python", f"{found['python']}, {sys.executable}"
    yield "system", found["platform"]
    yield "packages", ", ".join(f"{name} {versions[name] or 'missing'}" for name in NEEDED)
    cupy = [f"{name} {versions[name]}" for name in CUPY if versions[name]]
    yield "CuPy", ", ".join(cupy) or "missing: pip install 'sdfcli[cuda13]' (or [cuda12])"
    for extra, names in EXTRAS.items():
        here = ", ".join(f"{name} {versions[name]}" for name in names)
        yield f"[{extra}]", here if all(map(versions.get, names)) else f"missing: pip install 'sdfcli[{extra}]'"
    yield "installation", folders.installation
    yield "kernels", found["kernel_library"]
    yield "temporary", f"{folders.temporary}, {_free(folders.temporary)}" if folders.temporary else "none is writable"
    yield "kernel cache", f"{folders.kernel_cache}, {_content(Path(folders.kernel_cache))}"
    yield "settings", found["config"] or "no file"
    yield from found["variables"].items()


def _free(folder: str) -> str:
    return f"{human_bytes(shutil.disk_usage(folder).free)} free"


def _content(folder: Path) -> str:
    sizes = [each.stat().st_size for each in folder.rglob("*") if each.is_file()]
    return f"{len(sizes):,} files, {human_bytes(sum(sizes))}" if folder.is_dir() else "not there yet"


def _devices() -> list[str]:
    return ["cpu", *(f"cuda:{number}" for number in range(driver.device_count()))]


def _tested(name: str, update: Callable[[str], None]) -> TestedDevice:
    """Builds a small field on a device."""
    from sdfcli.backend import select_backend
    from sdfcli.pipeline import build

    update(name)
    report: Json = {"device": name, "model": "unknown", "free_bytes": 0, "seconds": None, "content_sha256": None}
    try:
        backend = select_backend(name)
        report |= {"model": _model(backend, name), "free_bytes": backend.memory_free()}
        start = time.perf_counter()
        field = build((CORNERS, FACES), device=name, depth=DEPTH)
        report |= {"seconds": round(time.perf_counter() - start, 4), "content_sha256": field.content_sha256}
    except Exception as error:  # whatever is wrong with the device: this is for the report
        return TestedDevice(**report, error=" ".join(f"{type(error).__name__}: {error}".split()))
    return TestedDevice(**report, error=None)


def _model(backend: Backend, name: str) -> str:
    if name != "cpu":
        cuda, number = backend.xp.cuda, int(name.partition(":")[2])
        model, made_for = cuda.runtime.getDeviceProperties(number)["name"].decode(), cuda.Device(number)
        driven, used = cuda.runtime.driverGetVersion(), cuda.runtime.runtimeGetVersion()
        versions = [f"{each // 1000}.{each % 1000 // 10}" for each in (driven, used)]
        return f"{model}, compute capability {made_for.compute_capability}, CUDA {versions[1]}, driver {versions[0]}"
    threads = available_threads()
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {threads} threads"
    return f"{platform.processor() or platform.machine()}, {threads} threads"


def _result(device: TestedDevice) -> str:
    result = f"FAILED: {device.error}" if device.error else f"works, a small field in {device.seconds:.2f} s"
    return f"{device.model}, {human_bytes(device.free_bytes)} free: {result}"


def _faults(found: Json) -> Iterator[str]:
    """Faults of the installation and its settings."""
    if found["folders"].temporary is None:
        yield "no temporary folder is writable: set TMPDIR"
    elif not shutil.disk_usage(found["folders"].temporary).free:
        yield f"{found['folders'].temporary}: the disk is full: free some space, or set TMPDIR"
    if driver.present() and find_spec("cupy") is None:
        yield "an NVIDIA driver is installed, but not CuPy: pip install 'sdfcli[cuda13]' (or [cuda12])"
    yield from _settings_faults(found)


def _settings_faults(found: Json) -> Iterator[str]:
    """Faults of the settings file and of variables, and other packages' commands that cannot be imported."""
    from sdfcli.cli.app import command_of

    commands = {entry.name: command_of(entry) for entry in BUILT_IN.values()}
    untested = []
    for entry in plugins()[0]:
        try:
            command = commands[entry.name] = command_of(entry)
        except SdfError as error:
            command = None
            yield str(error)
        if command is None or hasattr(command, "commands"):  # a group's sub-commands have options of their own
            untested.append(settings.head_of(entry.name))
    if found["config"] is not None:
        yield from settings.file_faults(Path(found["config"]), commands)
    if fault := settings.threads_fault():
        yield fault
    values = (settings.variable_faults(*each, found["variables"]) for each in commands.items())
    yield from dict.fromkeys(fault for faults in values for fault in faults)
    known = set(settings.OTHERS).union(*(settings.variables_of(*each) for each in commands.items()))
    ours = [name for name in found["variables"] if name.startswith(settings.PREFIX)]
    unknown = [name for name in ours if name not in {*known, *settings.TESTS}]
    for name in unknown:
        if not name.startswith(tuple(untested)):
            yield settings.no_such_variable(name, sorted(known))


def _device_faults(devices: list[TestedDevice]) -> Iterator[str]:
    for each in devices:
        if each.error:
            yield f"{each.device}: {each.error}"
    sums = {each.device: each.content_sha256 for each in devices if each.content_sha256}
    if len(set(sums.values())) > 1:
        yield f"fields differ: {', '.join(f'{name} {value[:8]}' for name, value in sums.items())}; please report this"
