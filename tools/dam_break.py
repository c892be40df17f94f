"""Draws docs/pictures/dam-break.svg, the dam break's front and experiments: `python tools/dam_break.py`.

docs/internals/data/dam-break.csv has the computed fronts: the outermost particle of `sdfcli flow --case dam-break` at
the default and at half the spacing, in metres from the column's far side.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, FILE = DOCS / "internals" / "data" / "dam-break.csv", DOCS / "pictures" / "dam-break.svg"

WIDTH = 0.26
"""Column width in metres; the height is twice that."""

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

COLOURS = ("#b5482a", "#d9a13b", "#3a7d44")
LINES = {1: ("#1f5fa8", "spacing 20 mm"), 2: ("#7fb2e5", "spacing 10 mm")}
LEFT, TOP, ACROSS, DOWN = 50, 14, 460, 300
LAST, HIGHEST = 3.2, 4.0


def fronts() -> dict[int, Points]:
    """Computed fronts by scale, in the units of EXPERIMENTS."""
    found: dict[int, Points] = {scale: [] for scale in LINES}
    with DATA.open(newline="") as file:
        for time, *places in list(csv.reader(file))[1:]:
            for scale, front in zip(found, places, strict=True):
                found[scale].append((float(time) * math.sqrt(2 * 9.8 / WIDTH), float(front) / WIDTH))
    return found


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
    for scale, points in sorted(fronts().items()):
        colour, name = LINES[scale]
        line = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<path d="M{LEFT + 12},{row - 4}h20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 40}" y="{row}">{name}</text>')
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
    """Writes the picture."""
    FILE.write_text(drawing())


if __name__ == "__main__":
    main()
