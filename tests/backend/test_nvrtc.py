"""The GPU kernels compile, as CuPy would have it. NVRTC needs no GPU for that."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from nvrtc import compile_kernels

from sdfcli.backend.base import KERNELS, argument_structs
from sdfcli.backend.cuda import COMPILER_OPTIONS, kernel_sources

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")


def kernel_names() -> list[str]:
    """The kernels of SDF_KERNELS, the list from which the CPU's entry points are made, and of SDF_WARP_KERNELS."""
    listed = re.findall(r"#define SDF_(?:WARP_)?KERNELS\(X\)((?:.*\\\n)*.*)", (KERNELS / "kernels.h").read_text())
    assert len(listed) == 2
    return re.findall(r"X\((\w+)\)", "".join(listed))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile(architecture: str) -> None:
    options = (*COMPILER_OPTIONS, f"--gpu-architecture={architecture}")
    sources = kernel_sources()
    modules = list(dict.fromkeys(sources.values()))
    with ThreadPoolExecutor() as threads:  # the compiler needs no GIL
        cubins = dict(zip(modules, threads.map(lambda source: compile_kernels(source, *options), modules), strict=True))
    names = kernel_names()
    assert len(names) > 20
    assert [name for name in names if f".text.{name}\0".encode() not in cubins[sources[name]]] == []


def test_a_module_has_the_kernels_of_one_header() -> None:
    sources = kernel_sources()
    assert sources["sdf_bvh_build"] == sources["sdf_bvh_refit"] != sources["sdf_render"]
    assert "SDF_GPU_ENTRY(sdf_render)" not in sources["sdf_bvh_build"]
    assert "SDF_WARP_ENTRY(sdf_distance_lone)" in sources["sdf_distance_lone"]
    assert all(f"_ENTRY({kernel})" in source for kernel, source in sources.items())


def test_every_kernel_has_arguments() -> None:
    assert [name for name in kernel_names() if name not in argument_structs()] == []
