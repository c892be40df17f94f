"""`sdfcli samples`: training samples from meshes."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.batch_options import (
    MANY,
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
from sdfcli.cli.build_options import BARS, Gap, MaxMemory, check_require, memory_limit
from sdfcli.cli.outcomes import Style
from sdfcli.params import SAMPLE_SIGNS, SAMPLES, SampleParams

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
Schema = Annotated[
    str,
    typer.Option("--schema", **options.words(*SAMPLES), help="Arrays of the file: those that this program reads."),
]
Count = Annotated[
    int | None,
    typer.Option(
        "--count",
        "-n",
        metavar="N",
        help=f"Number of samples per mesh; by default the schema's, {SAMPLES['deepsdf']:,} for deepsdf.",
        show_default=False,
    ),
]
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
Sign = Annotated[
    str,
    typer.Option(
        "--sign",
        **options.words(*SAMPLE_SIGNS),
        help="Sign method; auto chooses by the mesh's faults; flood: the mesh's solid, for open meshes and soups.",
    ),
]
Normals = Annotated[bool, typer.Option("--normals", help="Add unit normals, the gradients of the distance.")]
Normalized = Annotated[bool, typer.Option("--normalized", help="Scale the shape to the unit sphere, as DeepSDF does.")]
Angle = Annotated[
    float | None,
    typer.Option(
        metavar="DEGREES",
        help="Minimum angle between the normals at a sharp edge; by default the schema's, 20 for hunyuan, 15 for dora.",
        show_default=False,
    ),
]
Grid = Annotated[
    int | None,
    typer.Option(
        metavar="CELLS",
        help="Add a sparse grid of so many cells per axis: its edges' crossings with the surface, with normals.",
        show_default=False,
    ),
]
ShardSize = Annotated[
    int | None,
    typer.Option(
        "--shard-size",
        min=1,
        metavar="N",
        help="Write tar files of N meshes each, as WebDataset reads them, into the output folder.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]
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
    schema: Schema = SampleParams.schema,
    count: Count = None,
    uniform: Uniform = SampleParams.uniform,
    surface: Surface = SampleParams.surface,
    sigma: Sigma = SIGMA,
    normals: Normals = False,
    normalized: Normalized = False,
    angle: Angle = None,
    grid: Grid = None,
    seed: Seed = SampleParams.seed,
    sign: Sign = SampleParams.sign,
    gap: Gap = None,
    holes: options.Holes = SampleParams.holes,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    recursive: Recursive = False,
    jobs: Jobs = None,
    shard_size: ShardSize = None,
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
    """Draw training samples for DeepSDF and for generators of shapes: points with exact distances, from meshes.

    Example: sdfcli samples shapes/ -o train/ --normalized --skip-existing
    """
    from sdfcli.batch.messages import Settings
    from sdfcli.batch.run import BuildRequest
    from sdfcli.batch.shards import shards_of

    most = memory_limit(max_memory)
    params = SampleParams.of(
        schema=schema,
        count=count,
        uniform=uniform,
        surface=surface,
        sigma=sigma,
        normals=normals,
        normalized=normalized,
        angle=angle,
        grid=grid,
        seed=seed,
        sign=sign,
        gap=gap,
        holes=holes,
    )
    check_jobs(jobs, scheduler)
    check_require(require)
    settings = Settings(
        device, threads, most, samples=params, force=force, skip_existing=skip_existing, require=require
    )
    found, raises = jobs_of(meshes, output, recursive, ENDINGS), not json and report is None
    shards = shards_of(found, output, shard_size) if shard_size else []
    if shards:
        found = [job for shard in shards for job in shard.jobs]
    request = BuildRequest(found, settings, jobs, timeout, fail_fast, scheduler, raises, shards)
    code = run_all(request, Style(json, quiet, verbose=False), report)
    if code:
        raise typer.Exit(code)
