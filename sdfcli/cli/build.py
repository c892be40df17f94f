"""`sdfcli build`: meshes become fields."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table, progress
from sdfcli.errors import OutOfMemoryError, SdfError, UsageError

if TYPE_CHECKING:
    from sdfcli.field import Field


FAULTS = (
    "open_edges",
    "non_manifold_edges",
    "inconsistent_edges",
    "degenerate_faces",
    "duplicate_faces",
    "inverted_shells",
    "crossing_faces",
)

ERROR_LIMITS = {
    "depth": ", missed: the finest leaves are too large; try a larger --depth",
    "samples": ", missed between the points at which a leaf is judged; try a smaller one",
    "triangles": ", which this octree does not strive for",
}


def build(
    meshes: Annotated[
        list[str], typer.Argument(metavar="MESH...", help="Triangle meshes: PLY, OBJ, STL, OFF, GLB ...")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; a folder for several meshes. NAME.h5 by default."),
    ] = None,
    octree: Annotated[
        str, typer.Option(metavar="adaptive|bvh", help="Split where the field errs, or where triangles are dense.")
    ] = "adaptive",
    depth: Annotated[
        int | None,
        typer.Option(
            help="The finest level of the octree: 10, or more if a tolerance below 6e-4 needs it.", show_default=False
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest error, as a fraction of the bounding box's diagonal.")
    ] = 1e-3,
    band: Annotated[
        float, typer.Option(help="Distance, as such a fraction, beyond which the tolerance grows with the distance.")
    ] = 0.02,
    sign: options.Sign = "auto",
    query: options.Query = "fast",
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Store the triangle nearest to every corner, for --previous.")
    ] = False,
    previous: Annotated[
        Path | None,
        typer.Option(help="An earlier frame's field, built with --nearest: where queries start. Implies --nearest."),
    ] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory to use at most, as 800M or 4G: 90 % of what is free by default."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how large the field will be and what it takes; write nothing.")
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the seconds of every stage.")] = False,
) -> None:
    """Turn meshes into adaptive signed distance fields (HDF5).

    Example: sdfcli build bunny.ply --tolerance 5e-4 -o bunny.h5
    """
    from sdfcli.estimate import parse_size
    from sdfcli.params import BuildParams

    most = None if max_memory is None else parse_size(max_memory)
    parameters = {"octree": octree, "depth": depth, "tolerance": tolerance, "band": band, "sign": sign, "query": query}
    BuildParams(**parameters)  # type: ignore[arg-type]
    settings: dict[str, Any] = {**parameters, "device": device, "threads": threads, "max_memory": most}
    earlier = None
    if previous is not None:
        from sdfcli.store import load

        earlier = load(previous)
    frames = {"keep_nearest": nearest or earlier is not None, "previous": earlier}
    worst = 0
    for mesh, target in _targets(meshes, None if dry_run else output, force or dry_run):
        try:
            if dry_run:
                worst = max(worst, _estimate_one(mesh, settings, json))
                continue
            report, seconds = _build_one(mesh, target, settings | frames, force, quiet)
        except SdfError as error:
            if len(meshes) == 1 and not json:
                raise
            worst = max(worst, error.exit_code)
            typer.echo(f"sdfcli: {error}", err=True)
            if json:
                print_json({"input": mesh, "output": None, "status": "failed", "error": str(error)})
            continue
        if report["sign"] == "none" and sign != "none" and not quiet:
            typer.echo(f"sdfcli: warning: {mesh}: distances without signs: {report['sign_reason']}", err=True)
        if json:
            print_json(report)
        elif not quiet:
            _print_report(report, seconds if verbose else None)
        if previous is not None and not report["previous_used"] and not quiet:
            typer.echo(f"note: {mesh} has another number of triangles than {previous}, which was not used", err=True)
    if worst:
        raise typer.Exit(worst)


def _targets(meshes: list[str], output: Path | None, force: bool) -> list[tuple[str, Path]]:
    """Each mesh with the file to write. Raises UsageError where two would be the same, or one exists."""
    from sdfcli.store import refuse_existing

    into_folder = output is not None and (len(meshes) > 1 or output.is_dir())
    targets = []
    for mesh in meshes:
        name = Path(mesh).stem + ".h5"
        targets.append((mesh, output / name if output and into_folder else output or Path(name)))
    seen: dict[Path, str] = {}
    for mesh, target in targets:
        if target in seen:
            raise UsageError(f"{seen[target]} and {mesh} would both be written to {target}")
        seen[target] = mesh
        refuse_existing(target, force)
    if output and into_folder:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{output}: cannot be made a folder: {error.strerror}") from error
    folder = targets[0][1].parent
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    return targets


def _estimate_one(mesh: str, settings: dict[str, Any], json: bool) -> int:
    """Prints what a build would take; returns the exit code with which it would end."""
    from sdfcli.estimate import estimate

    found = estimate(mesh, **settings)
    if json:
        print_json({"input": mesh, "status": "ok" if found.fits else "too large", **found.as_dict()})
    else:
        rows = [
            ("leaves", f"about {found.leaves:,}"),
            ("time", f"about {found.seconds:.0f} s on {found.device}"),
            ("memory", f"about {human_bytes(found.memory_bytes)} of {human_bytes(found.limit_bytes)}"),
            ("file", f"about {human_bytes(found.file_bytes)}"),
        ]
        print_table(mesh, rows)
    if found.fits:
        return 0
    typer.echo(
        f"sdfcli: {mesh}: needs about {human_bytes(found.memory_bytes)}, and {human_bytes(found.limit_bytes)} may be "
        "used; try a larger --tolerance, a smaller --depth, or more --max-memory",
        err=True,
    )
    return OutOfMemoryError.exit_code


def _build_one(
    mesh: str,
    target: Path,
    settings: dict[str, Any],
    force: bool,
    quiet: bool,
) -> tuple[dict[str, Any], dict[str, float]]:
    from sdfcli.pipeline import build as build_field

    Thread(target=import_module, args=("h5py",)).start()  # while kernels run

    with progress(mesh, quiet) as tell:
        field = build_field(mesh, progress=tell, **settings)
        tell("writing")
        start = time.perf_counter()
        field.save(target, force)
        seconds = dict(field.run["seconds"])
        seconds["write"] = time.perf_counter() - start
        seconds["total"] = seconds.pop("total") + seconds["write"]
    return _report(mesh, target, field, seconds), seconds


def _report(mesh: str, target: Path, field: Field, seconds: dict[str, float]) -> dict[str, Any]:
    info = field.info
    return {
        "input": mesh,
        "output": str(target),
        "status": "ok",
        "triangles": info["mesh"]["triangles"],
        "vertices": info["mesh"]["vertices"],
        "watertight": info["mesh"]["watertight"],
        "verdict": info["verdict"],
        "health": info["mesh"],
        "sign": info["sign"],
        "sign_reason": info["sign_reason"],
        "sign_confidence": info["sign_confidence"],
        "octree": info["parameters"]["octree"],
        "depth": info["depth"],
        "tolerance": info["parameters"]["tolerance"],
        "leaves": len(field.leaf_key),
        "corners": len(field.corner_key),
        "jump_leaves": info["jump_leaves"],
        "max_error": info["max_error"],
        "rms_error": info["rms_error"],
        "error_limit": info["error_limit"],
        "previous_used": field.run["previous"],
        "device": field.run["device"],
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "bytes": target.stat().st_size,
        "content_sha256": field.content_sha256,
    }


def health_text(health: dict[str, Any]) -> str:
    """The state of a mesh in a few words."""
    faults = [f"{health[key]:,} {key.replace('_', ' ')}" for key in FAULTS if health.get(key)]
    return ", ".join(["watertight" if health["watertight"] else "not watertight", *faults])


def verdict_text(report: dict[str, Any]) -> str:
    """The verdict on a mesh, with the certainty of the sign where there is one."""
    confidence = report["sign_confidence"]
    sure = "" if confidence is None else f" (sign certain at {confidence:.1%} of the points near the surface)"
    return str(report["verdict"]) + sure


def _print_report(report: dict[str, Any], seconds: dict[str, float] | None) -> None:
    rows = [
        ("triangles", f"{report['triangles']:,}"),
        ("mesh", health_text(report["health"])),
        ("sign", f"{report['sign']} ({report['sign_reason']})"),
        ("verdict", verdict_text(report)),
        (
            "octree",
            f"{report['octree']}, {report['leaves']:,} leaves, {report['corners']:,} corners, depth {report['depth']}",
        ),
        (
            "error",
            f"max {error_text(report['max_error'])}, rms {error_text(report['rms_error'])} of the diagonal "
            f"(tolerance {error_text(report['tolerance'])}{ERROR_LIMITS.get(report['error_limit'], '')})",
        ),
    ]
    if report["jump_leaves"]:
        rows.append(("holes", f"closed across {report['jump_leaves']:,} leaves in which the sign jumps"))
    rows += [
        ("time", f"{report['seconds']['total']:.2f} s on {report['device']}"),
        ("file", f"{report['output']}, {human_bytes(report['bytes'])}"),
    ]
    print_table(report["input"], rows)
    if seconds:
        print_table("", [(name, f"{value:.3f}") for name, value in seconds.items()], ("stage", "seconds"))
