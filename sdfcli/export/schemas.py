"""Schemas of training samples: the arrays that a program's loader reads, and where its samples lie.

Read in these programs, as published; docs/guides/generators.md has the table and the differences:

deepsdf  facebookresearch/DeepSDF, `SampleVisibleMeshSurface.cpp` and `deep_sdf/data.py`.
hunyuan  Tencent-Hunyuan/Hunyuan3D-2.1, `watertight_and_sample.py` and `surface_loaders.py`, for the box.
dora     Seed3D/Dora, `sharp_sample.py`, `to_watertight_mesh.py` and `objaverse.py`.
triposg  VAST-AI-Research/TripoSG, `inference_vae.py`; its sampler is not published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.params import SAMPLES, SampleParams

if TYPE_CHECKING:
    from sdfcli.export.samples import Samples

Arrays = dict[str, npt.NDArray[np.generic]]
Singles = npt.NDArray[np.float32]


class Counts(NamedTuple):
    """Sample counts near the surface, near sharp edges, uniform in a cube, on the surface, and on sharp edges."""

    near: int
    near_sharp: int
    uniform: int
    surface: int
    sharp: int

    def scaled(self, count: int) -> Counts:
        """Counts in the same proportions, about `count` in all."""
        return Counts(*(round(each * count / sum(self)) for each in self))


class Schema(NamedTuple):
    """One schema. Lengths are in normalized units.

    arrays       the file's arrays, by name.
    counts       sample counts for the default `count`; None: `SampleParams.counts`.
    sigma        standard deviations near the surface, each for the same number of samples, in order.
    sharp_sigma  the same near sharp edges.
    half         half the longest side of the bounding box; None: the enclosing sphere has the radius 1.
    cube         half the edge of the cube of uniform samples, centred like the box.
    angle        minimum angle between the normals at a sharp edge, in degrees.
    precision    type of points and distances in the file.
    inside       the sign of distances inside.
    """

    arrays: Callable[[Samples], Arrays]
    counts: Counts | None = None
    sigma: tuple[float, ...] = ()
    sharp_sigma: tuple[float, ...] = ()
    half: float | None = None
    cube: float = 1.0
    angle: float = 0.0
    precision: type[np.floating[Any]] = np.float32
    inside: int = -1

    def counts_for(self, params: SampleParams) -> Counts:
        """Sample counts for parameters with this schema."""
        if self.counts is None:
            near, uniform, surface = params.counts
            return Counts(near, 0, uniform, surface, 0)
        if params.count == SAMPLES[params.schema]:
            return self.counts
        return self.counts.scaled(int(params.count or 0))

    def rounded(self, values: npt.NDArray[np.float64]) -> Singles:
        """Values as the file has them."""
        return np.asarray(np.asarray(values, self.precision), np.float32)


def _deepsdf(samples: Samples) -> Arrays:
    inside = samples.inside
    rows = np.column_stack((samples.points, samples.distance))
    arrays: Arrays = {"pos": rows[~inside], "neg": rows[inside]}
    if samples.normals is not None:
        arrays |= {"pos_normals": samples.normals[~inside], "neg_normals": samples.normals[inside]}
    if samples.params.surface:
        arrays["surface"] = samples.surface
        if samples.surface_normals is not None:
            arrays["surface_normals"] = samples.surface_normals
    return arrays


def _oriented(points: Singles, normals: Singles | None) -> Singles:
    """Points and normals as rows (n, 6)."""
    assert normals is not None
    return np.hstack((points, normals))


def _hunyuan(samples: Samples) -> Arrays:
    arrays: dict[str, Singles] = {
        "random_surface": _oriented(samples.surface, samples.surface_normals),
        "sharp_surface": _oriented(samples.sharp, samples.sharp_normals),
    }
    for name, (points, label) in zip(("random_near", "sharp_near", "vol"), samples.around, strict=True):
        arrays |= {f"{name}_points": points, f"{name}_label": label}
    return {name: array.astype(np.float16) for name, array in arrays.items()}


def _dora(samples: Samples) -> Arrays:
    near, near_sharp, uniform = (np.column_stack(each) for each in samples.around)
    return {
        "fps_coarse_surface": _oriented(samples.surface, samples.surface_normals)[:, None],
        "fps_sharp_surface": _oriented(samples.sharp, samples.sharp_normals)[:, None],
        "rand_points": np.concatenate((near, uniform)),
        "sharp_near_surface": near_sharp,
    }


def _triposg(samples: Samples) -> Arrays:
    oriented = _oriented(samples.surface, samples.surface_normals)
    return {"surface_points": oriented[:, :3], "surface_normals": oriented[:, 3:]}


SCHEMAS = {
    "deepsdf": Schema(_deepsdf),
    "hunyuan": Schema(
        _hunyuan,
        Counts(near=249_856, near_sharp=124_928, uniform=249_856, surface=124_928, sharp=124_928),
        sigma=(0.005, 0.05),
        sharp_sigma=(0.001, 0.003, 0.06, 0.01, 0.02, 0.04),
        half=0.9999,
        cube=1.05,
        angle=20.0,
        precision=np.float16,
        inside=1,
    ),
    "dora": Schema(
        _dora,
        Counts(near=400_000, near_sharp=131_072, uniform=200_000, surface=32_768, sharp=32_768),
        sigma=(0.001, 0.005),
        sharp_sigma=(0.001, 0.005, 0.007, 0.01),
        half=1.0,
        cube=1.05,
        angle=15.0,
        inside=1,
    ),
    "triposg": Schema(_triposg, Counts(near=0, near_sharp=0, uniform=0, surface=500_000, sharp=0), half=1.0),
}
