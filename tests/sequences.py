"""Moving test meshes, and sequence files without a command."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.field.store import pack
from sdfcli.params import BuildOptions, BuildParams
from sdfcli.runtime.streamed import streamed_hdf5
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.file import SequenceWriter
from shapes import Shape


def bending(shape: Shape, frames: int, angle: float = 0.4) -> list[Shape]:
    """Frames of a shape twisted about z, up to an angle at its ends."""
    vertices, faces = shape
    found = []
    for share in np.linspace(0, 1, frames):
        turn = angle * share * vertices[:, 2]
        x, y, z = vertices.T
        turned = np.stack((x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn), z), axis=1)
        found.append((turned, faces))
    return found


def sequence_build(frames: Any, device: str = "cpu", cold: bool = False, **parameters: Any) -> SequenceBuild:
    """A sequence's build, on the CPU by default."""
    return SequenceBuild(frames, BuildParams(**parameters), BuildOptions(device), cold)


def write(path: Path, frames: Sequence[Any], times: Sequence[float], **parameters: Any) -> Path:
    """Builds a sequence on the CPU and writes it frame by frame."""
    build = sequence_build(frames, **parameters)
    with ThreadPoolExecutor(1) as helpers, streamed_hdf5(path) as (file, check):
        writer = SequenceWriter(file, build.domain, np.array(times, np.float64))
        for frame in build:
            writer.add(pack(frame.build(), helpers, as_frame=True), frame.motion)
            check()
        writer.finish()
    return path
