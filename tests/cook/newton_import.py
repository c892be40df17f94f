"""Newton's importers on scenes that `sdfcli cook` wrote, for test_newton_import.py: run as a program, since pxr and VTK
crash in one process.

Arguments: scenes, each beside its cooked files. Prints JSON, a list for each: per mesh whether its field was found, the
largest distance at its vertices and the distance at their mean, by Newton's own sampler.
"""

from __future__ import annotations

import functools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import newton
import numpy as np
import warp as wp
from cook_bench.in_newton import without_cuda
from newton._src.geometry import _sdf_cache, sdf_texture


@wp.kernel
def ask(sdf: sdf_texture.TextureSDFData, at: wp.array(dtype=wp.vec3), answer: wp.array(dtype=float)) -> None:  # type: ignore[valid-type]
    """Newton's own sampler."""
    i = wp.tid()
    answer[i] = sdf_texture.texture_sample_sdf(sdf, at[i])


def facts(path: Path) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    build, load = newton.Mesh.build_sdf, _sdf_cache.try_load_sparse_data

    def watched(folder: Any, key: str) -> Any:
        data = load(folder, key)
        told.append({"found": data is not None})
        return data

    def sampled(mesh: Any, **options: Any) -> None:
        build(mesh, **options)
        points = mesh.vertices * np.array(options.get("scale") or (1, 1, 1), np.float32)
        points = np.concatenate([points, points.mean(axis=0)[None]])
        answer = wp.zeros(len(points), dtype=float)
        wp.launch(ask, len(points), [mesh.sdf.to_texture_kernel_data(), wp.array(points, dtype=wp.vec3), answer])
        *vertices, mean = answer.numpy().tolist()
        told[-1] |= {"surface": max(map(abs, vertices)), "mean": mean}

    builder = newton.ModelBuilder()
    _sdf_cache.try_load_sparse_data, newton.Mesh.build_sdf = watched, sampled
    try:
        with without_cuda():
            if path.suffix == ".usda":
                builder.add_usd(str(path))
                newton.Mesh.build_sdf = functools.partialmethod(newton.Mesh.build_sdf, cache_dir=path.parent)
                builder.finalize()
            else:
                (builder.add_urdf if path.suffix == ".urdf" else builder.add_mjcf)(str(path))
                for mesh, flags in zip(builder.shape_source, builder.shape_flags, strict=True):
                    if isinstance(mesh, newton.Mesh) and flags & newton.ShapeFlags.COLLIDE_SHAPES and mesh.sdf is None:
                        mesh.build_sdf(cache_dir=path.parent)
    finally:
        _sdf_cache.try_load_sparse_data, newton.Mesh.build_sdf = load, build
    return told


if __name__ == "__main__":
    wp.config.log_level = wp.LOG_WARNING
    wp.set_device("cpu")
    warnings.simplefilter("ignore")
    print(json.dumps([facts(Path(each)) for each in sys.argv[1:]]))
