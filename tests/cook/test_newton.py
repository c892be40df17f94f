"""Files for Newton: found by its own key, loaded by its own code, sampled by its own kernel function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cook_parts
import shapes
from sdfcli.cook import newton as target
from sdfcli.cook.config import BAND, CookConfig
from sdfcli.cook.tables import NewtonCall
from sdfcli.errors import InputError, UsageError

newton = pytest.importorskip("newton", reason="needs `pip install newton`")
wp = pytest.importorskip("warp", reason="needs `pip install warp-lang`")
cache = pytest.importorskip("newton._src.geometry._sdf_cache", reason="needs Newton 1.8")
texture = pytest.importorskip("newton._src.geometry.sdf_texture", reason="needs Newton 1.8")
wp.config.quiet = True
POINTS = 100_000


@wp.kernel
def ask(sdf: texture.TextureSDFData, at: wp.array(dtype=wp.vec3), answer: wp.array(dtype=float)) -> None:  # type: ignore[valid-type]
    """Newton's own sampler."""
    i = wp.tid()
    answer[i] = texture.texture_sample_sdf(sdf, at[i])


def sampled(sdf: Any, points: cook_parts.Floats) -> cook_parts.Floats:
    """Distances that Newton finds at points, on the CPU."""
    answer = wp.zeros(len(points), dtype=float, device="cpu")
    at = wp.array(points.astype(np.float32), dtype=wp.vec3, device="cpu")
    wp.launch(ask, len(points), [sdf, at, answer], device="cpu")
    return np.asarray(answer.numpy(), np.float64)


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


@pytest.mark.parametrize("form", ["uint16", "float32", "uint8"])
def test_distances(form: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """At 10^5 points within the band, Newton's distance is the field's and the exact one, within the tolerance, and at
    nodes the field's; integers add half a step of theirs."""
    part = cook_parts.some_part(rng)
    config = CookConfig(
        tolerance=cook_parts.longest(part) / rng.uniform(40, 120), newton=NewtonCall(texture_format=form)
    )
    assert config.tolerance is not None
    field = cook_parts.field_of(target, part, config)
    written = target.write(field, part, config, tmp_path)
    data = cache.try_load_sparse_data(tmp_path, written.files[0].removesuffix(".sdf.npz"))
    assert data is not None
    sdf, *kept = texture.create_sparse_sdf_textures(data, "cpu", bool(rng.integers(2)))
    nodes = cook_parts.near_nodes(part, data["min_extents"], data["cell_size"][0], 2 * config.tolerance, 1000, rng)
    rounding = 2e-6 * np.abs(part.vertices).max()
    if form != "float32":
        rounding += float(data["subgrids_sdf_value_range"]) / np.iinfo(form).max / 2
    assert np.abs(sampled(sdf, nodes) - field.sample(nodes)).max() <= 0.02 * config.tolerance + rounding
    points = cook_parts.near_points(part, BAND * config.tolerance, POINTS, rng)
    answer = sampled(sdf, points)
    assert np.abs(answer - field.sample(points)).max() <= 0.875 * config.tolerance + rounding
    assert np.abs(answer - cook_parts.exact(part, points)).max() <= config.tolerance + rounding
    del kept


def test_found_by_newton(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The public call, its test for CUDA passed over, loads the file of a mesh read from the file beside it."""
    part = cook_parts.some_part(rng)
    config = CookConfig(cells=32)
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    trimesh = pytest.importorskip("trimesh")
    loaded = trimesh.load(tmp_path / written.files[1], force="mesh")
    mesh = newton.Mesh(loaded.vertices, loaded.faces.ravel())
    found = []
    load = cache.try_load_sparse_data
    monkeypatch.setattr(cache, "try_load_sparse_data", lambda *each: found.append(load(*each)) or found[-1])
    monkeypatch.setattr(wp, "is_cuda_available", lambda: True)
    mesh.build_sdf(device="cpu", cache_dir=tmp_path)
    assert found[0] is not None
    np.testing.assert_array_equal(found[0]["subgrid_data"].shape, 3 * [found[0]["subgrid_tex_size"]])


def test_key(rng: np.random.Generator) -> None:
    """Equal to Newton's hash, for any call."""
    for _ in range(20):
        vertices, faces = shapes.star(rng, int(rng.integers(3)))
        faces = faces[rng.random(len(faces)) < rng.choice([0.9, 1.0])]
        part = cook_parts.part_of((vertices, faces))
        mesh = newton.Mesh(vertices, faces.ravel(), compute_inertia=False)
        assert target.is_watertight(part.vertices, part.faces) == mesh.is_watertight
        call = NewtonCall(
            max_resolution=None if rng.random() < 0.5 else int(rng.integers(8, 512)),
            target_voxel_size=None if rng.random() < 0.5 else float(rng.random()),
            margin=float(rng.random()),
            narrow_band_range=(-float(rng.random()), float(rng.random())),
            texture_format=str(rng.choice(["uint8", "uint16", "float32"])),
            sign_method=str(rng.choice(["auto", "parity", "winding", "normal"])),
            is_solid=bool(rng.integers(2)),
            scale=None if rng.random() < 0.5 else (1.0, 2.0, float(rng.random())),
        )
        default = 64 if call.max_resolution is None and call.target_voxel_size is None else call.max_resolution
        auto = "parity" if mesh.is_watertight else "winding"
        expected = cache.hash_inputs(
            vertices=mesh.vertices,
            indices=mesh.indices,
            is_solid=call.is_solid,
            narrow_band_range=call.narrow_band_range,
            target_voxel_size=call.target_voxel_size,
            max_resolution=default,
            margin=call.margin,
            texture_format=call.texture_format,
            sign_method_resolved=auto if call.sign_method == "auto" else call.sign_method,
            winding_threshold=0.5,
            scale=call.scale,
        )
        assert target.cache_key(part, call) == expected


def test_soup(rng: np.random.Generator, tmp_path: Path) -> None:
    """A mesh with each triangle's own vertices, as in STL, is found as Newton loads it: welded."""
    trimesh = pytest.importorskip("trimesh")
    vertices, faces = shapes.star(rng, 1)
    part = cook_parts.part_of((vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3)))
    config = CookConfig(cells=16)
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    loaded = trimesh.load(tmp_path / written.files[1], force="mesh")
    assert len(loaded.vertices) == len(vertices)
    again = cook_parts.part_of((loaded.vertices, loaded.faces))
    assert f"{target.cache_key(again, config.newton)}.sdf.npz" == written.files[0]


def test_same_bytes(rng: np.random.Generator, tmp_path: Path) -> None:
    """Files have no time stamps."""
    part, config = cook_parts.some_part(rng), CookConfig(cells=16)
    field = cook_parts.field_of(target, part, config)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written = target.write(field, part, config, tmp_path / name)
    for name in written.files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_size(rng: np.random.Generator, tmp_path: Path) -> None:
    """The prediction is within a factor of 2; a limit coarsens a preset, and refuses what a tolerance cannot keep."""
    part, config = cook_parts.some_part(rng), CookConfig(cells=80)
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    size = cook_parts.size_of(written.files, tmp_path)
    assert size / 2 <= target.predicted_bytes(config, part) <= 2 * size
    assert target.predicted_bytes(CookConfig(max_bytes=size), part) <= size < target.predicted_bytes(CookConfig(), part)
    tolerance = cook_parts.longest(part) / 200
    with pytest.raises(InputError, match="a larger --tolerance or --max-bytes"):
        target.parameters(CookConfig(tolerance=tolerance, max_bytes=10_000), part)
    with pytest.raises(InputError, match="up to 1024; use --tolerance"):
        target.parameters(CookConfig(tolerance=tolerance / 10), part)


def test_usage() -> None:
    for wrong in ({"texture_format": "uint4"}, {"sign_method": "x"}, {"narrow_band_range": (1,)}, {"scale": (1, 2)}):
        with pytest.raises(UsageError, match="newton"):
            NewtonCall(**wrong)  # type: ignore[arg-type]
