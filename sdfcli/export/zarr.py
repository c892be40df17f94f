"""Zarr groups in a zip file (`.zarr.zip`): version 3 of the format, chunks uncompressed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.export.lattice import Distances, Lattice, check_half_range

CHUNK = 64
"""Values along a chunk's edges."""
GROUP = "zarr.json"


def write_zarr(path: Path, field: Distances, lattice: Lattice, dtype: npt.DTypeLike = np.float32) -> None:
    """Writes a group with `distance` [x, y, z] and the coordinates `x`, `y`, `z`. The grid may exceed memory.

    Raises InputError for distances beyond float16's range.
    """
    facts = {"origin": lattice.origin.tolist(), "spacing": lattice.spacing, "sign": field.info.get("sign", "unknown")}
    with zipfile.ZipFile(path, "w") as archive:
        _put(archive, GROUP, _json({"zarr_format": 3, "node_type": "group", "attributes": facts}))
        for axis, name in enumerate("xyz"):
            along = lattice.origin[axis] + lattice.spacing * np.arange(lattice.shape[axis])
            _put(archive, f"{name}/{GROUP}", _array(along.shape, along.shape, "float64", [name]))
            _put(archive, f"{name}/c/0", along.astype("<f8").tobytes())
        kind = np.dtype(dtype).newbyteorder("<")
        edges = [min(CHUNK, n) for n in lattice.shape]
        _put(archive, f"distance/{GROUP}", _array(lattice.shape, edges, np.dtype(dtype).name, list("xyz")))
        within = np.indices(edges).reshape(3, -1).T
        for place in np.ndindex(*(-(-n // edge) for n, edge in zip(lattice.shape, edges, strict=True))):
            # Beyond the grid a chunk has values, too, which no reader sees.
            voxel = np.minimum(within + np.multiply(place, edges), np.array(lattice.shape) - 1)
            made = field.sample(lattice.origin + lattice.spacing * voxel)
            if kind.itemsize == 2:
                check_half_range(np.abs(made).max())
            _put(archive, "distance/c/{}/{}/{}".format(*place), made.astype(kind).tobytes())


def _array(shape: Any, chunk: Any, kind: str, axes: list[str]) -> bytes:
    """An array's metadata."""
    return _json(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": kind,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "dimension_names": axes,
            "attributes": {},
        }
    )


def _json(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode()


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Stores a file without a time, so that equal grids give equal bytes."""
    archive.writestr(zipfile.ZipInfo(name), content)
