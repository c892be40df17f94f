"""Parts, their fields and points near their surfaces, for tests of targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import sdfcli
import shapes
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Part

Floats = npt.NDArray[np.float64]


def part_of(shape: shapes.Shape, name: str = "part") -> Part:
    """A mesh as a part."""
    return Part(name, np.asarray(shape[0], np.float64), np.asarray(shape[1], np.int64), f"test: {name}", "test")


def field_of(target: Any, part: Part, config: CookConfig) -> sdfcli.Field:
    """A part's field, built as the target asks."""
    return sdfcli.build((part.vertices, part.faces), device="cpu", **target.parameters(config, part))


def exact(part: Part, points: Floats) -> Floats:
    """Exact signed distances."""
    return np.asarray(sdfcli.MeshDistance((part.vertices, part.faces), device="cpu").signed_distance(points))


def near_points(part: Part, band: float, count: int, rng: np.random.Generator) -> Floats:
    """Random points at most `band` from the surface: half beside edges, where distances bend."""
    triangle = part.vertices[part.faces[rng.integers(len(part.faces), size=count)]]
    weight = rng.dirichlet((1, 1, 1), count)
    weight[: count // 2, 2] = 0
    weight /= weight.sum(axis=1, keepdims=True)
    move = rng.normal(size=(count, 3))
    move *= (band * rng.random(count) ** (1 / 3) / np.linalg.norm(move, axis=1))[:, None]
    return np.einsum("nk,nkx->nx", weight, triangle) + move
