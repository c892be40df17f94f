"""`sdfcli cook`: an asset's collision meshes as simulators load them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sdfcli.cli import options
from sdfcli.cli.batch_options import FailFast, Jobs, Timeout
from sdfcli.cli.build_options import ACCURACY, MaxMemory, Scale, memory_limit
from sdfcli.cli.output import error_line, error_text, human_bytes, print_json, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Line, one_of, took
from sdfcli.cook.config import TARGETS, CookConfig
from sdfcli.errors import EXIT_CODES, InputError, SdfError, worst_code
from sdfcli.params import parse_size

if TYPE_CHECKING:
    from sdfcli.cook.run import CookedPart, CookRequest

Target = Annotated[str, one_of(*TARGETS), "`--for`: the simulator"]
Place = Annotated[str, "the collision mesh's place in the asset"]


class CookedMesh(Line, title="cook", shared="input output bytes seconds triangles leaves verdict"):
    """A line per collision mesh and target. Lengths are in metres."""

    status: Annotated[Literal["ok"], "`ok`"]
    target: Target
    part: Place
    files: Annotated[list[str], "files written"]
    largest_error: Annotated[Amount, "largest error of the field at random points, in metres"]
    allowed_error: Annotated[Amount, "maximum allowed error, in metres"]
    cached: Annotated[bool, "whether the field was in the cache"]


class FailedMesh(Line, title="cook, failed", shared="input error"):
    """A line per collision mesh without files."""

    status: Annotated[Literal["failed"], "`failed`"]
    exit_code: Annotated[int, one_of(*list(EXIT_CODES)[1:]), "exit code for this mesh"]
    target: Annotated[str | None, "`--for`; null for a mesh that cannot be read"]
    part: Annotated[str | None, "the collision mesh's place in the asset; null if the error tells it"]


class CookedScene(Line, title="cook, scene", shared="input output seconds"):
    """A line per changed scene, after its meshes."""

    target: Target
    meshes: Annotated[Count, "collision meshes in it that were cooked"]
    left: Annotated[Count, "and that are as they were"]


class PlannedMesh(Line, title="cook --dry-run", shared="input triangles"):
    """A line per collision mesh and target, with `--dry-run`."""

    target: Target
    part: Place
    size: Annotated[list[float], "the mesh's extents x, y, z, in metres"]
    allowed_error: Annotated[Amount, "maximum allowed error, in metres"]
    predicted_bytes: Annotated[Count, "estimated size of its files"]
    cached: Annotated[bool, "whether the cache has its field"]


def cook(
    asset: Annotated[
        Path,
        typer.Argument(metavar="ASSET", help="Mesh, field, or scene: .urdf, .xml (MJCF), .usd; its collision meshes."),
    ],
    target: Annotated[
        list[str],
        typer.Option("--for", **options.words(*TARGETS), help="Simulator; repeat it for several.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Output folder; for several simulators, one each in it."),
    ],
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Maximum error near the surface; by default the simulator's preset, a share of each mesh's size.",
            show_default=False,
        ),
    ] = None,
    band: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Distance from the surface beyond which the tolerance grows; by default eight tolerances.",
            show_default=False,
            rich_help_panel=ACCURACY,
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Space around a mesh's box, for simulators that store boxes.",
            show_default=False,
            rich_help_panel=ACCURACY,
        ),
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Cells along the longest side, for simulators that store grids; by default as the tolerance asks.",
            show_default=False,
            rich_help_panel=ACCURACY,
        ),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Maximum size of a mesh's files, such as 20M.", show_default=False),
    ] = None,
    solid: Annotated[
        bool, typer.Option("--solid", help="Cook the solids that `sdfcli solidify` makes, for soups and open meshes.")
    ] = False,
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of one simulator, as newton.max_resolution=128; repeat it for several.",
            show_default=False,
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    scale: Scale = None,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that a scene's files must be in; by default that of the scene, or of its package.",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of fields built before; by default in the user's cache.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the meshes and the files' sizes; build nothing.")
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    jobs: Jobs = None,
    fail_fast: FailFast = False,
    timeout: Timeout = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
) -> None:
    """Cook collision meshes for simulators: fields in the files that MuJoCo, Newton, Bullet and others load.

    Example: sdfcli cook robot.urdf --for bullet -o cooked/
    """
    from sdfcli.batch.messages import Settings
    from sdfcli.cook.asset import read_asset
    from sdfcli.cook.run import CookRequest, user_cache
    from sdfcli.cook.tables import tables_of
    from sdfcli.cook.target import target_of

    most = memory_limit(max_memory)
    targets = tuple(dict.fromkeys(target))
    for each in targets:
        target_of(each)
    config = CookConfig(tolerance, band, margin, cells, parse_size(max_bytes), solid=solid, **tables_of(choices or []))
    with progress(str(asset), quiet or json) as update:
        update("reading")
        found = read_asset(asset, scale, root)
    settings = Settings(device, threads, most, force=force)
    request = CookRequest(found, targets, output, cache or user_cache(), config, settings, jobs, timeout, fail_fast)
    if not quiet:
        for note in found.notes:
            say(f"note: {asset}: {note}")
    codes = [_say_fault(asset, fault, json) for fault in found.faults]
    if dry_run:
        _plan(request, json, quiet)
    else:
        codes += _cook(request, json, quiet)
    if code := worst_code([0, *codes]):
        raise typer.Exit(code)


def _say_fault(asset: Path, fault: str, json: bool) -> int:
    """Reports a collision mesh that cannot be read; returns its exit code."""
    if json:
        facts: dict[str, Any] = {"target": None, "part": None, "error": fault, "exit_code": InputError.exit_code}
        print_json(FailedMesh(input=str(asset), status="failed", **facts))
    say(f"sdfcli: {fault}")
    return InputError.exit_code


def _cook(request: CookRequest, json: bool, quiet: bool) -> list[int]:
    from sdfcli.cook.run import cook as cook_parts

    asset, start = request.asset, time.perf_counter()
    results: list[CookedPart] = []
    with progress(str(asset.path), quiet or json) as update:
        for result in cook_parts(request, update):
            results.append(result)
            _show(result, request, json, quiet)
    seconds = time.perf_counter() - start
    if json and asset.scene is not None:
        for target in request.targets:
            own = [each for each in results if each.target == target]
            good = sum(each.error is None for each in own)
            if good:
                place = request.folder / request.folder_of(target) / asset.scene.name
                facts: dict[str, Any] = {"target": target, "meshes": good, "left": len(own) - good + len(asset.faults)}
                print_json(CookedScene(input=str(asset.path), output=str(place), seconds=took(seconds), **facts))
    if not json and not quiet:
        _print(request, results, seconds)
    return [each.error.exit_code for each in results if each.error is not None]


def _show(result: CookedPart, request: CookRequest, json: bool, quiet: bool) -> None:
    """Reports one mesh."""
    source = str(request.asset.path)
    if result.error is not None:
        if json:
            facts: dict[str, Any] = {"target": result.target, "part": result.part.place, "error": str(result.error)}
            print_json(FailedMesh(input=source, status="failed", exit_code=result.error.exit_code, **facts))
        say(f"sdfcli: {error_line(result.error)}")
        return
    if json:
        files = [str(request.folder / each) for each in result.files]
        print_json(
            CookedMesh(
                input=source,
                output=files[0],
                status="ok",
                target=result.target,
                part=result.part.place,
                files=files,
                triangles=result.triangles,
                leaves=result.leaves,
                verdict=result.verdict,
                largest_error=result.max_error,
                allowed_error=result.tolerance,
                cached=result.cached,
                bytes=result.bytes,
                seconds={**result.seconds, "total": round(sum(result.seconds.values()), 4)},
            )
        )
    if not quiet and result.misses:
        far, allowed = (f"{error_text(1000 * length)} mm" for length in (result.max_error, result.tolerance))
        say(f"note: {result.part.place}: the error {far} misses the tolerance {allowed}; a larger --band may keep it")
    if not quiet and result.verdict == "doubtful":
        say(f"note: {result.part.place}: doubtful: its inside is uncertain; --solid makes a solid of it")


def _print(request: CookRequest, results: list[CookedPart], seconds: float) -> None:
    """Prints a table of all meshes, and where the files are."""
    good = [each for each in results if each.error is None]
    several = len(request.targets) > 1
    rows = [
        (
            " ".join([each.part.name, *([f"for {each.target}"] if several else [])]),
            f"{each.triangles:,}",
            f"{each.leaves:,}",
            f"{error_text(1000 * each.max_error)} of {error_text(1000 * each.tolerance)}",
            human_bytes(each.bytes),
            "cached" if each.cached else f"{each.seconds.get('build', 0):.2f} s",
        )
        for each in good
    ]
    if rows:
        header = ("mesh", "triangles", "leaves", "field's error, mm", "size", "build")
        print_table(str(request.asset.path), rows, header)
    left = len(results) - len(good)
    scene = request.asset.scene
    for target in request.targets if good else ():
        place = request.folder / request.folder_of(target)
        say(f"{target}: {place / scene.name if scene else place}")
    failed = f", {left:,} failed" if left else ""
    say(f"{len(good):,} cooked{failed}, in {seconds:.1f} s")


def _plan(request: CookRequest, json: bool, quiet: bool) -> None:
    """Prints what would be cooked."""
    from sdfcli.cook.target import placed, target_of

    rows, total = [], 0
    for target in request.targets:
        for part in request.asset.parts:
            try:
                own = placed(target_of(target), part)
                params = request.params(target, own)
                size = target_of(target).predicted_bytes(request.config, part)
            except SdfError as error:
                _say_fault(request.asset.path, f"{part.place}: {error}", json)
                continue
            allowed = params.tolerance * (params.unit or own.diagonal)
            cached = request.asset.field is None and request.field_file(own, params).is_file()
            extents = [float(each) for each in part.vertices.max(axis=0) - part.vertices.min(axis=0)]
            total += size
            if json:
                print_json(
                    PlannedMesh(
                        input=str(request.asset.path),
                        target=target,
                        part=part.place,
                        triangles=len(part.faces),
                        size=extents,
                        allowed_error=allowed,
                        predicted_bytes=size,
                        cached=cached,
                    )
                )
            box = " x ".join(f"{1000 * each:.3g}" for each in extents)
            facts = (
                f"{len(part.faces):,}",
                box,
                error_text(1000 * allowed),
                human_bytes(size),
                "yes" if cached else "no",
            )
            rows.append((f"{part.name} for {target}", *facts))
    if not json and not quiet and rows:
        header = ("mesh", "triangles", "size, mm", "tolerance, mm", "about", "cached")
        print_table(str(request.asset.path), rows, header)
        say(f"about {human_bytes(total)} in all; nothing was built")
