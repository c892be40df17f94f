"""Builds of a moving mesh's frames: each field is that of a lone build, whatever is kept from frame to frame."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.load import load_mesh
from sdfcli.sequence import build as sequence
from sdfcli.sequence.build import SequenceBuild, build_sequence
from sdfcli.sequence.follow import Follower
from sdfcli.sequence.frames import FrameArray, FrameFiles
from sdfcli.sequence.parts import Parts, part_key
from sdfcli.sequence.workers import build_rows
from sdfcli.sign.choice import choose_sign
from sequences import bending, sequence_build

COARSE = {"tolerance": 0.01}


def lone(source: Any, build: SequenceBuild, **parameters: Any) -> sdfcli.Field:
    return sdfcli.build(source, device="cpu", domain=build.params.domain, unit=build.unit, **parameters)


def meeting(shape: shapes.Shape) -> shapes.Shape:
    """The shape with its first vertex moved to another one's place: faces are the same, edges are not."""
    vertices = shape[0].copy()
    vertices[0] = vertices[-1]
    return vertices, shape[1]


def frames_of(shape: shapes.Shape, count: int = 4) -> list[Any]:
    """Bent, with vertices that meet and part again, and other faces in between."""
    bent = bending(shape, count)
    return [*bent, meeting(bent[1]), bent[2], shapes.octahedron(), *bent[:2]]


def doubled(shape: shapes.Shape) -> shapes.Shape:
    """With some faces twice, the other way round."""
    vertices, faces = shape
    return vertices, np.concatenate([faces, faces[:9, ::-1]])


def mixed(shape: shapes.Shape) -> shapes.Shape:
    """With every fifth face the wrong way round."""
    faces = shape[1].copy()
    faces[::5] = faces[::5, ::-1]
    return shape[0], faces


BALL = shapes.icosphere(2)
SHAPES: dict[str, shapes.Shape] = {
    "closed": BALL,
    "inside out": shapes.inside_out(BALL),
    "open": (BALL[0], BALL[1][12:]),
    "doubled": doubled(BALL),
    "mixed": mixed(BALL),
    "shells": shapes.shells(1),
}


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("name", SHAPES)
def test_each_frame_is_a_lone_build(name: str, octree: str) -> None:
    frames = frames_of(SHAPES[name])
    parameters = {**COARSE, "octree": octree, "depth": 5}
    build = sequence_build(frames, device="cpu", **parameters)
    fields = [frame.build() for frame in build]
    cold = list(build_sequence(frames, device="cpu", cold=True, **parameters))
    for source, field, other in zip(frames, fields, cold, strict=True):
        alone = lone(source, build, **parameters)
        assert field.content_sha256 == alone.content_sha256 == other.content_sha256
        same = ("mesh", "sign", "sign_reason", "parameters", "jump_leaves", "depth")
        assert {key: field.info[key] for key in same} == {key: alone.info[key] for key in same}


@pytest.mark.parametrize("query", ["baseline", "cct"])
def test_an_earlier_frames_triangles_do_not_change_a_field(query: str) -> None:
    frames = frames_of(BALL)
    found = [
        [field.content_sha256 for field in build_sequence(frames, device="cpu", query=each, depth=5, **COARSE)]
        for each in (query, "fast")
    ]
    assert found[0] == found[1]


def test_the_follower_chooses_as_a_lone_mesh() -> None:
    frames = [load_mesh(frame) for name in SHAPES for frame in frames_of(SHAPES[name], 3)]
    follower = Follower()
    for mesh in frames:
        turned, choice = follower.choose_sign(mesh, "auto")
        fresh = load_mesh((mesh.vertices, mesh.faces))
        expected, chosen = choose_sign(fresh, "auto")
        assert mesh.health == fresh.health
        assert np.array_equal(turned.faces, expected.faces)
        assert (choice.method, choice.reason, choice.inverted) == (chosen.method, chosen.reason, chosen.inverted)


def test_the_follower_turns_other_shells_in_each_frame() -> None:
    ball, faces = shapes.icosphere(1)
    shells = 5
    follower, every = Follower(), np.concatenate([faces + k * len(ball) for k in range(shells)])
    for number in range(10):
        turned = [-1 if number >> k & 1 else 1 for k in range(shells)]
        vertices = np.concatenate([ball * [1, 1, side] + [3 * k, 0, 0] for k, side in enumerate(turned)])
        followed, fresh = (
            choose(load_mesh((vertices, every)), "auto") for choose in (follower.choose_sign, choose_sign)
        )
        assert np.array_equal(followed[0].faces, fresh[0].faces)


def test_motion_and_coherence() -> None:
    sphere = BALL
    moved = sphere[0] + np.array([0, 0.25, 0]), sphere[1]
    frames = [sphere, moved, sphere, shapes.octahedron(), sphere]
    made = list(sequence_build(frames, device="cpu", **COARSE))
    assert [frame.motion and pytest.approx(frame.motion) for frame in made] == [None, 0.25, 0.25, None, None]
    assert [frame.coherent for frame in made] == [False, True, True, False, False]
    cold = list(sequence_build(frames, device="cpu", cold=True, **COARSE))
    assert [frame.motion for frame in cold] == [frame.motion for frame in made]
    assert not any(frame.coherent for frame in cold)
    assert [frame.sha256 for frame in made] == [load_mesh(frame).sha256 for frame in frames]


def test_the_domain_and_the_unit_are_those_of_all_frames() -> None:
    sphere = shapes.icosphere(1)
    build = sequence_build([sphere, (sphere[0] + np.array([3, 0, 0]), sphere[1])], device="cpu", **COARSE)
    low, high = sphere[0].min(axis=0), sphere[0].max(axis=0) + np.array([3, 0, 0])
    assert build.unit == pytest.approx(np.linalg.norm(high - low))
    assert (build.domain.origin < low).all()
    assert (build.domain.origin + build.domain.length > high).all()
    given = sequence_build([sphere], device="cpu", domain=(-2, -2, -2, 8), unit=5, **COARSE)
    field = next(iter(given)).build()
    assert (field.domain.length, field.unit) == (8, 5)
    assert field.info["parameters"]["domain"] == [-2, -2, -2, 8]


def test_every_tenth_frame_is_measured_in_full() -> None:
    fields = list(build_sequence([shapes.icosphere(1)] * 12, device="cpu", **COARSE))
    whole = sdfcli.build(shapes.icosphere(1), device="cpu", domain=fields[0].info["parameters"]["domain"], **COARSE)
    for index, field in enumerate(fields):
        assert (field.info["sheets"]["lost"] is not None) == (index % 10 == 0)
        assert field.info["max_error"] <= whole.info["max_error"] * 1.0001
        assert field.info["max_error"] > 0.3 * whole.info["max_error"]


@pytest.mark.parametrize(
    ("frames", "parameters", "words"),
    [
        ([], {}, "one frame or more"),
        ([shapes.icosphere(1)], {"domain": (0, 0, 0, 1)}, "leaves the domain"),
        (
            [BALL, (3 * BALL[0], BALL[1])],
            {"domain": (-2, -2, -2, 4), "unit": 1, "depth": 2},
            "^frame 1: the mesh leaves the domain",
        ),
        ([shapes.icosphere(1)], {"domain": (0, 0, 1)}, "four numbers"),
        ([shapes.icosphere(1)], {"domain": (0, 0, 0, -1)}, "use an edge between"),
        ([shapes.icosphere(1)], {"domain": (0, 0, 0, float("nan"))}, "use an edge between"),
        ([shapes.icosphere(1)], {"unit": 0}, "--unit 0"),
        ([shapes.icosphere(1)], {"unit": float("inf")}, "--unit inf"),
    ],
)
def test_impossible_sequences(frames: Any, parameters: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        list(build_sequence(frames, device="cpu", **parameters))


def test_a_frame_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"missing\.ply"):
        list(build_sequence([shapes.icosphere(1), "missing.ply"], device="cpu"))


def test_a_lack_of_memory_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(sequence, "make_field", full)
    with pytest.raises(sdfcli.errors.OutOfMemoryError, match="try a larger --tolerance"):
        list(build_sequence([BALL], device="cpu"))


def in_files(folder: Path, frames: list[shapes.Shape]) -> FrameArray:
    import trimesh

    np.save(folder / "frames.npy", np.array([vertices for vertices, _ in frames]))
    trimesh.Trimesh(*frames[0], process=False).export(folder / "faces.ply")
    return FrameArray(str(folder / "frames.npy"), str(folder / "faces.ply"))


@pytest.mark.parametrize("query", ["fast", "cct"])
def test_processes_make_the_same_parts(tmp_path: Path, query: str) -> None:
    frames = in_files(tmp_path, bending(BALL, 11))
    build = sequence_build(frames, device="cpu", query=query, **COARSE)
    found = []
    for jobs in (1, 2, 3):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        rows = list(build_rows(build, Parts(folder, part_key(build)), jobs))
        assert [row["index"] for row in rows] == list(range(11))
        told = [{name: value for name, value in row.items() if name not in ("seconds", "device")} for row in rows]
        found.append((told, [path.read_bytes() for path in sorted(folder.iterdir())]))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 11
    assert [row["index"] for row in build_rows(build, None, 2)] == list(range(11))


def test_the_first_frame_that_fails_ends_the_sequence(tmp_path: Path) -> None:
    files = [str(shapes_file(tmp_path / f"{k}.obj")) for k in range(6)]
    Path(files[4]).write_text("v 0 0 0\n")
    build = sequence_build(FrameFiles(files[:4]), device="cpu", **COARSE)
    rows = build_rows(build, None, 2)
    assert len(list(rows)) == 4
    broken = FrameFiles(files)
    build = sequence_build(broken, device="cpu", domain=(-2, -2, -2, 4), unit=1, **COARSE)
    rows = build_rows(build, None, 2)
    with pytest.raises(sdfcli.errors.SdfError, match=r"4\.obj: no faces") as caught:
        list(rows)
    assert caught.value.exit_code == InputError.exit_code


def shapes_file(path: Path) -> Path:
    vertices, faces = shapes.icosphere(1)
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    path.write_text("\n".join(lines))
    return path


def test_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.sequence import workers

    frames = in_files(tmp_path, bending(BALL, 40))
    build = sequence_build(frames, device="cpu", **COARSE)
    started = []
    real = workers.Child

    class Watched(real):  # type: ignore[misc, valid-type]
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            started.append(self)

    monkeypatch.setattr(workers, "Child", Watched)
    rows = build_rows(build, None, 2)
    assert next(rows) == {"index": 0}
    for child in started:
        child._process.kill()
    with pytest.raises(sdfcli.errors.OutOfMemoryError, match="was killed"):
        list(rows)
    assert not any(child.alive for child in started)


def test_abandoned_rows_end_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.sequence import workers

    frames = in_files(tmp_path, bending(BALL, 40))
    started = []
    monkeypatch.setattr(
        workers, "Child", lambda *words, real=workers.Child: started.append(real(*words)) or started[-1]
    )
    rows = build_rows(sequence_build(frames, device="cpu", **COARSE), None, 2)
    assert [row["index"] for row in itertools.islice(rows, 2)] == [0, 1]
    rows.close()
    assert len(started) == 2
    assert not any(child.alive for child in started)


class Fake:
    """A process that answers as told, and those started in its place."""

    def __init__(self, answers: list[Any], started: list[Fake], service: Any) -> None:
        self.answers, self.started, self.service, self.ended, self.asked = answers, started, service, False, ()
        started.append(self)

    def __call__(self, module: str, settings: Any, threads: int, service: Any) -> Fake:
        return Fake(self.answers, self.started, service)

    def send(self, what: Any) -> None:
        self.asked = what

    def receive(self) -> Any:
        return self.answers.pop(0)

    def end(self) -> None:
        self.ended = True

    def wait_until_ready(self) -> None:
        pass

    def fault(self, what: str, remedy: str) -> sdfcli.errors.SdfError:
        return sdfcli.errors.SdfError(what)


@pytest.mark.parametrize(
    "fault", [None, {"index": 1, "error": "lost", "exit_code": sdfcli.errors.DeviceError.exit_code}]
)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("stopped", [True, False])
def test_faults_of_a_gpu_service(fault: Any, shared: bool, stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that shares a GPU by a service is replaced by one that does not, from the failing frame on."""
    from sdfcli.sequence import workers

    started: list[Fake] = []
    first = Fake([{"index": 0}, fault, {"index": 1}, {"index": 2}], started, None)
    monkeypatch.setattr(workers, "Child", first)
    worker = workers._Worker({}, 1, {"pipe": "x"} if shared else {})
    if stopped:
        worker.stop()
    rows = list(worker.build(0, 3))
    if shared and not stopped:
        assert rows == [{"index": 0}, {"index": 1}, {"index": 2}]
        assert [(each.service, each.asked, each.ended) for each in started[1:]] == [
            ({"pipe": "x"}, (0, 3), True),
            ({}, (1, 3), False),
        ]
    else:
        assert (rows[0], str(rows[1])) == ({"index": 0}, "lost" if fault else "frame 1")
        assert len(started) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("query", ["fast", "cct"])
def test_frames_on_a_gpu_are_those_of_the_cpu(octree: str, query: str) -> None:
    frames = frames_of(shapes.icosphere(3))
    found = [
        [
            field.content_sha256
            for field in build_sequence(frames, device=device, octree=octree, query=query, depth=6, cold=cold, **COARSE)
        ]
        for device, cold in (("cuda", False), ("cuda", True), ("cpu", False))
    ]
    assert found[0] == found[1] == found[2]
