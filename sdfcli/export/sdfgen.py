"""SDFGen's text files: the grid's shape, its first point, its spacing, then a value a line."""

from __future__ import annotations

from pathlib import Path

from sdfcli.export.lattice import Distances, Lattice, values


def write_sdf(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes float32 values, in the nine digits that distinguish all of them, x fastest."""
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write("{} {} {}\n".format(*lattice.shape))
        file.write("{!r} {!r} {!r}\n".format(*(float(x) for x in lattice.origin)))
        file.write(f"{lattice.spacing!r}\n")
        for piece in values(field, lattice, x_fastest=True):
            file.writelines(f"{value:.9g}\n" for value in piece.tolist())
