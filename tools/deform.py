"""Creates a moving mesh from a mesh: a smooth periodic motion.

    python tools/deform.py MESH OUT.npy [--frames 240] [--motion bend] [--amount 0.05]
    python tools/deform.py MESH FOLDER ...

OUT.npy gets vertices (frames, v, 3) float32, for use with `--faces MESH`; a folder gets a binary PLY file per frame.
Frame k of n displaces the mesh by amount * sin(2 pi k / n) of its diagonal: the first frame is the mesh at rest.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from sdfcli.apps.bench.motions import MOTIONS, cycle
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.mesh_file import write_ply
from sdfcli.mesh.formats.readers import read_file
from sdfcli.mesh.load import load_mesh
from sdfcli.runtime.files import existing_file


def main(arguments: list[str] | None = None) -> None:
    """Writes the frames."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh")
    parser.add_argument("out", type=Path, help="a name that ends in .npy, or a folder")
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--motion", choices=list(MOTIONS), default="bend")
    parser.add_argument("--amount", type=float, default=0.05, help="widest displacement, a fraction of the diagonal")
    given = parser.parse_args(arguments)
    if given.frames < 1:
        parser.error("--frames: use 1 or more")
    if given.out.exists():
        parser.error(f"{given.out} exists: choose another name")
    mesh = load_mesh(given.mesh)
    packed = given.out.suffix == ".npy"
    rest = read_file(existing_file(given.mesh))[0] if packed else mesh.vertices  # including vertices without faces
    frames = cycle(rest, MOTIONS[given.motion], given.frames, given.amount * mesh.diagonal)
    if packed:
        shape = (given.frames, *rest.shape)
        array = np.lib.format.open_memmap(given.out, mode="w+", dtype=np.float32, shape=shape)
        for number, vertices in enumerate(frames):
            array[number] = vertices
        array.flush()
        return
    given.out.mkdir(parents=True)
    digits = len(str(given.frames - 1))
    for number, vertices in enumerate(frames):
        write_ply(given.out / f"frame{number:0{digits}}.ply", Surface(vertices, mesh.faces, cut=False), np.float32)


if __name__ == "__main__":
    main()
