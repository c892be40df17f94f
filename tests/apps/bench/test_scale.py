"""The benchmark of growth: larger meshes, their builds, and exponents."""

from __future__ import annotations

import numpy as np
import pytest

import shapes
from conftest import ROOT
from sdfcli.apps.bench.scale import PARTS, Row, check_scales, copied, exponents, measure, subdivided
from sdfcli.backend import Backend
from sdfcli.errors import SdfError, UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import face_normals

TORUS = ROOT / "sample_meshes" / "torus.obj"


def area(vertices: np.typing.NDArray[np.float64], faces: np.typing.NDArray[np.int64]) -> float:
    return float(np.linalg.norm(face_normals(vertices[faces].reshape(-1, 9)), axis=1).sum()) / 2


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9])
def test_copies_are_shells_beside_each_other(count: int) -> None:
    vertices, faces = shapes.torus(12, 6)
    larger = copied(vertices, faces, count)
    mesh = make_mesh(*larger)
    assert len(mesh.faces) == count * len(faces)
    assert mesh.health.shells == count
    assert mesh.health.open_edges == 0
    boxes = np.array([(part.min(axis=0), part.max(axis=0)) for part in larger[0].reshape(count, -1, 3)])
    for a in range(count):
        for b in range(a):
            assert ((boxes[a, 0] > boxes[b, 1]) | (boxes[b, 0] > boxes[a, 1])).any()


@pytest.mark.parametrize("times", [0, 1, 3])
def test_subdivision_is_the_same_surface(times: int) -> None:
    shape = shapes.torus(12, 6)
    larger = subdivided(*shape, times)
    assert len(larger[1]) == 4**times * len(shape[1])
    assert make_mesh(*larger).health.watertight
    assert area(*larger) == pytest.approx(area(*shape))


def test_builds(cpu: Backend) -> None:
    rows = list(measure(str(TORUS), [1, 4], cpu, ["--device", "cpu", "--depth", "3"]))
    assert [row.made for row in rows] == ["given", "copies", "subdivided"]
    given, *larger = rows
    for row in larger:
        assert row.triangles == 4 * given.triangles
        assert row.file_bytes > 3 * given.file_bytes
    for row in rows:
        assert sum(row.stages.values()) < row.seconds
        assert list(row.stages) == list(PARTS)
        assert row.host_bytes > 1e7
        assert row.device_bytes is None
    assert exponents(rows).keys() == {"copies", "subdivided"}


def test_a_build_that_fails(cpu: Backend) -> None:
    with pytest.raises(SdfError, match=r"the build failed: .*--depth"):
        list(measure(str(TORUS), [1], cpu, ["--depth", "99"]))


def test_exponents_of_laws() -> None:
    rows = [
        Row(made, n, 1.0, 3e-6 * n**1.5, {"load": 2.0 * n, "check": 0.0}, 1, 1, 1, 100 + 0 * n, None)
        for made, n in (("given", 10), ("copies", 80), ("copies", 1000), ("subdivided", 40))
    ]
    for row in rows:
        row.stages.update({name: 7.0 for name in PARTS if name not in row.stages})
    found = exponents(rows)
    for made in ("copies", "subdivided"):
        assert found[made]["seconds"] == pytest.approx(1.5)
        assert found[made]["load"] == pytest.approx(1)
        assert found[made]["host_bytes"] == pytest.approx(0, abs=1e-9)
        assert not {"check", "device_bytes"} & found[made].keys()
    assert exponents(rows[:1]) == {}
    assert exponents(rows[:3]).keys() == {"copies"}


@pytest.mark.parametrize("scale", [0, -1, 1.5, float("nan"), float("inf")])
def test_wrong_scales(scale: float) -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        check_scales([scale])
