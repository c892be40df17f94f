"""Commands of `sdfcli` by name: a table of built-in ones, and other packages' entry points.

Commands are not imported here: Typer would take longer for all of them than a small mesh takes to build. Entry points
are not read for built-in commands: that takes longer than the rest of `sdfcli --version`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdfcli.cli.output import plain

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "sdfcli.commands"
"""Entry point group by which packages add commands."""


@dataclass(frozen=True)
class Entry:
    """A command, imported on first use.

    name      as typed; a sub-command includes its command, as `bench scan`, which itself also takes files
    target    `module:attribute`: a function with Typer annotations, or a Typer app
    line      line in `sdfcli --help`: first paragraph of the function's docstring, or the package's summary
    panel     heading in `sdfcli --help`; None: `Commands`
    package   package that adds it; None: built in
    """

    name: str
    target: str
    line: str
    panel: str | None = None
    package: str | None = None

    def load(self) -> Any:
        """Imports the function or app."""
        module, _, attribute = self.target.partition(":")
        return reduce(getattr, attribute.split("."), import_module(module))


def _by_name(entries: Iterable[Entry]) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


BUILT_IN = _by_name(
    [
        Entry("build", "sdfcli.cli.build:build", "Build adaptive signed distance fields (HDF5) from meshes."),
        Entry(
            "sequence",
            "sdfcli.cli.sequence:sequence",
            "Build a moving mesh's fields, frame by frame, into one HDF5 file.",
        ),
        Entry(
            "extract",
            "sdfcli.cli.extract:extract",
            "Extract an isosurface as a watertight triangle mesh, by marching cubes.",
        ),
        Entry(
            "solidify",
            "sdfcli.cli.solidify:solidify",
            "Make a closed, manifold mesh from any triangles: a flood finds the outside, all else is solid.",
        ),
        Entry(
            "render",
            "sdfcli.cli.render:render",
            "Render the surface as a shaded picture, without a display; with --frames, a sequence under one camera.",
        ),
        Entry(
            "slice",
            "sdfcli.cli.slice:slice_plane",
            "Plot distances in a plane: blue inside, red outside, with contour lines and a scale; --frames share "
            "plane and scale.",
        ),
        Entry(
            "view",
            "sdfcli.cli.view:view",
            "Write a field as one HTML page that any browser shows: turn, zoom, slice, read distances.",
        ),
        Entry(
            "export",
            "sdfcli.cli.export:export",
            "Convert fields for other programs: ParaView, NumPy, game engines, Blender, Houdini, Warp.",
        ),
        Entry(
            "cook",
            "sdfcli.cli.cook:cook",
            "Cook collision meshes for simulators: fields in the files that MuJoCo, Newton, Bullet and others load.",
        ),
        Entry(
            "samples",
            "sdfcli.cli.samples:samples",
            "Draw training samples for DeepSDF and for generators of shapes: points with exact distances, from meshes.",
        ),
        Entry(
            "check",
            "sdfcli.cli.check:check",
            "Report mesh faults, their treatment in a build, and a verdict on the field.",
        ),
        Entry(
            "thickness",
            "sdfcli.cli.thickness:thickness",
            "Measure a mesh's wall thickness: the thinnest place, a histogram, a coloured picture or mesh.",
        ),
        Entry(
            "info",
            "sdfcli.cli.info:info",
            "Print the metadata of a field file, a sequence, or one of its frames.",
        ),
        Entry(
            "query",
            "sdfcli.cli.query:query",
            "Print the signed distance at each point, negative inside, in the mesh's units.",
        ),
        Entry(
            "collide",
            "sdfcli.cli.collide:collide",
            "Measure a mesh's distance to a field's surface, or its penetration depth, at each of its poses.",
        ),
        Entry(
            "flow",
            "sdfcli.apps.flow.commands.flow:flow",
            "Simulate water around or inside a mesh with particles, and write its states over time (VTKHDF, for "
            "ParaView).",
        ),
        Entry(
            "verify",
            "sdfcli.cli.verify:verify",
            "Compare fields with exact distances at random points; exit code 6 above the tolerance.",
        ),
        Entry(
            "compare",
            "sdfcli.cli.compare:compare",
            "Measure the Hausdorff distance of two meshes, proven; exit code 6 above --max-distance.",
        ),
        Entry(
            "bench",
            "sdfcli.apps.bench.commands.bench:bench",
            "Time every build stage, and compare the distance queries with each other and with the thesis.",
        ),
        Entry(
            "profile",
            "sdfcli.apps.bench.commands.profile:profile",
            "Profile the distance query's variants with NVIDIA Nsight Compute.",
        ),
        Entry(
            "doctor",
            "sdfcli.cli.doctor:doctor",
            "Report versions, extras, folders and settings, and test each device: for a bug report.",
        ),
        Entry(
            "schema",
            "sdfcli.cli.schema:schema",
            "Print the JSON Schema (draft 2020-12) of a command's --json lines, or of file attributes.",
        ),
        Entry(
            "bench scan",
            "sdfcli.apps.bench.commands.scan:bench_scan",
            "Time the exclusive scan on one, two and four devices, compared with its paper's figures.",
        ),
        Entry(
            "bench surface",
            "sdfcli.apps.bench.commands.surface:bench_surface",
            "Time marching cubes by stage on volumes of metaballs, with the scans' share.",
        ),
        Entry(
            "bench sequence",
            "sdfcli.apps.bench.commands.sequence:bench_sequence",
            "Measure moving meshes' frames per second, by four build methods.",
        ),
        Entry(
            "bench flood",
            "sdfcli.apps.bench.commands.flood:bench_flood",
            "Compare jump flooding's orders of passes, and its time and errors by grid size and by seed count.",
        ),
        Entry(
            "bench knn",
            "sdfcli.apps.bench.commands.knn:bench_knn",
            "Time nearest neighbours by the shifted sort, compared with its paper's figures and exact results.",
        ),
        Entry(
            "bench scale",
            "sdfcli.apps.bench.commands.scale:bench_scale",
            "Time whole builds of a mesh's copies and subdivisions, and report how time and memory grow.",
        ),
        Entry(
            "bench flow",
            "sdfcli.apps.flow.commands.bench:bench_flow",
            "Time particle layouts, compared with their paper's figures.",
        ),
    ]
)

NAMES = tuple(BUILT_IN)
"""All built-in command and sub-command names."""

COMMANDS = tuple(name for name in NAMES if " " not in name)
"""Built-in command names, in the order of `sdfcli --help`."""


def sub_commands(command: str) -> list[str]:
    """A command's sub-command names, without the command's own."""
    return [name.partition(" ")[2] for name in NAMES if name.startswith(f"{command} ")]


def plugins() -> tuple[list[Entry], list[str]]:
    """Other packages' commands, sorted by name, and a message per refused entry point.

    Imports none of them and never raises, whatever their metadata.
    """
    found: dict[str, Entry] = {}
    refused = []
    try:
        entries = sorted(map(_entry_of, _entry_points()), key=lambda entry: (entry.name, str(entry.package)))
    except Exception as error:  # unreadable metadata
        return [], [f"commands of other packages cannot be listed: {type(error).__name__}: {error}"]
    for entry in entries:
        if entry.name in BUILT_IN:
            refused.append(f"{entry.package} has a command `{entry.name}`, which is built in and is not replaced")
        elif entry.name in found:
            first = found[entry.name].package
            refused.append(f"{entry.package} has a command `{entry.name}`, as {first}, whose command is used")
        elif not re.fullmatch(r"\w[\w.-]*", entry.name):
            refused.append(f"{entry.package} has a command `{entry.name}`, which is not a valid command name")
        else:
            found[entry.name] = entry
    return list(found.values()), refused


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _entry_of(point: EntryPoint) -> Entry:
    package = _said(point, "Name") or point.value.partition(".")[0].partition(":")[0]
    line = _said(point, "Summary") or f"A command of {package}."
    return Entry(point.name, point.value, line, "Plugins", package)


def _said(point: EntryPoint, key: str) -> str:
    """A package's metadata entry as one line; empty if missing."""
    with suppress(Exception):
        assert point.dist
        return " ".join(plain(point.dist.metadata[key] or "").split())
    return ""
