"""Poses from arrays, files and words, and what is refused of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shapes
from sdfcli.errors import InputError, UsageError
from sdfcli.query.poses import RIGID, checked_poses, load_poses, pose_at


def pose(axes: Any = None, move: Any = 0.0) -> Any:
    made = np.eye(4)
    made[:3, :3] = np.eye(3) if axes is None else axes
    made[:3, 3] = move
    return made


@given(seed=st.integers(0, 2**32 - 1), power=st.floats(-140, 140), dtype=st.sampled_from(["<f8", ">f8", "<f4"]))
def test_rotations_of_any_scale(seed: int, power: float, dtype: str) -> None:
    rng, scale = np.random.default_rng(seed), 10.0 ** (power if dtype != "<f4" else power / 10)
    given_ = np.array([pose(scale * shapes.turn(rng), rng.normal(size=3)) for _ in range(3)]).astype(dtype)
    found, scales = checked_poses(given_)
    assert (found.dtype, found.shape, scales.shape) == (np.float64, (3, 4, 4), (3,))
    assert np.array_equal(found, given_)
    assert np.allclose(scales, scale, rtol=1e-6, atol=0)
    for each, bound in zip(found, scales, strict=True):  # it is a bound
        assert np.linalg.norm(each[:3, :3] / scale, 2) * scale <= bound * (1 + 1e-14)
    alone = [checked_poses(each)[1][0] for each in given_]
    assert scales.tobytes() == np.array(alone).tobytes()


def test_what_poses_may_be() -> None:
    assert checked_poses(np.eye(4))[0].shape == (1, 4, 4)
    assert checked_poses(np.zeros((0, 4, 4)))[0].shape == (0, 4, 4)
    assert checked_poses(np.eye(4).tolist())[0].shape == (1, 4, 4)
    assert checked_poses(np.eye(4, dtype=int))[0].dtype == np.float64
    fortran = np.asfortranarray(np.tile(pose(move=(1, 2, 3)), (5, 1, 1)))
    assert checked_poses(fortran)[0].flags.c_contiguous
    five_digits = np.round(pose(shapes.turn(np.random.default_rng(0))), 6)
    assert checked_poses(five_digits)[1] == pytest.approx(1, abs=2 * RIGID)
    untouched = np.eye(4)
    untouched.flags.writeable = False
    checked_poses(untouched)


REFUSED = {
    r"poses must be \(t, 4, 4\), \(4, 4\) or \(t, 7\), not \(4, 3\)": np.eye(4)[:, :3],
    r"poses must be \(t, 4, 4\), \(4, 4\) or \(t, 7\), not \(2, 2, 4, 4\)": np.tile(np.eye(4), (2, 2, 1, 1)),
    r"poses must be \(t, 4, 4\), \(4, 4\) or \(t, 7\), not \(3, 4\)": np.eye(4)[:3],
    r"poses must be \(t, 4, 4\), \(4, 4\) or \(t, 7\), not \(16,\)": np.eye(4).ravel(),
    r"poses must be \(t, 4, 4\), \(4, 4\) or \(t, 7\), not \(\)": 3.0,
    "poses must be numbers": "here",
    "poses must be numbers, .*inhomogeneous": [[1, 2], [3]],
    "poses must be numbers, .*dict": {},
    "pose 0: a number is not finite": pose(move=(0, np.nan, 0)),
    "pose 1: a number is not finite": [np.eye(4), pose(move=(0, np.inf, 0))],
    "pose 1: the last row must be 0, 0, 0, 1; are the matrices transposed": [np.eye(4), pose(move=(1, 2, 3)).T],
    "pose 0: the last row": 2 * np.eye(4),
    "pose 0: the axes are sheared": pose([[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]),
    "pose 0: the axes are .*scaled differently": pose(np.diag([1, 1, 1.001])),
    "pose 0: the axes .*": pose(np.zeros((3, 3))),
    "pose 0: the axes are": pose(1e-200 * np.eye(3)),
    "pose 0: the axes": pose(1e200 * np.eye(3)),
    "pose 0: a mirror image; mirror the mesh instead": pose(np.diag([1, 1, -1])),
    "pose 0: a mirror": pose(-np.eye(3)),
    "pose 0: a mirror image": pose(-1e-130 * np.eye(3)),
    "pose 0: a mirror image;": pose(-1e130 * np.eye(3)),
    "pose 2: a mirror": [np.eye(4), np.eye(4), pose(-np.eye(3))],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        checked_poses(REFUSED[message])
    assert "\n" not in str(error.value)


def test_masked_poses_are_refused() -> None:
    with pytest.raises(InputError):
        checked_poses(np.ma.masked_array(np.eye(4), np.eye(4) > 0))


# The words of --at.


def test_a_translation() -> None:
    assert np.array_equal(pose_at("1,-2,3e2"), pose(move=(1, -2, 300)))
    assert np.array_equal(pose_at(" 1, 2 ,3,0,0,0"), pose(move=(1, 2, 3)))


def test_right_angles_are_exact() -> None:
    x, y, z = np.eye(3)
    for words, images in {
        "0,0,0,90,0,0": (x, z, -y),
        "0,0,0,0,90,0": (-z, y, x),
        "0,0,0,0,0,90": (y, -x, z),
        "0,0,0,0,0,-90": (-y, x, z),
        "0,0,0,0,0,450": (y, -x, z),
        "0,0,0,180,0,0": (x, -y, -z),
        "0,0,0,90,90,0": (-z, x, -y),  # about x first: y goes to z, and then about y to x
        "0,0,0,360,-720,0": (x, y, z),
    }.items():
        assert np.array_equal(pose_at(words)[:3, :3].T, images), words


@given(angles=st.tuples(*[st.floats(-1e4, 1e4)] * 3))
def test_angles_about_the_fixed_axes(angles: tuple[float, float, float]) -> None:
    expected = np.eye(3)
    for k, angle in enumerate(np.radians(angles)):
        x, y, z = np.eye(3)[k]
        across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])  # Rodrigues
        expected = (np.eye(3) + np.sin(angle) * across + (1 - np.cos(angle)) * across @ across) @ expected
    found = pose_at(",".join(map(repr, (1.0, 2.0, 3.0, *angles))))
    assert np.allclose(found, pose(expected, (1, 2, 3)), rtol=0, atol=1e-10)
    checked_poses(found)


@pytest.mark.parametrize("words", ["", "1,2", "1,2,3,4", "1,2,3,4,5,6,7,8", "a,b,c", "1,2,nan", "1,2,inf", "1;2;3"])
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match=f"--at {words}: (use TX,TY,TZ, a translation, with|a number is not finite)"):
        pose_at(words)


def test_quaternions_are_not_scaled() -> None:
    with pytest.raises(UsageError, match=r"--at 0,0,0,0,0,0,0: a quaternion x, y, z, w of length 0, not 1"):
        pose_at("0,0,0,0,0,0,0")
    with pytest.raises(UsageError, match=r"of length 1.01, not 1"):
        pose_at("0,0,0,0,0,0,1.01")
    assert np.allclose(pose_at("1,2,3,0,0,0,1.0005"), pose(move=(1, 2, 3)), atol=1e-15)


@given(angles=st.tuples(*[st.floats(-360, 360)] * 3))
def test_quaternions_turn_as_angles_do(angles: tuple[float, float, float]) -> None:
    words = ",".join(map(repr, (1.0, 2.0, 3.0, *quaternion(angles))))
    assert np.allclose(pose_at(words), pose_at(",".join(map(repr, (1.0, 2.0, 3.0, *angles)))), rtol=0, atol=1e-12)


def quaternion(angles: Any) -> list[float]:
    """x, y, z, w of rotations about the fixed axes x, then y, then z, in degrees: Hamilton's product."""
    x, y, z, w = 0.0, 0.0, 0.0, 1.0
    for k, half in enumerate(np.radians(angles) / 2):
        a, b, c = np.sin(half) * np.eye(3)[k]
        d = np.cos(half)
        x, y, z, w = (
            d * x + a * w + b * z - c * y,
            d * y - a * z + b * w + c * x,
            d * z + a * y - b * x + c * w,
            d * w - a * x - b * y - c * z,
        )
    return [float(each) for each in (x, y, z, w)]


# Files.


def test_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    poses = np.array([pose(shapes.turn(rng), rng.normal(size=3)) for _ in range(4)])
    for name, saved in (("t", poses), ("one", poses[0]), ("single", poses.astype(np.float32))):
        np.save(tmp_path / f"{name}.npy", saved)
        assert np.array_equal(load_poses(tmp_path / f"{name}.npy"), np.atleast_3d(saved).reshape(-1, 4, 4))


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_poses(tmp_path / "none.npy")
    with pytest.raises(InputError):
        load_poses(tmp_path)
    np.savez(tmp_path / "several.npz", np.eye(4))
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "whole.npy", np.eye(4))
    (tmp_path / "half.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:150])
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("1 0 0 0\n")
    np.save(tmp_path / "sheared.npy", pose([[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]))
    np.save(tmp_path / "no_poses.npy", np.empty((0, 4, 4)))
    refused = ("several.npz", "objects.npy", "words.npy", "half.npy", "empty.npy", "text.npy", "sheared.npy")
    for name in (*refused, "no_poses.npy"):
        with pytest.raises(InputError) as error:
            load_poses(tmp_path / name)
        assert "\n" not in str(error.value), name
        assert str(error.value).startswith(str(tmp_path / name))


ANGLES = [(0.0, 0.0, 0.0), (90.0, 0.0, 0.0), (10.0, -20.0, 30.0), (0.0, 180.0, 5.0)]
MOVES = [(0.0, 0.0, 0.0), (1.0, 2.0, 3.0), (-1e-3, 0.5, 2e3), (0.25, 0.0, -7.0)]
EXPECTED = np.array([pose_at(",".join(map(repr, (*m, *a)))) for m, a in zip(MOVES, ANGLES, strict=True)])
ROWS = [[*m, *quaternion(a)] for m, a in zip(MOVES, ANGLES, strict=True)]


def text(rows: Any, head: str = "", separator: str = ",") -> str:
    return head + "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


TABLES = {
    "quaternions.csv": text(ROWS),
    "named.csv": text(ROWS, "tx,ty,tz,qx,qy,qz,qw\n"),
    "w_first.csv": text([[*r[:3], r[6], *r[3:6]] for r in ROWS], "\ufeffX,Y,Z,QW,QX,QY,QZ\n"),
    "quoted.csv": text(ROWS, '"tx", "ty", "tz", "qx", "qy", "qz", "qw"\n'),
    "spaces.txt": text(ROWS, "# a comment\n\n", " "),
    "tum.txt": text([[1e9 + k, *r] for k, r in enumerate(ROWS)], "# timestamp tx ty tz qx qy qz qw\n", " "),
    "angles.csv": text([[*m, *a] for m, a in zip(MOVES, ANGLES, strict=True)]),
    "angles_named.csv": text(
        [[k, *a, *m] for k, (m, a) in enumerate(zip(MOVES, ANGLES, strict=True))], "time,rx,ry,rz,x,y,z\n"
    ),
    "ros.csv": text(
        [[k, "world", *r] for k, r in enumerate(ROWS)],
        "%time,field.header.frame_id,"
        + ",".join(f"field.pose.position.{a}" for a in "xyz")
        + ","
        + ",".join(f"field.pose.orientation.{a}" for a in "xyzw")
        + "\n",
    ),
    "kitti.txt": text([each[:3].ravel().tolist() for each in EXPECTED], "", " "),
    "matrices.csv": text([each.ravel().tolist() for each in EXPECTED]),
    "matrices.json": json.dumps(EXPECTED.tolist()),
    "flat.json": json.dumps([each[:3].ravel().tolist() for each in EXPECTED]),
    "rows.json": json.dumps({"poses": ROWS}),
    "objects.json": json.dumps([{"position": r[:3], "orientation": r[3:]} for r in ROWS]),
    "ros.json": json.dumps(
        [
            {
                "header": {"frame_id": "world", "stamp": {"sec": 1, "nanosec": 2}},
                "pose": {
                    "position": dict(zip("xyz", r[:3], strict=True)),
                    "orientation": dict(zip("wxyz", (r[6], *r[3:6]), strict=True)),
                },
            }
            for r in ROWS
        ]
    ),
    "keys.json": json.dumps([dict(zip(("tx", "ty", "tz", "qx", "qy", "qz", "qw"), r, strict=True)) for r in ROWS]),
    "matrix.json": json.dumps([{"matrix": each.tolist()} for each in EXPECTED]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_json(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    found = load_poses(tmp_path / name)
    assert (found.shape, found.dtype) == ((4, 4, 4), np.float64)
    assert np.allclose(found, EXPECTED, rtol=1e-15, atol=1e-12)


def test_numbers_in_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    assert np.allclose(load_poses(tmp_path / "rows.npy"), EXPECTED, rtol=1e-15, atol=1e-12)


def test_translations_and_scales(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text(MOVES, "x,y,z\n"))
    assert np.array_equal(load_poses(tmp_path / "a.csv"), [pose(move=each) for each in MOVES])
    (tmp_path / "b.csv").write_text("x,y,z,scale\n1,2,3,0.001\n")
    assert np.array_equal(load_poses(tmp_path / "b.csv"), [pose(0.001 * np.eye(3), (1, 2, 3))])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "holds no poses"),
        ("a.csv", "tx,ty,tz\n", "holds no poses"),
        ("a.csv", "1,2\n", "a pose of 2 numbers; use 3, 6, 7, 8, 12 or 16, or name the columns"),
        ("a.csv", "1,2,3\n1,2\n", "line 2: 2 words, not 3"),
        ("a.csv", "tx,ty,tz\n1,2,3,4\n", "line 2: 4 words, not 3"),
        ("a.csv", "1,2,3\n\n1,2,x\n", "line 3: numbers are needed, not '1 2 x'"),
        ("a.csv", "1,2,3\n1,2,nan\n", "pose 1: a number is not finite"),
        ("a.csv", "1,2,3,0,0,0,2\n", "pose 0: a quaternion x, y, z, w of length 2, not 1"),
        ("a.csv", "tx,ty,tz,roll,pitch,yaw\n0,0,0,0,0,0\n", "not 'roll, pitch, yaw'"),
        ("a.csv", "tx,ty,tz,qx,qy,qz\n0,0,0,0,0,0\n", "which numbers are a pose?"),
        ("a.csv", "tx,ty,tz,x,y,z\n0,0,0,0,0,0\n", "not 'x, y, z'"),
        ("a.csv", "tx,ty,tz,rx,ry,rz,qx,qy,qz,qw\n0,0,0,0,0,0,0,0,0,1\n", "which numbers are a pose?"),
        ("a.csv", "time,index\n0,0\n", "which numbers are a pose?"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as a table of poses"),
        ("a.txt", "-1 0 0 0 0 1 0 0 0 0 1 0", "pose 0: a mirror image"),
        ("a.json", "", "cannot be read as JSON with poses"),
        ("a.json", "[]", "holds no poses"),
        ("a.json", "5", "a list of poses is needed"),
        ("a.json", "{}", "a list of poses is needed"),
        ("a.json", "[5]", "pose 0: a list or an object is needed, not 5"),
        ("a.json", "[[0,0,0],[0,0]]", "pose 1: a pose of 2 numbers"),
        ("a.json", '[[0,0,"1"]]', 'pose 0: numbers are needed, not "1"'),
        ("a.json", "[[0,0,true]]", "pose 0: numbers are needed, not true"),
        ("a.json", "[[0,0,1e999]]", "pose 0: a number is not finite"),
        ("a.json", "[[0,0,1" + "0" * 400 + "]]", "cannot be read as JSON with poses"),
        ("a.json", '[{"position": [0,0,0], "roll": 3}]', "not 'roll'"),
        ("a.json", '[{"position": [0,0,0], "orientation": [0,0,1]}]', "which numbers are a pose?"),
        ("a.json", "[" * 100_000, "cannot be read as JSON with poses"),
    ],
)
def test_tables_that_are_refused(name: str, content: str | bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        load_poses(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["theta", "tilt", "tool_yaw", "pose_roll", "rot.tx", "timeout", "theta_x"])
def test_columns_that_may_turn_a_pose_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "poses.csv"
    path.write_text(f"x,y,z,{name}\n1,2,3,90\n")
    with pytest.raises(InputError, match="which numbers are a pose"):
        load_poses(path)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "poses.yaml").write_text("x: 1")
    with pytest.raises(InputError, match=r"poses are read from \.npy, \.json, \.csv"):
        load_poses(tmp_path / "poses.yaml")


def test_quaternions_in_arrays() -> None:
    turned = checked_poses([1, 2, 3, 0, 0, 1, 0])[0]
    assert turned.tolist() == [[[-1, 0, 0, 1], [0, -1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]]
    assert checked_poses(np.tile([0, 0, 0, 0, 0, 0, 1.0], (5, 1)))[0].shape == (5, 4, 4)
