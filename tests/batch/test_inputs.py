"""Which meshes a command line names, and the files that their fields go into."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdfcli.batch.inputs import Job, find_fields, find_jobs
from sdfcli.errors import InputError, UsageError


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """one.ply, notes.txt, parts/{b.STL, a.obj, .hidden.ply}, parts/deep/a.ply, parts/.git/x.ply, empty/."""
    for name in (
        "one.ply",
        "notes.txt",
        "parts/b.STL",
        "parts/a.obj",
        "parts/.hidden.ply",
        "parts/deep/a.ply",
        "parts/.git/x.ply",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "output", "recursive", "jobs"),
    [
        (["one.ply"], None, False, [("one.ply", "one.h5")]),
        (["one.ply"], "x.h5", False, [("one.ply", "x.h5")]),
        (["./one.ply"], "x.h5", False, [("./one.ply", "x.h5")]),
        (["./parts"], None, False, [("parts/a.obj", "a.h5"), ("parts/b.STL", "b.h5")]),
        (["one.ply"], "new/", False, [("one.ply", "new/one.h5")]),
        (["one.ply"], "empty", False, [("one.ply", "empty/one.h5")]),
        (["notes.txt"], None, False, [("notes.txt", "notes.h5")]),
        (["missing.ply"], None, False, [("missing.ply", "missing.h5")]),
        (["parts"], "out", False, [("parts/a.obj", "out/a.h5"), ("parts/b.STL", "out/b.h5")]),
        (
            ["parts", "one.ply"],
            "out",
            True,
            [
                ("parts/a.obj", "out/a.h5"),
                ("parts/b.STL", "out/b.h5"),
                ("parts/deep/a.ply", "out/deep/a.h5"),
                ("one.ply", "out/one.h5"),
            ],
        ),
        (["parts/deep"], None, False, [("parts/deep/a.ply", "a.h5")]),
        (["one.ply", "parts/../one.ply"], "out", False, [("one.ply", "out/one.h5")]),
        (["*/*.obj"], None, False, [("parts/a.obj", "a.h5")]),
        (["*/*.obj"], "out", False, [("parts/a.obj", "out/a.h5")]),
        (["parts/[ab].*"], "out", False, [("parts/a.obj", "out/a.h5"), ("parts/b.STL", "out/b.h5")]),
        (["**/*.ply"], "out", False, [("one.ply", "out/one.h5"), ("parts/deep/a.ply", "out/a.h5")]),
        (["-"], "out", False, [("one.ply", "out/one.h5")]),
        (["one.ply"], "x_{name}.h5", False, [("one.ply", "x_one.h5")]),
        (["one.ply"], "s3://a/x_{name}.h5", False, [("one.ply", "s3://a/x_one.h5")]),
        (["one.ply"], "/x_{name}.h5", False, [("one.ply", "/x_one.h5")]),
        (["parts"], "{name}/", False, [("parts/a.obj", "a/a.h5"), ("parts/b.STL", "b/b.h5")]),
        (
            ["parts"],
            "out/x_{name}.h5",
            True,
            [
                ("parts/a.obj", "out/x_a.h5"),
                ("parts/b.STL", "out/x_b.h5"),
                ("parts/deep/a.ply", "out/deep/x_a.h5"),
            ],
        ),
        (["-", "parts/deep"], "out", False, [("one.ply", "out/one.h5"), ("parts/deep/a.ply", "out/a.h5")]),
    ],
)
def test_what_is_named(
    tree: Path, named: list[str], output: str | None, recursive: bool, jobs: list[tuple[str, str]]
) -> None:
    assert find_jobs(named, ["one.ply"], output, recursive) == [Job(*job) for job in jobs]


@pytest.mark.parametrize(
    ("named", "recursive", "words"),
    [
        (["one.ply", "parts/../one.obj"], False, ["one.ply", "one.obj", "both", "out/one.h5"]),
        (["parts", "parts/deep"], False, ["parts/a.obj", "parts/deep/a.ply", "both"]),
        (["parts", "parts/deep"], True, ["parts/a.obj", "parts/deep/a.ply", "both"]),
        (["empty"], True, ["empty", "no meshes"]),
        (["empty"], False, ["empty", "no meshes", "-r"]),
        (["-"], False, ["no names on standard input"]),
        ([""], False, ["empty name"]),
    ],
)
def test_what_is_refused(tree: Path, named: list[str], recursive: bool, words: list[str]) -> None:
    with pytest.raises(UsageError) as refusal:
        find_jobs(named, [], "out", recursive)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("mesh", ["one.ply", "missing.ply"])
def test_an_output_without_an_ending_may_be_a_file_or_a_folder(tree: Path, mesh: str) -> None:
    """For one mesh, as a shell's pattern may give: the name would be a folder for two."""
    with pytest.raises(UsageError, match=r"out: a file or a folder\? use out.h5, or out/"):
        find_jobs([mesh], [], "out", False)
    with pytest.raises(UsageError, match=r"use s3://a/b.npz, or s3://a/b/"):
        find_jobs([mesh], [], "s3://a/b", False, (".npz",))


def test_a_pattern_needs_a_folder_whatever_it_matches(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"out\.h5: the outputs of a folder, or of several meshes, need a folder"):
        find_jobs(["*/*.obj"], [], "out.h5", False)


@pytest.mark.parametrize("output", [None, "out", "out.h5", "out/"])
def test_a_pattern_without_matches(tree: Path, output: str | None) -> None:
    """Among other names it stays, as in a shell, and no file has it."""
    with pytest.raises(InputError, match=r"^parts/\*\.stl: no file matches this pattern$"):
        find_jobs(["parts/*.stl"], [], output, False)
    with pytest.raises(InputError, match=r"^a\*, b\*: no file matches these patterns$"):
        find_fields(["a*", "b*"])
    jobs = [Job("parts/*.stl", "*.h5"), Job("one.ply", "one.h5")]
    assert find_jobs(["parts/*.stl", "one.ply"], [], None, False) == jobs


def test_a_file_named_like_a_pattern(tree: Path) -> None:
    (tree / "part[1].ply").touch()
    assert find_jobs(["part[1].ply"], [], None, False) == [Job("part[1].ply", "part[1].h5")]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "a.ply").touch()
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "link").symlink_to(tmp_path / "meshes")
    with pytest.raises(UsageError, match="in this folder; links to folders are not followed"):
        find_jobs([str(tmp_path / "named")], [], None, recursive=True)
