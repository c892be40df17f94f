"""What sdfcli starts and imports: its own package, and nothing of the current folder."""

from __future__ import annotations

import os
import pickle
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sdfcli
from sdfcli.backend.cpu import CpuBackend, library
from sdfcli.errors import DeviceError
from sdfcli.runtime import processes

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(sdfcli.__file__).resolve().parent
TRAP = "import os\nopen(os.environ['MARKER'], 'a').write(__file__ + chr(10))\n"
LIBRARIES = ("sdfcli", "numpy", "h5py", "trimesh", "typer", "rich", "networkx", "lxml", "PIL", "numcodecs")
LIBRARIES += ("distributed", "dask", "tornado", "cloudpickle", "cupy", "charset_normalizer", "sitecustomize")
PROGRAMS = ("ncu", "nvcc", "nvidia-smi", "git", "addr2line", "gcc", "cc", "ld", "ldconfig", "objdump", "uname", "file")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program `sdfcli`, as pip writes it: Python looks into its folder, not into the current one."""
    path = tmp_path / "bin" / "sdfcli"
    path.parent.mkdir()
    path.write_text("import sys\nfrom sdfcli.__main__ import main\nsys.exit(main())\n")
    return path


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the traps that were stepped into, a line each."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)  # Python has it from 3.11 on; and users do not
    monkeypatch.setenv("MARKER", str(tmp_path / "marker"))
    (tmp_path / "marker").touch()
    return tmp_path / "marker"


@pytest.fixture
def hostile(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has a module of every name that Python and libraries have, and programs that PATH finds."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *LIBRARIES}:
        (folder / f"{name}.py").write_text(TRAP)
    for name in PROGRAMS:
        (folder / name).write_text('#!/bin/sh\necho "$0" >> "$MARKER"\n')
        (folder / name).chmod(0o755)
    for name in ("a.obj", "b.obj"):
        shutil.copy(ROOT / "sample_meshes" / "torus.obj", folder / name)
    (folder / "points.txt").write_text("0 0 0\n")
    sdfcli.build(folder / "a.obj", depth=5, device="cpu").save(folder / "field.h5")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "../hostile", os.environ["PATH"]]))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "build a.obj b.obj -o out --depth 5",
        "build a.obj -o out.h5 --depth 5 --timeout 100",
        "build a.obj b.obj -o out --depth 5 --scheduler local -j 2",
        "build a.obj -o out.h5 --depth 5",
        "check a.obj",
        "info field.h5",
        "query field.h5 points.txt",
        "extract field.h5 -o out.ply --cells 8",
        "render field.h5 -o out.png --size 64x64",
        "slice field.h5 -o out.png --size 64",
        "export field.h5 out.nvdb --resolution 4",
        "verify field.h5 --mesh a.obj --samples 100 --tolerance 0.1",
        "bench a.obj --repeat 1 --depth 4",
    ],
)
def test_nothing_of_the_current_folder_runs(words: str, hostile: Path, marker: Path, program: Path) -> None:
    command, *rest = words.split()
    if "local" in rest:
        pytest.importorskip("distributed")
    devices = ["--device", "cpu"] if command in ("build", "verify", "bench", "extract", "render") else []
    done = subprocess.run(
        [sys.executable, program, command, *rest, *devices], capture_output=True, text=True, check=False
    )
    assert marker.read_text() == ""
    assert done.returncode == 0, done.stderr


def test_no_program_of_the_current_folder_is_started(hostile: Path, program: Path) -> None:
    words = [sys.executable, program, "profile", "a.obj", "--dry-run"]
    line = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    ncu = shlex.split(line)[0]
    assert ncu == "ncu" or (os.path.isabs(ncu) and hostile not in Path(ncu).resolve().parents)


def test_the_traps_work(hostile: Path, marker: Path) -> None:
    subprocess.run([sys.executable, "-c", "import queue"], check=True)
    subprocess.run("./ncu", check=True)
    assert marker.read_text().splitlines() == [str(hostile / "queue.py"), "./ncu"]


def test_workers_run_the_package_that_started_them(
    tmp_path: Path, marker: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that PYTHONPATH puts before the installed one."""
    if "_editable_skbc_sdfcli" in sys.modules:
        pytest.skip("an editable install comes before PYTHONPATH")
    copy = tmp_path / "tree" / "sdfcli"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "batch" / "worker.py").open("a") as file:
        file.write(f"\n\n{TRAP}")
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    mesh = ROOT / "sample_meshes" / "torus.obj"
    words = [sys.executable, program, "build", mesh, "-o", tmp_path / "a.h5", "--timeout", "100", "--depth", "4"]
    subprocess.run([*words, "--device", "cpu"], check=True, capture_output=True)
    assert marker.read_text().splitlines() == [str(copy / "batch" / "worker.py")]


def test_workers_are_as_isolated_as_what_started_them(
    hostile: Path, marker: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    words = [sys.executable, "-I", program, "build", "a.obj", "b.obj", "-o", "out", "--depth", "4", "--device", "cpu"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert marker.read_text() == ""
    assert done.returncode == 0, done.stderr


def test_a_path_without_the_current_folder() -> None:
    assert processes.without_current_folder("bin::/usr/bin:./x:/opt/a b:") == "/usr/bin:/opt/a b"
    for path in ("", ".", "::"):
        assert all(map(os.path.isabs, processes.without_current_folder(path).split(os.pathsep)))


# ---- The compiled kernels ----


def test_the_source_code_has_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = tmp_path / "sdfcli" / "backend"
    monkeypatch.setattr(library, "__file__", str(backend / "cpu" / "library.py"))
    monkeypatch.setattr(library, "library_path", lambda: backend / library.LIBRARY_NAME)
    with pytest.raises(DeviceError, match="; install the package with"):
        library.library.__wrapped__()
    (tmp_path / "sdfcli" / "kernels").mkdir(parents=True)
    (tmp_path / "sdfcli" / "kernels" / "CMakeLists.txt").touch()
    with pytest.raises(DeviceError, match=f"{tmp_path}/sdfcli is the source code.*in another folder"):
        library.library.__wrapped__()


def test_kernels_are_not_looked_for_in_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kernels.so", "./kernels.so"):
        monkeypatch.setenv("SDFCLI_KERNEL_LIBRARY", name)
        with pytest.raises(DeviceError, match="absolute path"):
            library.library_path()


def test_a_backend_goes_where_a_pickle_goes(cpu: CpuBackend) -> None:
    assert pickle.loads(pickle.dumps(cpu)).threads == cpu.threads


def test_python_started_in_the_source_tree_runs_the_installed_package(tmp_path: Path) -> None:
    """Its first folder on sys.path is a tree without compiled kernels."""
    (tmp_path / "sdfcli").mkdir()
    shutil.copy(Path(sdfcli.__file__), tmp_path / "sdfcli")
    script = "import sdfcli; print(sdfcli.__version__, sdfcli.__path__[0])"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    version, folder = done.stdout.split()
    assert (version, Path(folder)) == (sdfcli.__version__, Path(sdfcli.__file__).parent)
