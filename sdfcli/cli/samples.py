"""`sdfcli samples`: training samples from meshes."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.batch_options import (
    FailFast,
    Jobs,
    Meshes,
    Recursive,
    Report,
    Scheduler,
    SkipExisting,
    Timeout,
    check_jobs,
    jobs_of,
    run_all,
)
from sdfcli.cli.build_options import BARS, MaxMemory, check_require, memory_limit
from sdfcli.cli.outcomes import Style
from sdfcli.params import SampleParams

ENDINGS = (".npz",)
SIGMA = ",".join(map(str, SampleParams.sigma))

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Output file, folder for several meshes, or s3:// URL; NAME.npz by default. {name} stands for the mesh's "
        "name, as in 'out/{name}.npz'.",
    ),
]
Count = Annotated[int, typer.Option("--count", "-n", metavar="N", help="Number of samples per mesh.")]
Uniform = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of samples uniform in the enclosing sphere's bounding cube.")
]
Surface = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of samples on the surface; the others lie near it.")
]
Sigma = Annotated[
    str,
    typer.Option(
        metavar="S1,S2,...",
        help="Standard deviations of the samples near the surface, each for the same number, in radii of the "
        "enclosing sphere.",
    ),
]
Normals = Annotated[bool, typer.Option("--normals", help="Add unit normals, the gradients of the distance.")]
Normalized = Annotated[bool, typer.Option("--normalized", help="Scale the shape to the unit sphere, as DeepSDF does.")]
Require = Annotated[
    str | None,
    typer.Option(
        "--require",
        **options.words(*BARS),
        help="Worst verdict for exit code 0; a worse one has exit code 6.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same files.")]


def samples(
    meshes: Meshes,
    output: Output = None,
    count: Count = SampleParams.count,
    uniform: Uniform = SampleParams.uniform,
    surface: Surface = SampleParams.surface,
    sigma: Sigma = SIGMA,
    normals: Normals = False,
    normalized: Normalized = False,
    seed: Seed = SampleParams.seed,
    sign: options.Sign = SampleParams.sign,
    holes: options.Holes = SampleParams.holes,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    recursive: Recursive = False,
    jobs: Jobs = None,
    skip_existing: SkipExisting = False,
    fail_fast: FailFast = False,
    timeout: Timeout = None,
    require: Require = None,
    report: Report = None,
    scheduler: Scheduler = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
) -> None:
    """Draw training samples for DeepSDF and similar networks: points with exact distances, from meshes.

    Example: sdfcli samples shapes/ -o train/ --normalized --skip-existing
    """
    from sdfcli.batch.messages import Settings
    from sdfcli.batch.run import BuildRequest

    most = memory_limit(max_memory)
    params = SampleParams.of(
        count=count,
        uniform=uniform,
        surface=surface,
        sigma=sigma,
        normals=normals,
        normalized=normalized,
        seed=seed,
        sign=sign,
        holes=holes,
    )
    check_jobs(jobs, scheduler)
    check_require(require)
    settings = Settings(
        device, threads, most, samples=params, force=force, skip_existing=skip_existing, require=require
    )
    found, raises = jobs_of(meshes, output, recursive, ENDINGS), not json and report is None
    request = BuildRequest(found, settings, jobs, timeout, fail_fast, scheduler, raises)
    code = run_all(request, Style(json, quiet, verbose=False), report)
    if code:
        raise typer.Exit(code)
