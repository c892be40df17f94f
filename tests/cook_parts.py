"""Parts, their fields and points near their surfaces, for tests of targets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import sdfcli
import shapes
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Part
from sdfcli.cook.plan import FIELD_SHARE

Floats = npt.NDArray[np.float64]
FROM_FIELD = np.sqrt(3) / 2 + 2 * FIELD_SHARE
"""Maximum difference, in tolerances, between a field and a grid of its values whose cell is the tolerance: half a
cell's diagonal, as distances change, and the field's error at the nodes and at the point."""


def random() -> np.random.Generator:
    """New numbers at each run."""
    return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))


def some_part(rng: np.random.Generator) -> Part:
    """A bored plate or a star, of random size and place."""
    shape = shapes.bored(shapes.ring(12, 1.0), shapes.ring(12, 0.6), 0.5) if rng.random() < 0.5 else shapes.star(rng, 2)
    size = 10.0 ** rng.uniform(-2, 1)
    return part_of((size * (shape[0] + rng.normal(size=3)), shape[1]))


def longest(part: Part) -> float:
    """The longest side of a part's box."""
    return float(np.ptp(part.vertices, axis=0).max())


def size_of(files: list[str], folder: Path) -> int:
    """Bytes of files together."""
    return sum((folder / name).stat().st_size for name in files)


def part_of(shape: shapes.Shape, name: str = "part") -> Part:
    """A mesh as a part."""
    return Part(name, np.asarray(shape[0], np.float64), np.asarray(shape[1], np.int64), f"test: {name}", "test")


def field_of(target: Any, part: Part, config: CookConfig) -> sdfcli.Field:
    """A part's field, built as the target asks."""
    return sdfcli.build((part.vertices, part.faces), device="cpu", **target.parameters(config, part))


def exact(part: Part, points: Floats) -> Floats:
    """Exact signed distances."""
    return np.asarray(sdfcli.MeshDistance((part.vertices, part.faces), device="cpu").signed_distance(points))


def near_nodes(part: Part, origin: Floats, cell: float, band: float, count: int, rng: np.random.Generator) -> Floats:
    """Random nodes of a grid, near points at most `band` from the surface."""
    return origin + cell * np.rint((near_points(part, band, count, rng) - origin) / cell)


def near_points(part: Part, band: float, count: int, rng: np.random.Generator) -> Floats:
    """Random points at most `band` from the surface: half beside edges, where distances bend."""
    triangle = part.vertices[part.faces[rng.integers(len(part.faces), size=count)]]
    weight = rng.dirichlet((1, 1, 1), count)
    weight[: count // 2, 2] = 0
    weight /= weight.sum(axis=1, keepdims=True)
    move = rng.normal(size=(count, 3))
    move *= (band * rng.random(count) ** (1 / 3) / np.linalg.norm(move, axis=1))[:, None]
    return np.einsum("nk,nkx->nx", weight, triangle) + move
