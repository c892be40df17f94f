"""Builds of the frames of a moving mesh, one after the other, in one domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import load_mesh, placed
from sdfcli.mesh.mesh import Domain, Mesh, diagonal_of
from sdfcli.octree.grown import Progress
from sdfcli.params import BuildParams
from sdfcli.pipeline import build
from sdfcli.runtime.signature import takes


@takes(BuildParams)
def build_sequence(
    frames: Sequence[Any],
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | None = None,
    progress: Progress | None = None,
    cold: bool = False,
    **parameters: Any,
) -> Iterator[Field]:
    """Builds the fields of a moving mesh's frames, in their order, each when it is asked for.

    Args:
        frames: what `sdfcli.build` takes as source, for each frame; read twice where `domain` or `unit` is not given.
        device: as for `sdfcli.build`.
        threads: as for `sdfcli.build`.
        max_memory: as for `sdfcli.build`.
        progress: as for `sdfcli.build`.
        cold: whether each frame is built by itself, without what is known of the frame before. The fields are the same.
        parameters: those of `BuildParams`, below. `domain` is by default a padded cube around all frames, and `unit`
            the diagonal of their bounding box.

    Raises what `sdfcli.build` raises, and UsageError without frames, or for a frame that leaves `domain`.
    """
    made = SequenceBuild(
        frames,
        device=device,
        threads=threads,
        max_memory=max_memory,
        progress=progress,
        cold=cold,
        **parameters,
    )
    return (frame.build() for frame in made)


class SequenceBuild:
    """The builds of a sequence's frames; see `build_sequence`.

    domain, unit  those of all frames.
    params        the parameters of all frames, with domain and unit.
    """

    def __init__(
        self,
        frames: Sequence[Any],
        *,
        device: str = "auto",
        threads: int | None = None,
        max_memory: int | None = None,
        progress: Progress | None = None,
        cold: bool = False,
        **parameters: Any,
    ) -> None:
        params = BuildParams(**parameters)
        self._frames, self._cold = frames, cold
        self._options = {"device": device, "threads": threads, "max_memory": max_memory, "progress": progress}
        if len(frames) == 0:
            raise UsageError("a sequence needs one frame or more")
        domain, unit = Domain.of(params.domain), params.unit
        if domain is None or unit is None:
            bounds = bounds_of_all(frames)
            domain, unit = domain or Domain.around(bounds), unit or diagonal_of(bounds)
        self.domain, self.unit = domain, unit
        x, y, z = (float(x) for x in domain.origin)
        self.params = replace(params, domain=(x, y, z, domain.length), unit=unit)

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[Frame]:
        before = None
        for index, source in enumerate(self._frames):
            before = Frame(self, index, placed(load_mesh(source), self.params), before)
            yield before
            before.before = None


class Frame:
    """A frame to build.

    index     its number.
    sha256    the hash of its mesh.
    motion    maximum distance, in the mesh's units, of a vertex from its place in the frame before; None for the first
              frame, and where the faces differ.
    coherent  whether its build rests on the frame before.
    """

    def __init__(self, sequence: SequenceBuild, index: int, mesh: Mesh, before: Frame | None) -> None:
        self.sequence, self.index, self.mesh, self.before = sequence, index, mesh, before
        self.sha256 = mesh.sha256
        self.motion, self.coherent = None, False
        self.field: Field | None = None
        if before is not None and np.array_equal(before.mesh.faces, mesh.faces):
            self.motion = largest_step(before.mesh.vertices, mesh.vertices)
            self.coherent = not sequence._cold and before.field is not None

    def build(self) -> Field:
        """The field of this frame. Raises what `sdfcli.build` raises."""
        previous = self.before.field if self.coherent and self.before else None
        options = {**self.sequence.params.__dict__, **self.sequence._options}
        self.field = build(self.mesh, previous=previous, keep_nearest=True, **options)
        return self.field


def bounds_of_all(frames: Sequence[Any]) -> Floats:
    """Lower and upper corner (2, 3) around all frames."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for source in frames:
        bounds = load_mesh(source).bounds
        low, high = np.minimum(low, bounds[0]), np.maximum(high, bounds[1])
    return np.array([low, high])


def largest_step(before: Floats, after: Floats) -> float:
    """The maximum distance between vertices (v, 3) of equal numbers."""
    step = after - before
    return float(np.sqrt(np.einsum("vx,vx->v", step, step).max()))
