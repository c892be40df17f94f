"""Samples in tar files: their members, their bytes, and batches that go on."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import commands
import shapes
from sdfcli.batch.inputs import Job
from sdfcli.batch.shards import shards_of
from sdfcli.errors import InputError, UsageError

WORDS = ["--count", 300, "--device", "cpu", "--jobs", 1]


def run(folder: Path, *words: object) -> Any:
    return commands.run("samples", folder / "meshes", "-r", "-o", folder / "train", "--shard-size", 2, *WORDS, *words)


def statuses(done: Any) -> dict[str, str]:
    return {Path(each["input"]).name: each["status"] for each in commands.reports("samples", done.stdout)}


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as shard:
        return {each.name: shard.extractfile(each).read() for each in shard}  # type: ignore[union-attr]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five meshes, one of them broken, and one in a subfolder."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "big"))
    (tmp_path / "meshes" / "more").mkdir(parents=True)
    for name in ("a", "c.v2", "d", "more/a"):
        trimesh.Trimesh(*shapes.star(rng, 1), process=False).export(tmp_path / "meshes" / f"{name}.ply")
    (tmp_path / "meshes" / "b.obj").write_text("v 0 0 0\n")
    return tmp_path


def test_shards(folder: Path) -> None:
    """A loader takes consecutive members with the same name up to the first dot as one sample."""
    done = run(folder, "--json")
    assert done.returncode == InputError.exit_code
    train = folder / "train"
    assert sorted(path.name for path in train.iterdir()) == [f"train-00000{k}.tar" for k in range(3)]
    found = [list(members(train / f"train-00000{k}.tar")) for k in range(3)]
    keys = (["a"], ["c_v2", "d"], ["more/a"])
    assert found == [[f"{key}.{kind}" for key in each for kind in ("json", "npz")] for each in keys]
    outputs = {each["input"]: each["output"] for each in commands.reports("samples", done.stdout)}
    assert outputs[str(folder / "meshes" / "d.ply")] == str(train / "train-000001.tar")
    content = members(train / "train-000001.tar")
    alone = commands.run("samples", folder / "meshes" / "d.ply", "-o", folder / "d.npz", *WORDS)
    assert alone.returncode == 0
    assert content["d.npz"] == (folder / "d.npz").read_bytes()
    info = json.loads(content["d.json"])
    assert info == json.loads(str(np.load(io.BytesIO(content["d.npz"]))["info"]))
    with tarfile.open(train / "train-000001.tar") as shard:
        assert {(each.mtime, each.uid, each.gid, each.uname) for each in shard} == {(0, 0, 0, "")}


def test_going_on(folder: Path) -> None:
    """A complete shard stays, a broken mesh is tried again and then added, an interrupted run's parts are used."""
    run(folder)
    paths = sorted((folder / "train").iterdir())
    before = [path.read_bytes() for path in paths]
    again = statuses(run(folder, "--skip-existing", "--json"))
    assert again == {"a.ply": "skipped", "b.obj": "failed", "c.v2.ply": "skipped", "d.ply": "skipped"}
    assert [path.read_bytes() for path in paths] == before
    trimesh.Trimesh(*shapes.cube(), process=False).export(folder / "meshes" / "b.obj")
    assert statuses(run(folder, "--skip-existing", "--json"))["b.obj"] == "ok"
    assert list(members(paths[0])) == ["a.json", "a.npz", "b.json", "b.npz"]
    whole = [path.read_bytes() for path in paths]
    assert whole[1:] == before[1:]
    parts = folder / "train" / "train-000001.tar.parts"
    parts.mkdir()
    (parts / "d.npz").write_bytes(members(paths[1])["d.npz"])
    paths[1].unlink()
    assert statuses(run(folder, "--skip-existing", "--json"))["d.ply"] == "skipped"
    assert sorted((folder / "train").iterdir()) == paths
    assert [path.read_bytes() for path in paths] == whole
    assert run(folder, "--force").returncode == 0
    assert [path.read_bytes() for path in paths] == whole


def test_samples_of_other_parameters_do_not_stay(folder: Path) -> None:
    """With --force, a mesh that now fails is not kept from the earlier run."""
    run(folder)
    (folder / "meshes" / "d.ply").write_text("ply\n")
    assert statuses(run(folder, "--skip-existing", "--force", "--seed", 7, "--json"))["d.ply"] == "failed"
    assert list(members(folder / "train" / "train-000001.tar")) == ["c_v2.json", "c_v2.npz"]


def test_other_shards_stay(folder: Path) -> None:
    run(folder)
    paths = sorted((folder / "train").iterdir())
    before = [path.read_bytes() for path in paths]
    for words, says in (
        ([], "train-000000.tar: exists; use --force"),
        (
            ["--skip-existing", "--seed", 3],
            "train-000000.tar, a: exists, and has other parameters (seed 0, asked for 3)",
        ),
        (["--skip-existing", "--shard-size", 4], "train-000001.tar: exists, and has other meshes, as c_v2"),
    ):
        done = run(folder, *words)
        assert done.returncode == UsageError.exit_code
        assert says in done.stderr
        assert [path.read_bytes() for path in paths] == before
    paths[0].write_text("mine")
    done = run(folder, "--skip-existing")
    assert "exists, and is no shard" in done.stderr
    assert paths[0].read_text() == "mine"


def test_names() -> None:
    jobs = [Job("a.b.ply", "out/a.b.npz"), Job("a_b.ply", "out/a_b.npz")]
    with pytest.raises(UsageError, match="both be a_b in a shard"):
        shards_of(jobs, "out", 5)
    for output in (None, "out/{name}.npz", "s3://bucket/out", "out.npz"):
        with pytest.raises(UsageError, match="shards need a folder"):
            shards_of(jobs[:1], output, 5)
    made = shards_of([Job(f"{k}.ply", f"out/{k}.npz") for k in range(5)], "out/", 2)
    assert [shard.path for shard in made] == [Path(f"out/out-00000{k}.tar") for k in range(3)]
    assert [key for shard in made for key in shard.keys] == list("01234")
