"""Fuzz tests of file readers: `python tools/fuzz.py [--cases N] [--seed S] [KIND ...]`.

Each case is a small valid file with random damage. Reading must succeed or raise SdfError: no crash, no other
exception, within seconds, with little memory. The kinds are `field`, `sequence`, `vdb` and `nvdb` (read and sampled),
`poses`, `poses-table`, `poses-json`, and the mesh formats. A case is identified by kind and number: `--only KIND
NUMBER` reruns one and keeps its file.

Needs an installed sdfcli. Cases run in forked processes with limited memory; the parent reports each that dies or takes
longer than LONGEST seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import hashlib
import io
import json
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sdfcli
from sdfcli.errors import SdfError
from sdfcli.field.store import FAULTS
from sdfcli.mesh.load import load_mesh
from sdfcli.params import BuildOptions, BuildParams
from sdfcli.query.poses import load_poses

LONGEST = 20
MOST_MEMORY = 1 << 29
BATCH = 500
CHUNK = 1 << 16
KINDS = "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"
NUMBERS = [0, 1, -1, 127, 255, 256, 32767, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63)]
ODD = ["<b>", "\x1b[2J", -1, 0, 1, 0.5, 1e308, 2**70, float("nan"), float("inf"), None, True, [], [[]], {}, {"a": {}}]
WORDS = [b"nan", b"inf", b"-1", b"0", b"99999999999999999999", b"1e999", b"-", b".", b"\0", b"\xff\xfe", b"\n\n", b" "]


def cube() -> tuple[Any, Any]:
    """A cube of twelve triangles: vertices and faces."""
    vertices = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], np.float64)
    sides = [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)]
    return vertices, np.array([t for a, b, c, d in sides for t in ((a, b, c), (a, c, d))])


@contextlib.contextmanager
def replaced(module: Any, **values: Any) -> Iterator[None]:
    """Sets a module's constants for a while."""
    before = {name: getattr(module, name) for name in values}
    try:
        vars(module).update(values)
        yield
    finally:
        vars(module).update(before)


def whole_files() -> dict[str, tuple[str, bytes]]:
    """File suffix and valid content by kind."""
    import trimesh

    mesh = trimesh.Trimesh(*cube(), process=False)
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in cube()[0])
    squares = "".join(f"f {a}//1 {b}/2 {c}/3/4 {d}\n" for a, b, c, d in ((1, 2, 6, 5), (3, 7, 8, 4), (-1, -2, -3, -4)))
    scene = trimesh.Scene([mesh])
    scene.add_geometry(mesh, transform=np.diag([2, 2, -2, 1.0]))
    turn = {"w": 0.6, "x": 0, "y": 0.8, "z": 0}
    files = {
        "stl": ("stl", mesh.export(file_type="stl")),
        "stl-text": ("stl", mesh.export(file_type="stl_ascii").encode()),
        "ply": ("ply", mesh.export(file_type="ply")),
        "ply-text": ("ply", mesh.export(file_type="ply", encoding="ascii")),
        "ply-mixed": ("ply", mixed_ply()),
        "obj": ("obj", ("o cube\n" + vertices + squares + "g other\nusemtl x\n" + squares).encode()),
        "off": ("off", mesh.export(file_type="off").encode()),
        "glb": ("glb", scene.export(file_type="glb")),
        "3mf": ("3mf", scene.export(file_type="3mf")),
        "dae": ("dae", whole_collada()),
        "poses": ("npy", whole_poses()),
        "poses-table": ("csv", b"time,x,y,z,qx,qy,qz,qw\n" + 3 * b"0.5,1,-2,3e-1,0,0,0.6,0.8\n"),
        "poses-json": ("json", json.dumps([{"position": [1, 2, 3], "orientation": turn}]).encode()),
    }
    from sdfcli.field import blocks

    with tempfile.TemporaryDirectory() as folder:
        small = {"device": "cpu", "depth": 2, "tolerance": 0.05, "nearest": True, "why": True}
        with replaced(blocks, MOST_LEAVES=8):
            files["field"] = ("h5", sdfcli.build(cube(), **small).save(Path(folder, "field.h5")).read_bytes())
        files["field-parts"] = files["field-chunks"] = files["field"]
        ball = sdfcli.load(Path(folder, "field.h5"))
        for ending in ("vdb", "nvdb"):
            files[ending] = (ending, ball.export(Path(folder, f"a.{ending}"), resolution=12).read_bytes())
        files["sequence"] = ("h5", whole_sequence(Path(folder, "sequence.h5")).read_bytes())
    return files


def whole_sequence(path: Path) -> Path:
    """Writes a sequence of two frames."""
    from sdfcli.runtime.parts import parts_folder
    from sdfcli.sequence.build import SequenceBuild
    from sdfcli.sequence.save import save_sequence

    vertices, faces = cube()
    frames = [(vertices * scale, faces) for scale in (1, 0.9)]
    build = SequenceBuild(frames, BuildParams(depth=2, tolerance=0.05), BuildOptions("cpu"))
    with parts_folder(path, resume=False, force=False) as folder:
        save_sequence(build, np.arange(2.0), path, folder, False, lambda row: None)
    return path


def whole_poses() -> bytes:
    """Three poses as a .npy file."""
    with io.BytesIO() as buffer:
        np.save(buffer, np.tile(np.eye(4), (3, 1, 1)))
        return buffer.getvalue()


def whole_collada() -> bytes:
    """A cube, twice, as COLLADA."""
    vertices, faces = cube()
    points, corners = (" ".join(map(str, np.asarray(each).ravel().tolist())) for each in (vertices, faces))
    return (
        '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema"><asset><unit meter="0.01"/></asset>'
        '<library_geometries><geometry id="g"><mesh><source id="p">'
        f'<float_array id="a" count="{3 * len(vertices)}">{points}</float_array><technique_common>'
        f'<accessor source="#a" count="{len(vertices)}" stride="3"/></technique_common></source>'
        '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
        f'<triangles count="{len(faces)}"><input semantic="VERTEX" source="#v" offset="0"/><p>{corners}</p></triangles>'
        '</mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="s">'
        '<node><translate>5 0 0</translate><rotate>0 0 1 30</rotate><instance_geometry url="#g"/></node>'
        '<node><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes></COLLADA>'
    ).encode()


def mixed_ply() -> bytes:
    """Polygons of different sizes, big-endian, with an unused list property."""
    head = (
        "ply\nformat binary_big_endian 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty double z\n"
        "element face 3\nproperty list uchar int vertex_indices\nproperty list ushort uchar more\nend_header\n"
    )
    body = b"".join(struct.pack(">2fd", *vertex) for vertex in cube()[0])
    for row in ([0, 1, 2], [0, 2, 3, 4, 5], [4, 5, 6, 7]):
        body += struct.pack(f">B{len(row)}iH2B", len(row), *row, 2, 1, 2)
    return head.encode() + body


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Applies a few random changes to bytes, numbers, words and ranges."""
    data = bytearray(content)
    for _ in range(1 + rng.geometric(0.4)):
        if not data:
            return b""
        place, kind = int(rng.integers(len(data))), int(rng.integers(9))
        length = int(rng.integers(1, 1 + min(64, len(data))))
        number = int(rng.choice(NUMBERS)) if rng.random() < 0.7 else int(rng.integers(-(2**63), 2**63))
        if kind == 0:
            data[place] = rng.integers(256)
        elif kind == 1:
            data[place] ^= 1 << rng.integers(8)
        elif kind in (2, 3):
            size = int(rng.choice([1, 2, 4, 8]))
            order = "little" if rng.random() < 0.7 else "big"
            data[place : place + size] = (number % 256**size).to_bytes(size, order)[: len(data) - place]
        elif kind == 4:
            del data[place:]
        elif kind == 5:
            del data[place : place + length]
        elif kind == 6:
            other = int(rng.integers(len(data)))
            data[place:place] = data[other : other + length]
        elif kind == 7:
            data[place : place + length] = WORDS[rng.integers(len(WORDS))]
        else:
            digits = [k for k in range(place, min(len(data), place + 200)) if 48 <= data[k] < 58]
            if digits:
                end = next((k for k in range(digits[0], len(data)) if not 48 <= data[k] < 58), len(data))
                data[digits[0] : end] = str(number).encode()
    return bytes(data)


def damaged_parts(rng: np.random.Generator, content: bytes) -> bytes:
    """A field with changed arrays and attributes and valid checksums, as a hostile writer would produce."""
    import h5py

    with h5py.File(io.BytesIO(content)) as file:
        parts = {name: file[name][()] for name in file}
        facts = dict(file.attrs)
    for _ in range(1 + rng.geometric(0.5)):
        name = str(rng.choice([*parts, *facts]))
        if name in facts:
            facts[name] = [
                lambda: told_otherwise(rng, copy.deepcopy(whole_field().info)),
                lambda: int(rng.choice(NUMBERS[:10])),
                lambda: float(rng.choice([0, -1, np.nan, np.inf, 1e308, 5e-324])),
                lambda: rng.random(int(rng.integers(0, 5))),
                lambda: np.bytes_(rng.bytes(int(rng.integers(0, 40)))),
                lambda: np.bytes_(b"{" * int(rng.integers(0, 2000))),
            ][rng.integers(6)]()
            continue
        part = parts[name]
        if len(part) == 0:
            continue
        place = rng.integers(0, len(part), rng.integers(1, 4))
        if rng.random() < 0.4:
            part[place] = part[rng.integers(0, len(part), len(place))]
        elif rng.random() < 0.6:
            with np.errstate(all="ignore"):
                part[place] = (
                    np.array(rng.choice(NUMBERS, len(place))).astype(np.int64).view(np.uint64).astype(part.dtype)
                )
        elif rng.random() < 0.5:
            parts[name] = part[: rng.integers(len(part) + 1)]
        else:
            parts[name] = np.concatenate([part, part])[rng.permutation(2 * len(part))]
    with io.BytesIO() as buffer:
        with h5py.File(buffer, "w") as file:
            for name, value in facts.items():
                file.attrs[name] = value
            for name, part in parts.items():
                packed = len(part) > 0 and rng.random() < 0.8
                chunks = (max(1, len(part) // 2),) if packed else None
                file.create_dataset(name, data=part, chunks=chunks, compression="gzip" if packed else None)
            seal(file)
        return buffer.getvalue()


def damaged_chunks(rng: np.random.Generator, content: bytes) -> bytes:
    """A field with one chunk of different content and a matching checksum: shorter, longer, empty, or noise."""
    import h5py

    from sdfcli.field.chunks import fletcher32

    with io.BytesIO(content) as buffer:
        with h5py.File(buffer, "r+") as file:
            data = file[str(rng.choice([name for name in file if file[name].chunks]))]
            chunk = data.id.read_direct_chunk((0,))[1][:-4]
            raw = zlib.decompress(chunk)
            place = int(rng.integers(len(raw)))
            packed = [
                lambda: zlib.compress(raw[:place]),
                lambda: zlib.compress(raw + rng.bytes(1 + int(rng.integers(1 << 16)))),
                lambda: zlib.compress(b""),
                lambda: zlib.compress(bytes(1 << 24)),
                lambda: zlib.compress(rng.bytes(len(raw))),
                lambda: chunk[: int(rng.integers(len(chunk)))],
                lambda: chunk + rng.bytes(9),
                lambda: rng.bytes(int(rng.integers(200))),
                lambda: damaged(rng, chunk),
            ][rng.integers(9)]()
            sums = rng.bytes(4) if rng.random() < 0.1 else fletcher32(packed).to_bytes(4, "little")
            mask = int(rng.integers(8)) if rng.random() < 0.2 else 0
            data.id.write_direct_chunk((0,), (packed + sums)[5 * (rng.random() < 0.05) :] or b"\0", filter_mask=mask)
        return buffer.getvalue()


def attributes_sha256(file: Any) -> str:
    """The hash defined in docs/reference/file.md."""
    digest = hashlib.sha256()
    for name, value in sorted(file.attrs.items()):
        if name != "attributes_sha256":
            content = value if isinstance(value, bytes) else value.tobytes()
            digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def seal(file: Any) -> None:
    """Updates an open field's checksums to its current content as far as that is readable, as a hostile writer
    would."""
    from sdfcli.field import store

    with contextlib.suppress(*FAULTS, AttributeError):
        for name in store.OPTIONAL:
            if name in file:
                file.attrs[f"{name}_sha256"] = np.bytes_(hashlib.sha256(file[name][()].tobytes()).hexdigest())
        version = int(file.attrs["format_version"])
        file.attrs["content_sha256"] = np.bytes_(sealed_content(file) if version > 3 else content_of_3(file, version))
    with contextlib.suppress(AttributeError):  # an attribute neither text nor number
        if "attributes_sha256" in file.attrs:
            file.attrs["attributes_sha256"] = np.bytes_(attributes_sha256(file))


def sealed_content(file: Any) -> str:
    """The content hash of version 4, defined in docs/reference/file.md; updates `chunk_sha256`."""
    from sdfcli.field.hdf5 import read_list

    names = ["leaf_level", *(["residual", "residual_part"] if "residual" in file else ["distance"])]
    lists = [read_list(file, name, *(f"<{kind}" for kind in KINDS)) for name in names if name in file]
    pieces = [each[first : first + CHUNK] for each in lists for first in range(0, len(each), CHUNK)]
    sums = np.frombuffer(b"".join(hashlib.sha256(piece.tobytes()).digest() for piece in pieces), np.uint8)
    if len(read_list(file, "chunk_sha256", np.uint8)) % 32 == 0:
        del file["chunk_sha256"]
        file["chunk_sha256"] = sums
    steps = [file.attrs.get("distance_step", 0.0), file.attrs.get("distance_parts", 1)]
    facts = [float(np.real(each)) for each in (*file.attrs["domain_origin"], file.attrs["domain_length"], *steps)]
    table = read_list(file, "block", np.uint32)
    return hashlib.sha256(np.array(facts, "<f8").tobytes() + table.astype("<u4").tobytes() + sums.tobytes()).hexdigest()


def content_of_3(file: Any, version: int) -> str:
    """The content hash of versions 1 to 3."""
    from sdfcli.field import store

    field = store._field(file, version)
    digest = hashlib.sha256(np.array([*field.domain.origin, field.domain.length], "<f8").tobytes())
    for array, kind in (
        (field.leaf_key, "<u8"),
        (field.leaf_level, "u1"),
        (field.corner_key, "<u8"),
        (field.distance, "<f4"),
    ):
        digest.update(array.astype(kind).tobytes())
    return digest.hexdigest()


def told_otherwise(rng: np.random.Generator, info: Any) -> bytes:
    """`info` with entries of wrong types and ranges."""
    for _ in range(1 + rng.geometric(0.5)):
        part = info
        while (inner := [each for each in part.values() if isinstance(each, dict) and each]) and rng.random() < 0.6:
            part = inner[rng.integers(len(inner))]
        name = str(rng.choice([*part, "more"]))
        part[name] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    return np.bytes_(json.dumps(info))


@functools.cache
def whole_field() -> sdfcli.Field:
    """The undamaged field."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "field.h5")
        path.write_bytes(whole_files()["field"][1])
        return sdfcli.load(path)


def read_field(path: Path) -> None:
    """Every operation on a field file, read whole and when needed."""
    from sdfcli.field import store

    for at_once in (store.AT_ONCE, 0):
        with replaced(store, AT_ONCE=at_once):
            field = sdfcli.load(path)
            show(path, field)
            points = field.domain.origin + np.linspace(-0.5, 1.5, 40)[:, None] * field.domain.length
            for k in range(0, 40, 13):
                field.sample(points[k])
            assert np.isfinite(field.sample(points)).any() or not np.isfinite(points).all()
            field.gradient(points)
            field.leaf_at(np.clip(points, field.domain.origin, field.domain.origin + field.domain.length))
            assert np.isfinite(field.distance).all()


def show(path: Path, field: sdfcli.Field) -> None:
    """Everything displayed about a field."""
    from sdfcli.batch.job import outcome_of_field
    from sdfcli.batch.messages import Settings
    from sdfcli.cli.info import rows
    from sdfcli.cli.report import page
    from sdfcli.field.schema import is_complete

    assert rows(path, field)
    if is_complete(field.info):
        outcome = outcome_of_field("mesh", path, "skipped", field, Settings())
        json.dumps(outcome, allow_nan=False)
        assert "<b>" not in page([outcome], 1)


def read_level_set(path: Path) -> None:
    """Loads and samples a field from a level set."""
    field = sdfcli.load(path)
    field.sample(field.domain.origin + field.domain.length * np.random.default_rng(0).uniform(-0.5, 1.5, (100, 3)))


def read_sequence(path: Path) -> None:
    """Every operation on a sequence file."""
    found = sdfcli.load_sequence(path)
    points = found.domain.origin + np.linspace(-0.5, 1.5, 40)[:, None] * found.domain.length
    for time_ in (float(found.times[0]), float(found.times[0] + found.times[-1]) / 2):
        found.sample(points, time_)
        found.at_time(time_).gradient(points)
        found.bound(time_)
    hashes = [found.at(frame).content_sha256 for frame in range(len(found))]
    assert (found.content_sha256, hashes) == whole_hashes(), "damage was not noticed"


@functools.cache
def whole_hashes() -> tuple[str, list[str]]:
    """Content hashes of the undamaged sequence and its frames."""
    with tempfile.TemporaryDirectory() as folder:
        found = sdfcli.load_sequence(whole_sequence(Path(folder, "sequence.h5")))
        return found.content_sha256, [found.at(frame).content_sha256 for frame in range(len(found))]


def read_mesh(path: Path) -> None:
    """Loading, the first step of every use of a mesh."""
    mesh = load_mesh(path)
    assert np.isfinite(mesh.vertices).all()
    assert 0 <= mesh.faces.min() <= mesh.faces.max() < len(mesh.vertices)
    unit = mesh.unit_triangles
    assert unit.min() >= 0
    assert unit.max() <= 1


def read_poses(path: Path) -> None:
    """Poses as commands read them."""
    poses = load_poses(path)
    assert np.isfinite(poses).all()
    assert len(poses)


def case(kind: str, number: int, folder: Path, files: dict[str, tuple[str, bytes]]) -> Path:
    """Writes a case's file and returns its path."""
    rng = np.random.default_rng([number, *kind.encode()])
    ending, content = files[kind]
    content = {"field-parts": damaged_parts, "field-chunks": damaged_chunks}.get(kind, damaged)(rng, content)
    path = folder / f"{kind}.{ending}"
    path.write_bytes(content)
    return path


def run(kind: str, path: Path) -> str:
    """Returns `read` or `refused`. Raises any other failure."""
    fields = dict.fromkeys(("field", "field-parts", "field-chunks"), read_field)
    poses = dict.fromkeys(("poses", "poses-table", "poses-json"), read_poses)
    level_sets = dict.fromkeys(("vdb", "nvdb"), read_level_set)
    readers = {**fields, **poses, **level_sets, "sequence": read_sequence}
    try:
        readers.get(kind, read_mesh)(path)
    except SdfError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from error
        if "\n" in str(error) or not str(error).startswith(str(path)):
            raise AssertionError(f"not a message of one line that begins with the file: {error}") from error
        return "refused"
    if kind in ("field", "field-chunks"):  # checksums are of the undamaged content
        found, whole = sdfcli.load(path), whole_field()
        assert (found.content_sha256, found.info) == (whole.content_sha256, whole.info), "damage was not noticed"
        assert np.array_equal(found.nearest, whole.nearest), "damage was not noticed"
    return "read"


def work(kind: str, numbers: range, files: dict[str, tuple[str, bytes]], folder: Path, board: mmap.mmap) -> None:
    """Runs cases in sequence; writes the current number and the count of successful reads to `board`."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MOST_MEMORY,) * 2)
    read = 0
    for number in numbers:
        board[:16] = struct.pack("<QQ", number, read)
        signal.alarm(LONGEST)  # no handler: ends the process, even inside a library
        try:
            read += run(kind, case(kind, number, folder, files)) == "read"
        except BaseException:
            print(f"{kind} {number}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            os._exit(3)
    board[:16] = struct.pack("<QQ", numbers.stop, read)
    os._exit(0)


def main() -> None:
    """Runs the requested cases; the exit status is 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="field, field-parts, stl, ply, ...; all by default")
    parser.add_argument("--cases", type=int, default=2000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "NUMBER"), help="one case, in this process")
    asked = parser.parse_args()
    files = whole_files()
    if asked.only:
        path = case(asked.only[0], int(asked.only[1]), Path.cwd(), files)
        print(path, run(asked.only[0], path))
        return
    wrong = sum(fuzz(kind, asked.seed, asked.cases, files) for kind in asked.kinds or files)
    sys.exit(f"{wrong} cases went wrong" if wrong else 0)


def fuzz(kind: str, seed: int, cases: int, files: dict[str, tuple[str, bytes]]) -> int:
    """Runs cases of one kind in processes of BATCH each; returns the failure count."""
    number, wrong, read, start = seed, 0, 0, time.monotonic()
    board = mmap.mmap(-1, 16)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        while number < seed + cases:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                work(kind, range(number, min(number + BATCH, seed + cases)), files, Path(folder), board)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            number, done = struct.unpack("<QQ", board[:16])
            read += done
            if code != 0:
                fate = {3: "an exception", -signal.SIGALRM: f"took more than {LONGEST} s"}.get(code, f"died: {code}")
                print(f"WRONG: {kind} {number}: {fate}", flush=True)
                wrong, number = wrong + 1, number + 1
    seconds = time.monotonic() - start
    print(f"{kind}: {cases:,} cases, {read:,} read, {wrong} wrong, {cases / seconds:.0f} a second", flush=True)
    return wrong


if __name__ == "__main__":
    main()
