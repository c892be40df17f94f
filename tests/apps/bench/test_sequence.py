"""The benchmark of moving meshes: every way once, and the same fields by all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.apps.bench import sequence
from sdfcli.apps.bench.sequence import WAYS, Row, compare, torus
from sdfcli.errors import CheckFailedError, UsageError
from sdfcli.mesh.load import make_mesh

FRAMES, EACH = 2, 1


@pytest.fixture(scope="module")
def built() -> tuple[list[Row], list[set[str]]]:
    """The rows for a small mesh, and the hashes of the fields in the files of each way."""
    hashes: list[set[str]] = []
    ways = sequence._ways

    def watched(files: sequence.FrameFiles, *given: Any) -> sequence.Iterator[sequence.Way]:
        out = given[-1]
        for way, file, run in ways(files, *given):

            def then(run: Callable[[], list[float]] = run, file: bool = file) -> list[float]:
                ends, found = run(), set()
                if file:
                    for path in out.parent.rglob("*.h5"):
                        found |= fields_of(path)
                        path.unlink()
                    hashes.append(found)
                return ends

            yield way, file, then

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_ways", watched)
        patch.setattr(sequence, "EACH", EACH)
        rows = list(compare(make_mesh(*shapes.torus(12, 8)), FRAMES, 3, device="cpu", threads=1))
    return rows, hashes


def fields_of(path: Path) -> set[str]:
    """The hashes of the fields in a file."""
    from sdfcli.sequence.file import is_sequence

    if not is_sequence(path):
        return {sdfcli.load(path).content_sha256}
    frames = sdfcli.load_sequence(path)
    return {frames.at(k).content_sha256 for k in range(len(frames))}


@pytest.mark.nightly
def test_every_way(built: tuple[list[Row], list[set[str]]]) -> None:
    rows, _ = built
    names = [(way, True) for way in WAYS[:2]] + [(way, file) for way in WAYS[2:] for file in (True, False)]
    expected = [(way, octree, file) for octree in ("adaptive", "bvh") for way, file in names]
    assert [(row.way, row.octree, row.file) for row in rows] == expected
    for row in rows:
        single = row.way == WAYS[0]
        assert row.frames == (EACH if single else FRAMES)
        assert row.per_second == pytest.approx(row.frames / row.seconds)
        assert (row.steady is None) == single
        if row.steady is not None:
            assert row.steady > (row.frames - 1) / row.seconds


@pytest.mark.nightly
def test_all_ways_build_the_same_fields(built: tuple[list[Row], list[set[str]]]) -> None:
    _, hashes = built
    for single, *others in (hashes[:4], hashes[4:]):
        assert len(single) == EACH
        assert all(len(each) == FRAMES and single < each and each == others[0] for each in others)


def test_a_closed_mesh_of_seventy_thousand_triangles() -> None:
    mesh = torus()
    assert len(mesh.faces) == 69_696
    assert mesh.health.watertight


def test_fewer_than_two_frames() -> None:
    with pytest.raises(UsageError, match="--frames 1"):
        next(compare(make_mesh(*shapes.cube()), 1, 3))


def test_a_build_that_fails(tmp_path: Path) -> None:
    with pytest.raises(CheckFailedError, match=r"nothing\.ply"):
        sequence._build(str(tmp_path / "nothing.ply"), "-o", str(tmp_path / "x.h5"))


def test_frames_are_those_of_a_cycle(tmp_path: Path) -> None:
    mesh = make_mesh(*shapes.cube())
    files = sequence._write_frames(mesh, 3, tmp_path / "frames")
    assert [Path(file).name for file in files.files] == ["frame0000.ply", "frame0001.ply", "frame0002.ply"]
    step = sdfcli.build(files[1], depth=2, device="cpu").domain.origin - mesh.domain.origin
    assert np.abs(step).max() < sequence.AMOUNT * mesh.diagonal
