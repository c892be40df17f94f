"""Draws docs/pictures/house.svg: `python tools/house.py`. Folders are layers; imports point downwards only."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

FILE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "house.svg"

LAYERS = [  # high to low
    [("apps/bench", "stages, queries, peers, timed")],
    [("apps/flow", "water as particles, in steps")],
    [("cli", "commands, a file each; exceptions become exit codes")],
    [("cook", "fields as simulators read them")],
    [("batch", "many meshes, in worker processes")],
    [("sequence", "moving meshes, frame after frame")],
    [("pipeline", "the whole build on one screen")],
    [("export", "files for other programs"), ("pictures", "render, slice, view")],
    [("solid", "any triangles as a solid, by a flood of the outside")],
    [("extract", "surfaces, the scan over devices")],
    [("quality", "checks of meshes, estimates, measured errors, the float64 reference")],
    [("torch", "with gradients"), ("jax", "the same"), ("warp", "the same"), ("mujoco", "octrees")],
    [("query", "distances of meshes, neighbours, contacts")],
    [("field", "the finished field: sampling, quantising, HDF5")],
    [("vdb", "level sets in blocks of 8 x 8 x 8 voxels; OpenVDB's and NanoVDB's files")],
    [("octree", "where cells are split: by error (adaptive), by density")],
    [("scene", "mesh, order, trees, signer: made on first use, freed by the backend's policy")],
    [("sign", "which signs are safe; pseudonormals, winding numbers, caps")],
    [("spatial", "Morton order, trees over triangles, distance queries")],
    [("mesh", "files to triangles; topology, faults, repair")],
    [("backend", "what a device offers: six interfaces, cpu and cuda")],
    [("runtime", "files that appear whole, memory, interrupts, processes")],
    [("startup", "a process that starts fast, and a switch that does without")],
]
KERNELS = [
    ("base", "portable types, lanes, warps"),
    ("geometry", "triangles, boxes, lattice"),
    ("mesh", "welding, edges, shells"),
    ("trees", "radix, wide, packets"),
    ("distance", "nearest triangle"),
    ("neighbours", "k nearest: shifted sort, walks"),
    ("winding", "winding numbers"),
    ("sign", "pseudonormals, caps, links"),
    ("octree", "levels, refinement, balance"),
    ("field", "leaf tree, sampling, steps"),
    ("contact", "sphere trees, deepest points"),
    ("flow", "particles in buckets, walls"),
    ("surface", "marching cubes, rays, balls"),
    ("solid", "a flood of the outside"),
    ("uniform", "grids, jump flooding"),
    ("verify", "float64 reference, proofs, thickness"),
    ("cpu", "entries, threads, lanes"),
]
LEFT, WIDTH, GAP, ROW = 10, 600, 6, 38
RIGHT = LEFT + WIDTH + 50
KERNEL_WIDTH = 300


def box(x: float, y: float, width: float, height: float, name: str, words: str, colour: str) -> str:
    """A labelled rectangle: name in bold, then its description."""
    middle = y + height / 2 + 5
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{colour}" stroke="#555"/>\n'
        f'<text x="{x + 10:g}" y="{middle:g}"><tspan font-weight="bold">{escape(name)}</tspan>'
        f'<tspan dx="10" fill="#333">{escape(words)}</tspan></text>\n'
    )


def picture() -> str:
    """The SVG."""
    top = 40
    height = top + len(LAYERS) * (ROW + GAP) + 10
    shapes = f'<text x="{LEFT}" y="24" font-weight="bold">sdfcli/ (Python): imports point downwards</text>\n'
    for level, rooms in enumerate(LAYERS):
        width = (WIDTH - GAP * (len(rooms) - 1)) / len(rooms)
        for place, (name, words) in enumerate(rooms):
            colour = "#f6e3c5" if name in ("pipeline", "scene") else "#eee3f2" if name.startswith("apps") else "#dbe9f6"
            shapes += box(LEFT + place * (width + GAP), top + level * (ROW + GAP), width, ROW, name, words, colour)
    shapes += f'<text x="{RIGHT}" y="24" font-weight="bold">sdfcli/kernels/ (C++ for CPU and GPU)</text>\n'
    row = (len(LAYERS) * (ROW + GAP) - GAP - (len(KERNELS) - 1) * GAP) / len(KERNELS)
    for place, (name, words) in enumerate(KERNELS):
        shapes += box(RIGHT, top + place * (row + GAP), KERNEL_WIDTH, row, name, words, "#e2f0dc")
    backend = next(level for level, rooms in enumerate(LAYERS) if rooms[0][0] == "backend")
    y = top + backend * (ROW + GAP) + ROW / 2
    shapes += (
        f'<path d="M{LEFT + WIDTH} {y:g} H{RIGHT - 4}" stroke="#555" fill="none" marker-end="url(#arrow)"/>\n'
        f'<text x="{LEFT + WIDTH + 6}" y="{y - 6:g}" font-size="11">runs</text>\n'
    )
    whole = RIGHT + KERNEL_WIDTH + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height}" font-family="sans-serif" '
        'font-size="13">\n<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>\n'
        f'<rect width="{whole}" height="{height}" fill="white"/>\n{shapes}</svg>\n'
    )


if __name__ == "__main__":
    FILE.write_text(picture())
