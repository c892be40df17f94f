"""Files of earlier versions, as docs/reference/file.md describes them, written with NumPy alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

import oracle
import sdfcli

STEPS = 2**20
SEQUENCE = "sdfcli-adf-sequence"


def save(field: sdfcli.Field, path: Path, version: int) -> Path:
    """A field's file of version 1, 2 or 3."""
    with h5py.File(path, "w") as file:
        write(file, field, version)
    return path


def save_sequence(new: Path, path: Path, version: int) -> Path:
    """A sequence's file with fields of an earlier version, of a new one's frames."""
    found = sdfcli.load_sequence(new)
    with h5py.File(new) as one, h5py.File(path, "w") as file:
        attributes = {name: value for name, value in one.attrs.items() if name != "attributes_sha256"}
        digest = hashlib.sha256(np.array([*found.domain.origin, found.domain.length]).tobytes())
        for name in ("time", "motion"):
            file[name] = one[name][()]
            digest.update(one[name][()].tobytes())
        for name in one["frame"]:
            frame = file.create_group(f"frame/{name}")
            write(frame, found.at(int(name)), version)
            digest.update(bytes.fromhex(frame.attrs["content_sha256"].decode()))
        write_attributes(file, {**attributes, "content_sha256": np.bytes_(digest.hexdigest())}, summed=True)
    return path


def write(group: Any, field: sdfcli.Field, version: int) -> None:
    """Writes a field into an open file or a group."""
    attributes: dict[str, Any] = {
        "format": np.bytes_("sdfcli-adf"),
        "format_version": version,
        "tool_version": np.bytes_("0.0.1"),
        "domain_origin": field.domain.origin,
        "domain_length": field.domain.length,
        "lattice_bits": 20,
        "units": np.bytes_("those of the mesh"),
        "sign_convention": np.bytes_("negative inside"),
        "content_sha256": np.bytes_(content_sha256(field)),
        "info": np.bytes_(json.dumps(field.info)),
    }
    group["leaf_level"] = field.leaf_level
    if version == 1:
        group["leaf_key"], group["corner_key"] = field.leaf_key, field.corner_key
    for name in ("nearest", "leaf_cause"):
        if (array := getattr(field, name)) is not None:
            group[name] = array
            if version == 3:
                attributes[f"{name}_sha256"] = np.bytes_(hashlib.sha256(array.tobytes()).hexdigest())
    if version == 1 or field.step is None:
        group["distance"] = field.distance
    else:
        steps, parts = steps_of(field), field.parts
        whole = (steps + parts // 2) // parts
        group["residual"] = unsigned(whole).astype(np.uint32)
        attributes["distance_step"] = field.step * parts
        if parts > 1:
            group["residual_part"] = unsigned(steps - whole * parts).astype(np.uint8)
            attributes["distance_parts"] = parts
    write_attributes(group, attributes, summed=version == 3)


def write_attributes(group: Any, attributes: dict[str, Any], summed: bool) -> None:
    """Writes attributes and their checksum."""
    for name, value in attributes.items():
        group.attrs[name] = value
    if summed:
        digest = hashlib.sha256()
        for name, value in sorted(group.attrs.items()):
            content = value if isinstance(value, bytes) else value.tobytes()
            digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
        group.attrs["attributes_sha256"] = np.bytes_(digest.hexdigest())


def content_sha256(field: sdfcli.Field) -> str:
    """A field's checksum in these versions."""
    domain = np.array([*field.domain.origin, field.domain.length])
    arrays = domain, field.leaf_key, field.leaf_level, field.corner_key, field.distance
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def unsigned(steps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    return np.where(steps < 0, -2 * steps - 1, 2 * steps)


def steps_of(field: sdfcli.Field) -> npt.NDArray[np.int64]:
    """Numbers (m,) of parts of steps from the mean of coarser corners, by level, then in Morton order."""
    points = oracle.lattice(field.corner_key).astype(np.int64)
    multiple = np.bitwise_or.reduce(points, axis=1) | STEPS
    size = multiple & -multiple
    value = dict(zip(map(tuple, points.tolist()), field.distance.astype(float).tolist(), strict=True))
    found, step = [], float(field.step or 0)
    for place in np.argsort(-size, kind="stable").tolist():
        point, s = points[place].tolist(), int(size[place])
        around = [tuple(point)]
        for axis in (2, 1, 0) if s < STEPS else ():
            if point[axis] // s % 2:
                around = [(*p[:axis], p[axis] + by, *p[axis + 1 :]) for p in around for by in (-s, s)]
        means = [value[p] for p in around] if s < STEPS else [0.0]
        while len(means) > 1:
            means = [(a + b) / 2 for a, b in zip(means[::2], means[1::2], strict=True)]
        steps = round((value[tuple(point)] - means[0]) / step)
        assert np.float32(means[0] + steps * step) == value[tuple(point)]
        found.append(steps)
    return np.array(found)
