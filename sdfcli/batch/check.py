"""Check of a mesh, with the verdict that its field has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sdfcli.backend.select import first_device
from sdfcli.mesh.load import MeshSource
from sdfcli.params import BuildKeywords, BuildOptions, BuildParams, parse_size, refuse_flood
from sdfcli.pipeline import build_field
from sdfcli.quality.check import MeshCheck, estimated_check
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.signature import takes

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(BuildKeywords, BuildParams)
def check(
    source: MeshSource,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | str | None = None,
    **parameters: Unpack[BuildKeywords],
) -> MeshCheck:
    """Checks a mesh: its faults, their treatment in a build, and a verdict, that of a build with the same parameters.
    Where lost thin walls decide it, the field is built and discarded.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: CPU thread count; default: all CPUs available to the process.
        max_memory: memory limit of a build that decides the verdict, in bytes, or as text such as `4G`; default: 90 %
            of the free memory.
        parameters: the parameters of `BuildParams`.

    Returns:
        A dictionary with the keys that `sdfcli check --json` prints. Its `verdict` is `good`, `usable` or `doubtful`.

    Raises:
        InputError: an unusable mesh.
        UsageError: a parameter is out of range, or the mesh leaves the domain.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh does not fit into memory.
    """
    return check_for(source, BuildParams.of(**parameters), BuildOptions(device, threads, parse_size(max_memory)))


@memory_errors()
def check_for(source: MeshSource, params: BuildParams, options: BuildOptions) -> MeshCheck:
    """`check` with checked parameters."""
    refuse_flood(params, "checks")
    report, undecided = estimated_check(source, params, first_device(options.device), options.threads)
    if undecided:
        info = build_field(source, params, replace(options, hashed=False)).info
        report["measured"], report["verdict"] = True, info["verdict"]
        report["sheets"] = {name: info["sheets"][name] for name in report["sheets"]}
    return report
