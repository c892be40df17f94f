"""Users' scripts under mypy: a right one passes `--strict`, and each line of a wrong one fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sdfcli

RIGHT = '''\
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import sdfcli
from sdfcli.errors import InputError, SdfError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.query.contacts import Contacts

Floats = npt.NDArray[np.float64]


def built(mesh: Path) -> sdfcli.Field:
    try:
        field = sdfcli.build(mesh, tolerance=1e-3, max_memory="2G", domain="0,0,0,1", nearest=True, progress=print)
    except InputError as error:
        raise SystemExit(error.exit_code) from error
    return sdfcli.build("a.ply", max_error=0.1, previous=field, domain=(0, 0, 0, 1), max_memory=2**30, threads=None)


def used(field: sdfcli.Field, points: Floats) -> None:
    assert_type(field.sample(points), Floats)
    assert_type(field.sample([0, 0, 0]), Floats)
    assert_type(field.sample_with_gradient(points), tuple[Floats, Floats])
    assert_type(field.max_error, float)
    assert_type(field.bounds, Floats)
    assert_type(field.grid(64).distance, npt.NDArray[np.float32])
    assert_type(field.export("a.vti", resolution=64, force=True), Path)
    assert_type(sdfcli.verify(field, "a.ply", samples=1000).passed, bool)
    assert_type(sdfcli.check("a.ply")["open_edges"], int)
    assert_type(sdfcli.estimate("a.ply", tolerance=1e-4).fits, bool)
    assert_type(sdfcli.MeshDistance("a.ply").closest(points), tuple[Floats, npt.NDArray[np.int64]])
    assert_type(sdfcli.isosurface(field, iso=0.1), Surface)
    assert_type(sdfcli.contacts(field, "a.ply", np.eye(4)), Contacts)
    assert_type(sdfcli.nearest_neighbours(points, points, 3), tuple[Floats, npt.NDArray[np.int64]])
    assert_type(
        sdfcli.neighbours_within(points, points, 0.1), tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]
    )
    assert_type(sdfcli.render(field, view=(30, 20)), npt.NDArray[np.uint8])
    assert_type(sdfcli.load_sequence("a.h5").at(0), sdfcli.Field)
    for state in sdfcli.flow(field, (0, 0, 0, 1, 1, 1), 0.1, time=1.0):
        assert_type(state.position, Floats)


class Scan:
    """A mesh of the user's own class."""

    vertices: Floats
    faces: npt.NDArray[np.int32]


def moving(scans: list[Scan]) -> Iterator[sdfcli.Field]:
    yield sdfcli.build(scans[0])
    yield sdfcli.build((scans[0].vertices, scans[0].faces))
    yield from sdfcli.build_sequence(scans, tolerance=1e-2, cold=True)


failed: type[Exception] = SdfError
'''

WRONG = """\
sdfcli.bild("a.ply")
sdfcli.build("a.ply", tolernce=1)
sdfcli.build("a.ply", tolerance="fine")
sdfcli.build("a.ply", depth=8.5)
sdfcli.build("a.ply", max_memory=[2, "G"])
sdfcli.build("a.ply", keep_going=True)
sdfcli.build(3)
sdfcli.build(field)
sdfcli.build_sequence(["a.ply"], tolernce=1)
sdfcli.estimate("a.ply", tolernce=1)
sdfcli.flow(field, (0, 0, 0, 1, 1, 1), 0.1, tme=1)
sdfcli.check("a.ply")["verdit"]
sdfcli.verify("a.h5")
sdfcli.verify("a.h5", "a.ply").pased
sdfcli.MeshDistance("a.ply").closest()
sdfcli.contacts(field, "a.ply", np.eye(4), margn=1)
field.sampel([0, 0, 0])
field.sample(field)
field.sample([0, 0, 0]).distance
field.max_error.upper()
field.grid(resolution="64")
field.export("a.vti", resolution="64")
field.info = {}
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """The lines with errors, by script."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(f"import numpy as np\nimport sdfcli\nfield = sdfcli.load('a.h5')\n{WRONG}")
    words = ["--strict", "--config-file=", f"--cache-dir={folder}", "right.py", "wrong.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for name, line in re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE):
        assert name in found, done.stdout
        found[name].add(int(line))
    print(done.stdout, done.stderr)
    assert done.returncode == 1, done.stdout + done.stderr
    return found


def test_the_package_says_that_it_has_types() -> None:
    assert Path(sdfcli.__file__).with_name("py.typed").exists()


def test_a_right_script_passes(errors: dict[str, set[int]]) -> None:
    assert errors["right.py"] == set()


@pytest.mark.parametrize("line", range(len(WRONG.splitlines())), ids=WRONG.splitlines())
def test_each_line_of_a_wrong_script_fails(errors: dict[str, set[int]], line: int) -> None:
    assert 4 + line in errors["wrong.py"]
