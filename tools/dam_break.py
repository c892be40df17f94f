"""The dam break's front beside experiments.

python tools/dam_break.py                writes docs/internals/data/dam-break-points.csv and docs/pictures/dam-break.svg
python tools/dam_break.py run [DEVICE]   first computes docs/internals/data/dam-break.csv again: the outermost particle
                                         of `sdfcli flow --case dam-break`, in metres from the column's far side; both
                                         surfaces are half a spacing outside the particles
"""

from __future__ import annotations

import csv
import math
import sys
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, FILE = DOCS / "internals" / "data" / "dam-break.csv", DOCS / "pictures" / "dam-break.svg"
POINTS = DATA.with_name("dam-break-points.csv")

WIDTH = 0.26
"""Column width in metres; the height is twice that."""

UNIT = math.sqrt(WIDTH / (2 * 9.8))
"""Unit of time, in seconds."""

TIME, FRAMES = 0.36, 18
"""Computed seconds, and fronts after the first."""

VISCOUS = 8.8e-4
"""Viscosity of the second pair of runs, in m^2/s: 0.002 c l0 of the paper's case."""

EARLIEST, LATEST = 1.0, 3.0
"""Compared times, in units: at first the release counts, at the end the front is at the tank's wall."""

Points = list[tuple[float, float]]

EXPERIMENTS: dict[str, Points] = {
    "Martin, Moyce 1952, 2.25 in": [(0.832, 1.217), (1.219, 1.474), (1.997, 2.292), (2.547, 2.995)],
    "Martin, Moyce 1952, 1.125 in": [
        (0.849, 1.245),
        (1.212, 1.443),
        (1.602, 1.884),
        (2.283, 2.689),
        (2.950, 3.728),
    ],
    "Koshizuka, Oka 1996": [
        (0.381, 1.111),
        (0.769, 1.252),
        (1.153, 1.505),
        (1.537, 1.892),
        (1.935, 2.241),
        (2.323, 2.615),
        (2.719, 3.003),
        (3.096, 3.624),
    ],
}
"""Time t sqrt(2 g / a) and front x / a, for a column of width a, as digitised in PySPH (db_exp_data.py)."""

RUNS = {
    "20 mm": (1, 1e-6),
    "10 mm": (2, 1e-6),
    "20 mm, viscous": (1, VISCOUS),
    "10 mm, viscous": (2, VISCOUS),
}
"""Columns of DATA: refinement factor and viscosity."""

COLOURS = ("#b5482a", "#d9a13b", "#3a7d44")
LINES = dict(zip(RUNS, ("#1f5fa8", "#7fb2e5", "#6a3d9a", "#b799d6"), strict=True))
LEFT, TOP, ACROSS, DOWN = 50, 14, 460, 300
LAST, HIGHEST = 3.2, 4.0


def compute(device: str) -> None:
    """Writes DATA."""
    from sdfcli.apps.flow.cases import DAM_SPACING
    from sdfcli.apps.flow.run import FlowOptions, prepare_dam_break
    from sdfcli.backend import C

    columns = []
    for scale, viscosity in RUNS.values():
        options = FlowOptions(time=TIME, frames=FRAMES, viscosity=viscosity, device=device)
        states = prepare_dam_break(options, scale).states()
        spacing = DAM_SPACING / scale
        columns.append([f"{state.position[state.kind == C.FLUID, 0].max() + spacing:.4f}" for state in states])
    times = [f"{TIME / FRAMES * k:.2f}" for k in range(FRAMES + 1)]
    with DATA.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time [s]", *(f"front at {name} [m]" for name in RUNS)])
        writer.writerows(zip(times, *columns, strict=True))


def fronts() -> dict[str, Points]:
    """Computed fronts by run, in the units of EXPERIMENTS."""
    found: dict[str, Points] = {name: [] for name in RUNS}
    with DATA.open(newline="") as file:
        for time, *places in list(csv.reader(file))[1:]:
            for name, front in zip(found, places, strict=True):
                found[name].append((float(time) / UNIT, float(front) / WIDTH))
    return found


def front_at(points: Points, time: float) -> float:
    """Front, linear between the computed ones."""
    for (earlier, low), (later, high) in pairwise(points):
        if time <= later:
            return low + (high - low) * (time - earlier) / (later - earlier)
    raise ValueError(f"no front at {time}")


def ahead(points: Points, measured: Points, shift: float = 0.0) -> list[float]:
    """By how much the computed front is ahead of the measured one, as a share of the latter, at the compared times.
    shift: of the origin of the experiment's time."""
    return [front_at(points, t - shift) / z - 1 for t, z in measured if EARLIEST <= t <= LATEST]


def best_shift(points: Points, measured: Points) -> float:
    """The shift, in hundredths of a unit, with the smallest of the largest differences."""
    return min((k / 100 for k in range(101)), key=lambda shift: max(map(abs, ahead(points, measured, shift))))


def compare() -> list[list[str]]:
    """Rows of POINTS."""
    found = fronts()
    rows = [["experiment", "T", "x / a", *found, *(f"{name}, shifted" for name in found)]]
    for experiment, measured in EXPERIMENTS.items():
        as_is = [ahead(points, measured) for points in found.values()]
        shifts = [best_shift(points, measured) for points in found.values()]
        moved = [ahead(points, measured, shift) for points, shift in zip(found.values(), shifts, strict=True)]
        compared = [point for point in measured if EARLIEST <= point[0] <= LATEST]
        for k, (t, z) in enumerate(compared):
            cells = [f"{100 * each[k]:+.1f} %" for each in as_is + moved]
            rows.append([experiment, f"{t:.2f}", f"{z:.2f}", *cells])
        rows.append([f"{experiment}: shift", "", "", *[""] * len(found), *(f"{shift:.2f}" for shift in shifts)])
    return rows


def place(point: tuple[float, float]) -> tuple[float, float]:
    """Picture coordinates."""
    return LEFT + ACROSS * point[0] / LAST, TOP + DOWN * (HIGHEST - point[1]) / (HIGHEST - 1)


def drawing() -> str:
    """The SVG."""
    parts = []
    for k in range(7):
        x, y = place((0.5 * k, 1))
        parts.append(f'<path d="M{x:.1f},{TOP}V{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{0.5 * k:g}</text>')
        x, y = place((0, 1 + 0.5 * k))
        parts.append(f'<path d="M{x:.1f},{y:.1f}h{ACROSS}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{1 + 0.5 * k:g}</text>')
    parts.append(f'<text x="{LEFT + ACROSS / 2}" y="{TOP + DOWN + 34}" text-anchor="middle">time t √(2 g / a)</text>')
    middle = TOP + DOWN / 2
    parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">front x / a</text>')
    row = TOP + 18
    for name, points in fronts().items():
        colour = LINES[name]
        line = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<path d="M{LEFT + 12},{row - 4}h20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 40}" y="{row}">spacing {name}</text>')
        row += 18
    for colour, (name, points) in zip(COLOURS, EXPERIMENTS.items(), strict=True):
        for point in [*map(place, points), (LEFT + 22, row - 4)]:
            parts.append('<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>'.format(*point, colour))
        parts.append(f'<text x="{LEFT + 40}" y="{row}">{name}</text>')
        row += 18
    width, height = LEFT + ACROSS + 14, TOP + DOWN + 44
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
    return f'{head}font-size="12">\n<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(
        [*parts, "</svg>\n"]
    )


def main() -> None:
    """Writes the points and the picture."""
    if sys.argv[1:2] == ["run"]:
        compute(sys.argv[2] if len(sys.argv) > 2 else "auto")
    with POINTS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(compare())
    FILE.write_text(drawing())


if __name__ == "__main__":
    main()
