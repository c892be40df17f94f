"""`sdfcli extract`: isosurfaces as triangle meshes."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import (
    FrameRange,
    check_choice,
    check_no_mesh,
    fields_of,
    for_each,
    numbered,
    open_field,
    outputs_of,
    pattern_of,
    say_file_notes,
    single,
)
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table, progress, say
from sdfcli.cli.records import ABSENT, Amount, Count, Json, Line, Vector, keyed, one_of, size
from sdfcli.cli.wording import length_text, rounded_up
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.params import NAME

if TYPE_CHECKING:
    from sdfcli.backend import Backend
    from sdfcli.extract.marching_cubes import Surface
    from sdfcli.extract.sources import Grid
    from sdfcli.query.mesh_distance import MeshDistance


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Fields, level sets (.vdb, .nvdb), folders of fields, quoted patterns, or volumes (.npy, .npz or .vti).",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Mesh file: .ply, .obj, .stl or .glb; NAME_iso.ply by default. For several fields a folder, out/, or a "
        "name with {name} for the field's, 'out/{name}.stl'.",
    ),
]
Cells = Annotated[
    int | None,
    typer.Option(
        help="Grid cells per domain axis; by default the fewest, a power of two, that keep the surface within half the "
        "tolerance of the field, at most 1024.",
        show_default=False,
    ),
]
Iso = Annotated[
    float, typer.Option(metavar="D", help="Iso value, a distance or a volume's value; smaller values are inside.")
]
Spacing = Annotated[
    str | None,
    typer.Option(
        metavar="S|SX,SY,SZ", help="Grid spacing of a .npy volume: S or SX,SY,SZ; 1 by default.", show_default=False
    ),
]


Reference = Annotated[
    Path | None,
    typer.Option(
        "--mesh",
        help="Mesh that the field was built from, to measure the surface's error; without it, against the field.",
        show_default=False,
    ),
]
Sharp = Annotated[bool, typer.Option("--sharp", help="Make the edges and corners of --mesh sharp.")]


class Extracted(Line, title="extract", shared="input output bytes seconds device"):
    """One line."""

    iso: Annotated[float, "iso value: a distance, or a volume's value"]
    cells: Annotated[list[Count], size(3), "grid cells along x, y, z"]
    triangles: Annotated[Count, "surface triangles"]
    vertices: Annotated[Count, "surface vertices"]
    closed: Annotated[bool, "whether the surface is closed; false if it reaches the grid's border"]
    deviation: Annotated[
        Json | None,
        keyed(float, "max rms"),
        "distance of vertices and face centres from the level set of `deviation_from`, in the mesh's units; not for "
        "volumes",
    ] = None
    deviation_from: Annotated[
        str | None, one_of("field", "mesh"), "`mesh` with `--mesh`, by exact distances; else `field`, by its values"
    ] = None
    proven_error: Annotated[
        Amount | None,
        "largest possible difference of the exact distance from `iso` on the surface (for 0: its largest possible "
        "distance from the mesh), in the mesh's units, rounding of the file included; with it and the keys below, for "
        "fields with proven bounds",
    ] = ABSENT
    unproven_triangles: Annotated[Count, "triangles without a bound, at open holes, which it leaves out"] = ABSENT
    proven_reverse: Annotated[
        Amount | None, "largest possible distance of the mesh's points from the surface; null for another `iso` than 0"
    ] = ABSENT
    lost_leaves: Annotated[
        Count,
        "leaves where the mesh may have surface that was lost: farther than their diagonal, and twice the error, away",
    ] = ABSENT
    lost_at: Annotated[Vector, "centre of the one with the largest such distance, if there are any"] = ABSENT
    sharp_parts: Annotated[
        Json,
        keyed(int, "edges corners folded"),
        "with `--sharp`: vertices on sharp edges, and at corners, bends and tips; triangles that face away from the "
        "mesh, where the surface may cross itself",
    ] = ABSENT
    stages: Annotated[
        Json,
        keyed(float, "source flags flag_scan cases count_scan polygons copy"),
        "the extraction's seconds on the devices' clocks, summed over devices: the input, cells with the surface, "
        "their scan, their cases, the scan of vertices and triangles, these, and the copy to the host",
    ]
    scan_share: Annotated[Amount, "share of the two scans in the five stages between input and copy"]


class ExtractedFrame(Extracted, title="extract --frames", shared="frame time"):
    """A line per file."""


def extract(
    named: Sources,
    output: Output = None,
    cells: Cells = None,
    iso: Iso = 0.0,
    spacing: Spacing = None,
    mesh: Reference = None,
    sharp: Sharp = False,
    frame: options.Frame = None,
    time: options.Time = None,
    frames: options.Frames = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Extract an isosurface as a watertight triangle mesh, by marching cubes.

    Example: sdfcli extract bunny.h5 --iso 0.002 --cells 512 -o shell.ply
    """
    from sdfcli.startup import driver

    driver.start(device)
    from sdfcli.extract.mesh_file import ENDINGS
    from sdfcli.runtime.files import check_ending, check_target

    check_choice(frame, time, frames)
    files = fields_of(named)
    pattern = pattern_of(named, files, output, f"{NAME}_iso{'' if frames is None else '_%04d'}.ply")
    check_ending(pattern, *ENDINGS)
    check_no_mesh(files)
    outputs = outputs_of(files, pattern) if frames is None else [single(files, pattern)[1]]
    distances = _distances(spacing)
    if mesh is not None and (frames is not None or len(files) > 1):
        raise UsageError(f"--mesh: not with {'several fields' if frames is None else '--frames'}, whose meshes differ")
    if sharp and mesh is None:
        raise UsageError("--sharp: needs --mesh, the mesh that the field was built from")
    chosen = None if frames is None else FrameRange(files[0], frames)
    targets = outputs if chosen is None else numbered(outputs[0], chosen.numbers)
    for each in targets:
        check_target(each, force, *files)

    run = Extraction(cells, iso, distances, mesh, sharp, frame, time, chosen, device, threads, force, json, quiet)

    def write(file: Path, target: Path, place: str | None) -> None:
        run.write(file, target, [target] if chosen is None else targets, place)

    for_each(files, outputs, write, json)


@dataclass(frozen=True)
class Extraction:
    """Options for all files of a command. chosen: a sequence's frames; None for fields and volumes."""

    cells: int | None
    iso: float
    spacing: list[float] | float | None
    mesh: Path | None
    sharp: bool
    frame: int | None
    time: float | None
    chosen: FrameRange | None
    device: str
    threads: int | None
    force: bool
    json: bool
    quiet: bool

    def write(self, file: Path, target: Path, targets: list[Path], place: str | None) -> None:
        """Extracts a file's surface, or those of its chosen frames. target: name in the report; targets: files to
        write; place: as for `for_each`."""
        notes: dict[str, str] = {}
        start = clock.perf_counter()
        with progress(str(file), self.quiet or self.json) as update:
            reports, diagonal = self._reports(file, targets, notes, update)
        if not self.quiet:
            say_file_notes(notes.values(), file, place)
        if self.json or self.quiet:
            return
        report, written = reports[-1], sum(each.bytes for each in reports)
        if self.chosen is not None:
            rows = [
                ("frames", f"{len(self.chosen):,}, surfaces at {self.iso:g}"),
                ("time", f"{clock.perf_counter() - start:.2f} s on {report.device}"),
            ]
            print_table(str(file), [*rows, ("file", f"{target}, {human_bytes(written)}")])
        elif place is not None:
            shape = f"{report.triangles:,} triangles, {human_bytes(written)}"
            say(f"{place} {file}: {target}, {shape}, {report.seconds['total']:.2f} s")
        else:
            _print_report(report, diagonal)

    def _reports(
        self, file: Path, targets: list[Path], notes: dict[str, str], update: Callable[[str], None]
    ) -> tuple[list[Extracted], float | None]:
        """Writes the surfaces; returns their reports, printed with --json, and the mesh's diagonal, if known."""
        from sdfcli.backend import select_backends
        from sdfcli.extract.marching_cubes import scan_share
        from sdfcli.extract.sharp import check_sharp

        backends: list[Backend] = []
        reports: list[Extracted] = []
        cells, times = self.cells, [clock.perf_counter()]
        for target, (facts, opened) in zip(targets, self._opened(file, update), strict=True):
            backends = backends or select_backends(self.device, self.threads)
            cells = _cells(backends[0], opened, cells, self.iso, notes)
            if self.sharp:
                check_sharp(opened, self.iso)
            exact = _exact(opened, self.mesh, backends[0], notes)
            times.append(clock.perf_counter())
            if self.chosen is None:
                update("extracting")
            stages: dict[str, float] = {}
            grid, surface = self._surface(opened, backends, cells, stages, exact)
            times.append(clock.perf_counter())
            measured = _deviation(surface, opened, self.iso, exact, notes)
            measured |= _proven(surface, opened, self.iso, target, backends[0])
            if surface.sharp is not None:
                measured["sharp_parts"] = vars(surface.sharp)
            times.append(clock.perf_counter())
            _write(target, self.force, surface, grid, notes)
            times.append(clock.perf_counter())
            report = (Extracted if self.chosen is None else ExtractedFrame)(
                input=str(file),
                output=str(target),
                iso=self.iso,
                cells=[int(n) for n in (reversed(grid.cells) if grid.reversed else grid.cells)],
                vertices=len(surface.vertices),
                triangles=len(surface.faces),
                closed=not surface.cut,
                device=",".join(backend.name for backend in backends),
                seconds=_seconds(times),
                bytes=target.stat().st_size,
                **facts,
                **measured,
                stages={name: round(part, 6) for name, part in stages.items()},
                scan_share=round(scan_share(stages), 4),
            )
            times = times[-1:]
            reports.append(report)
            if self.json:
                print_json(report)
        return reports, getattr(opened, "info", {}).get("mesh", {}).get("diagonal")

    def _opened(self, file: Path, update: Callable[[str], None]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yields fields, or a volume, each with report entries."""
        from sdfcli.extract.isosurface import open_source

        if self.chosen is not None:
            for number, field in self.chosen.fields(update, "extracting"):
                yield {"frame": number, "time": self.chosen.time(number)}, field
        elif self.frame is None and self.time is None:
            yield {}, open_source(file)
        else:
            yield {}, open_field(file, self.frame, self.time)

    def _surface(
        self,
        opened: Any,
        backends: list[Backend],
        cells: int | None,
        stages: dict[str, float],
        exact: MeshDistance | None,
    ) -> tuple[Grid, Surface]:
        from sdfcli.extract.isosurface import make_source
        from sdfcli.extract.marching_cubes import extract
        from sdfcli.extract.sharp import sharpened

        try:
            source = make_source(opened, backends, self.iso, cells, self.spacing)
            surface = extract(source, backends, seconds=stages)
            if self.sharp and exact is not None:
                surface = sharpened(surface, source.grid, opened, exact)
            return source.grid, surface
        except MemoryError as error:
            raise OutOfMemoryError(f"out of memory: {error}; try a smaller --cells") from error


def _cells(backend: Backend, opened: Any, cells: int | None, iso: float, notes: dict[str, str]) -> int | None:
    """Grid cells per axis; a field's default follows its tolerance. Adds a note if that is limited."""
    from sdfcli.extract.resolution import default_cells, most_cells
    from sdfcli.field.field import Field

    if cells is not None or not isinstance(opened, Field):
        return cells
    cells = default_cells(backend, opened, iso)
    finest = 1 << int(opened.leaf_level.max())
    if cells == most_cells(opened) < finest:
        notes["cells"] = f"{cells} cells along an axis, the most by default; the octree's finest level has {finest}"
    return cells


def _exact(opened: Any, mesh: Path | None, backend: Backend, notes: dict[str, str]) -> MeshDistance | None:
    """Exact distances to the mesh, or to its solid. Adds a note for another mesh than the field's."""
    from sdfcli.field.field import Field

    if mesh is None:
        return None
    if not isinstance(opened, Field):
        raise UsageError("--mesh: is for fields, not for volumes")
    from sdfcli.mesh.load import load_mesh
    from sdfcli.query.mesh_distance import MeshDistance
    from sdfcli.scene import Scene

    made = opened.info.get("parameters", {})
    loaded = load_mesh(mesh, backend, made.get("scale"), made.get("units"))
    if opened.info.get("mesh", {}).get("sha256") != loaded.sha256:
        notes["mesh"] = f"{mesh}: is not the mesh that the field was built from"
    sign = made.get("sign", "auto")
    if "solid" in opened.info:
        sign = "auto"
    if {"solid", "holes"} & opened.info.keys():
        from sdfcli.solid.again import mesh_again

        loaded = mesh_again(loaded, opened.info, backend)
    return MeshDistance._of(Scene.of(loaded, sign, backend))


def _deviation(
    surface: Surface, opened: Any, iso: float, exact: MeshDistance | None, notes: dict[str, str]
) -> dict[str, Any]:
    """Report entries for the surface's error; none for a volume."""
    from sdfcli.extract.resolution import deviation
    from sdfcli.field.field import Field

    if not isinstance(opened, Field):
        return {}
    if opened.info.get("jump_leaves"):
        there = "is far from the mesh there" if exact else "distances jump there: a coarse grid has larger errors"
        notes["holes"] = f"the surface closes the mesh's holes, and {there}"
    if exact is not None and "solid" in opened.info:
        from sdfcli.solid.again import is_turned

        iso = -iso if is_turned(opened.info) else iso
    found = deviation(surface, opened, iso, exact)
    return {"deviation": {"max": found.largest, "rms": found.rms}, "deviation_from": found.reference}


def _proven(surface: Surface, opened: Any, iso: float, target: Path, backend: Backend) -> dict[str, Any]:
    """Report entries for the surface's proven distance from the mesh; none without bounds. target: the file, whose
    coordinates may be rounded to single precision."""
    from sdfcli.extract.mesh_file import largest_rounding
    from sdfcli.extract.proven import proven_distance
    from sdfcli.field.field import Field

    found = proven_distance(surface, opened, iso, backend) if isinstance(opened, Field) else None
    if found is None:
        return {}
    moved = largest_rounding(surface, target.suffix.lower())
    return {
        "proven_error": found.error + moved if math.isfinite(found.error) else None,
        "unproven_triangles": len(found.unbounded),
        "proven_reverse": None if found.reverse is None else found.reverse + moved,
        "lost_leaves": len(found.lost),
        **({} if found.lost_at is None else {"lost_at": found.lost_at.tolist()}),
    }


def _write(path: Path, force: bool, surface: Surface, grid: Grid, notes: dict[str, str]) -> None:
    """Writes a surface. Adds notes if the format is too coarse or the grid's border cuts the surface."""
    from sdfcli.extract.mesh_file import DOUBLES, rounding, write_mesh
    from sdfcli.runtime.files import written_whole

    ending, cell = path.suffix, float(grid.frame[3:].min())
    with written_whole(path, force) as temporary:
        write_mesh(temporary, ending.lower(), surface, cell)
    coarse = rounding(surface, cell)
    if coarse is not None and ending.lower() not in DOUBLES:
        off = f"coordinates are off by up to {coarse:.2g}, at cells of {cell:.2g}"
        notes.setdefault("coarse", f"{ending} holds single precision: {off}")
    if surface.cut:
        notes.setdefault("cut", "the surface reaches the border of the grid, and is open there")


def _seconds(times: list[float]) -> dict[str, float]:
    """Seconds by stage, from the stages' start times and the last one's end."""
    ends = zip(("load", "extract", "measure", "write"), times[:-1], times[1:], strict=True)
    stages = {name: round(end - begin, 4) for name, begin, end in ends}
    return {**stages, "total": round(times[-1] - times[0], 4)}


def _distances(spacing: str | None) -> list[float] | float | None:
    if spacing is None:
        return None
    try:
        numbers = [float(word) for word in spacing.split(",")]
    except ValueError as error:
        raise UsageError(f"--spacing {spacing}: use a number, or three comma-separated ones") from error
    if len(numbers) not in (1, 3):
        raise UsageError(f"--spacing {spacing}: use a number, or three comma-separated ones")
    return numbers if len(numbers) == 3 else numbers[0]


def _print_report(report: Extracted, diagonal: float | None) -> None:
    rows = [
        ("surface", f"at {report.iso:g}, {'closed' if report.closed else 'open at the border of the grid'}"),
        ("grid", " x ".join(f"{n:,}" for n in report.cells) + " cells"),
        ("mesh", f"{report.triangles:,} triangles, {report.vertices:,} vertices"),
        *_sharp_row(report),
        *_error_row(report, diagonal),
        *_proven_row(report),
        ("time", f"{report.seconds['total']:.2f} s on {report.device}"),
        ("file", f"{report.output}, {human_bytes(report.bytes)}"),
    ]
    print_table(report.input, rows)


def _sharp_row(report: Extracted) -> list[tuple[str, str]]:
    found = vars(report).get("sharp_parts", ABSENT)
    if found is ABSENT:
        return []
    folded = f"; {found['folded']:,} folded triangles" if found["folded"] else ""
    return [("sharp", f"{found['edges']:,} vertices on edges, {found['corners']:,} at corners and bends{folded}")]


def _error_row(report: Extracted, diagonal: float | None) -> list[tuple[str, str]]:
    """The surface's error in the mesh's units, and as fractions of the diagonal if that is known."""
    if report.deviation is None:
        return []
    source = "the mesh" if report.deviation_from == "mesh" else "the field's surface"
    largest, rms = (report.deviation[name] for name in ("max", "rms"))
    if diagonal:
        words = length_text(largest / diagonal, diagonal, "diagonal")
        return [("error", f"{words} at most; rms {error_text(rms)} ({error_text(rms / diagonal)}), from {source}")]
    return [("error", f"{error_text(largest)} at most; rms {error_text(rms)}, in the mesh's units, from {source}")]


def _proven_row(report: Extracted) -> list[tuple[str, str]]:
    """The proven distance between the surface and the mesh, in the mesh's units."""
    error = vars(report).get("proven_error", ABSENT)
    if error is ABSENT:
        return []
    if error is None:
        return [("proven", "no bound")]
    level = "of the mesh" if report.iso == 0 else f"of the distance {report.iso:g}"
    words = f"within {rounded_up(error):.3g} {level}"
    if report.unproven_triangles:
        words += f", but for {report.unproven_triangles:,} triangles"
    if report.proven_reverse is not None:
        words += f"; the mesh within {rounded_up(report.proven_reverse):.3g} of the surface"
    if report.lost_leaves:
        place = " ".join(f"{x:.5g}" for x in report.lost_at)
        words += f", perhaps lost at {report.lost_leaves:,} leaves, as at {place}"
    return [("proven", words)]
