"""tools/same_bits.py finds a field that is another one."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
import same_bits
import trimesh


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["same_bits.py", *map(str, words)])
    try:
        same_bits.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_a_folder_of_meshes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [tmp_path / "old.csv", tmp_path / "new.csv"]
    for table, size in zip(tables, (1.0, 1.25), strict=True):
        folder = tmp_path / table.stem / "meshes"
        (folder / "more").mkdir(parents=True)
        trimesh.creation.box((1, 1, 1)).export(folder / "box.ply")
        trimesh.creation.box((1, 1, size)).export(folder / "more" / "other.stl")
        (folder / "empty.obj").write_text("# nothing\n")
        (folder / "README.md").touch()
        assert run(monkeypatch, "write", table, folder, "--threads", "1,2", "--tolerance", "0.01") == 0

    rows = list(csv.DictReader(tables[0].open()))
    assert [row["mesh"] for row in rows[::4]] == ["meshes/box.ply", "meshes/empty.obj", "meshes/more/other.stl"]
    assert len(rows) == 3 * 2 * 2
    assert {row["result"] for row in rows} == {"good", "refused 3"}
    assert [len(row["file_sha256"]) for row in rows[::4]] == [64, 0, 64]

    assert run(monkeypatch, "compare", tables[0], tables[0]) == 0
    capsys.readouterr()
    assert run(monkeypatch, "compare", *tables) == 1
    printed = capsys.readouterr().out.splitlines()
    named = [line for line in printed if not line.startswith("  ")]
    assert named == [
        "different meshes/more/other.stl adaptive 0.01",
        "different meshes/more/other.stl bvh 0.01",
        "12 and 12 rows: 4 same, 2 different",
    ]
    assert printed[1].startswith("  OLD  cpu 1, cpu 2:  good  ")


def row(**changed: str) -> same_bits.Row:
    usual = {"mesh": "box", "octree": "bvh", "tolerance": "1", "device": "cpu", "threads": "1", "result": "good"}
    return {**usual, "content_sha256": "a", "file_sha256": "b", "message": "", **changed}


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ([row()], [row(threads="2", device="cuda:0", message="else")], 0),
        ([row()], [row(), row(threads="7", file_sha256="c")], 1),
        ([row()], [row(content_sha256="c")], 1),
        ([row()], [row(result="refused 3")], 1),
        ([row()], [row(), row(mesh="ball")], 1),
        ([row(), row(mesh="ball")], [row()], 1),
        ([], [], 1),
    ],
)
def test_every_row_of_a_mesh_is_the_same(old: list[same_bits.Row], new: list[same_bits.Row], status: int) -> None:
    assert same_bits.compare(old, new) == status
