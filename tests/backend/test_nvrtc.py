"""The GPU kernels compile, as CuPy would have it. NVRTC needs no GPU for that."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nvrtc import compile_kernels, version

from backends import compiled
from sdfcli.backend import headers as texts
from sdfcli.backend.arguments import argument_structs
from sdfcli.backend.cpu import CpuBackend
from sdfcli.backend.headers import COMPILER_OPTIONS, headers, kernel_sources

HASTY = ("--Ofast-compile=max",)
"""Compiles without optimisation, in a fifth of the time."""
needs_nvrtc = pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")


def kernel_kinds() -> dict[str, str]:
    """Every kernel of the headers, and its kind."""
    return dict(re.findall(r"^SDF_KERNEL\((\w+), (\w+), \w+\)", "\n".join(headers().values()), re.MULTILINE))


@needs_nvrtc
@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("sm_80", HASTY),
        ("sm_90", ()),  # as a GPU's first run does it
        ("sm_100", HASTY),
        pytest.param("sm_80", (), marks=pytest.mark.nightly),
        pytest.param("sm_100", (), marks=pytest.mark.nightly),
    ],
)
def test_kernels_compile(architecture: str, more: tuple[str, ...]) -> None:
    options = (*COMPILER_OPTIONS, f"--gpu-architecture={architecture}", *more)
    sources = kernel_sources()
    modules = list(dict.fromkeys(sources.values()))

    def cubin(source: str) -> bytes:
        def make(file: Path) -> None:
            file.write_bytes(compile_kernels(source, *options))

        return compiled([repr((version(), options)).encode(), source.encode()], make).read_bytes()

    with ThreadPoolExecutor() as threads:  # the compiler needs no GIL
        cubins = dict(zip(modules, threads.map(cubin, modules), strict=True))
    names = kernel_kinds()
    assert len(names) > 90
    assert [name for name in names if f".text.{name}\0".encode() not in cubins[sources[name]]] == []
    render = cubins[sources["sdf_render"]]
    assert [name for name in names if f".text.{name}\0".encode() in render] == ["sdf_render", "sdf_render_beside"]


def test_a_module_has_the_kernels_of_one_header() -> None:
    sources = kernel_sources()
    assert sources.keys() == kernel_kinds().keys()
    assert sources["sdf_bvh_build"] == sources["sdf_bvh_refit"] != sources["sdf_render"]
    assert len(set(sources.values())) > 20


def test_an_edit_recompiles_the_kernels_of_headers_that_include_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_sources()

    def changed_by(name: str) -> set[str]:
        edited = {**headers(), name: headers()[name].replace("SDFCLI_", "SDFCLI_EDITED_")}
        monkeypatch.setattr(texts, "headers", lambda: edited)
        return {kernel for kernel, source in kernel_sources.__wrapped__().items() if source != before[kernel]}

    assert changed_by("surface/render.h") == {"sdf_render", "sdf_render_beside"}
    packets = {"sdf_distance_packet", "sdf_distance_sample", "sdf_distance_single"}
    assert changed_by("distance/packet.h") == packets | {"sdf_octree_grow"}
    proofs = {f"sdf_proof_{name}" for name in ("corners", "centres", "cells", "settle", "split")}
    proofs |= {"sdf_patch_near", "sdf_patch_bound", "sdf_patch_split", "sdf_patch_exact"}
    exact = {"sdf_exact_distance", "sdf_exact_winding", "sdf_ray_first", "sdf_ray_count"}
    assert changed_by("verify/exact.h") == exact | proofs
    octree = changed_by("octree/levels.h")
    assert {"sdf_octree_screen", "sdf_octree_balance", "sdf_octree_corners"} <= octree
    assert all(name.startswith(("sdf_octree", "sdf_field_corners", "sdf_split_leaf")) for name in octree)
    assert changed_by("base/portable.h") == before.keys()


def test_every_kernel_has_arguments() -> None:
    on_cpu = {"sdf_distance_wide", "sdf_nearest_triangles_wide", "sdf_wide_order"}
    assert kernel_kinds().keys() == argument_structs().keys() - on_cpu


def test_the_cpu_has_all_kernels_but_those_by_warps(cpu: CpuBackend) -> None:
    warps = {name for name, kind in kernel_kinds().items() if kind in ("WARP", "SHUFFLE", "GRID")}
    assert len(warps) > 10
    assert {name for name in argument_structs() if not cpu.offers(name)} == warps
