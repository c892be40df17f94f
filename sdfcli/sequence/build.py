"""Builds of a moving mesh's frames, in order, in one domain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError, SdfError, UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import MeshSource, load_placed
from sdfcli.mesh.mesh import Domain, Mesh, diagonal_of
from sdfcli.octree.grown import Grown, Progress
from sdfcli.octree.kinds import OCTREES
from sdfcli.params import OPEN, BuildKeywords, BuildOptions, BuildParams, parse_size, refuse_flood
from sdfcli.pipeline import make_field
from sdfcli.quality.estimate import memory_limit
from sdfcli.quality.measure import MEASURED_POINTS, Facts, Samples, draw_samples
from sdfcli.query.warm_start import WarmStart
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.schedule import Deferred, Schedule
from sdfcli.runtime.signature import takes
from sdfcli.runtime.threads import executor
from sdfcli.scene import Scene
from sdfcli.sequence.follow import Follower
from sdfcli.sign.choice import SignChoice

if TYPE_CHECKING:
    from typing_extensions import Unpack

EVERY = 10
"""Interval of frames with a build's full measurement: error and wall thickness. Frames between are measured less."""
FEW_POINTS = 3000
"""Random points for the measured error of frames between, without thickness."""


class Sources(Protocol):
    """A source for `sdfcli.build` per frame: a list, or any object with a length and items."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> MeshSource: ...


@takes(BuildKeywords, BuildParams)
def build_sequence(
    frames: Sources,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
    cold: bool = False,
    **parameters: Unpack[BuildKeywords],
) -> Iterator[Field]:
    """Builds fields for a moving mesh's frames, in order, each when it is requested.

    Args:
        frames: a source for `sdfcli.build` per frame; read twice if `domain` or `unit` is not given.
        device: as for `sdfcli.build`.
        threads: as for `sdfcli.build`.
        max_memory: as for `sdfcli.build`.
        progress: as for `sdfcli.build`.
        cold: build each frame independently, without reusing the previous frame's results. The fields are the same.
        parameters: keywords of `BuildParams`, below. By default, `domain` is a padded cube around all frames, and
            `unit` the diagonal of their bounding box.

    Raises the errors of `sdfcli.build`, InputError for frames in different units, and UsageError without frames, or for
    a frame that leaves `domain`.
    """
    options = BuildOptions(device, threads, parse_size(max_memory))
    params = BuildParams.of(**parameters)
    refuse_flood(params, "sequences")
    if params.holes != OPEN:
        raise UsageError(f"--holes {params.holes}: not for sequences; build each frame by itself")
    builds = SequenceBuild(frames, params, options, cold, progress or LOG.debug)
    return (frame.build() for frame in builds)


class SequenceBuild:
    """Builds of a sequence's frames; see `build_sequence`.

    domain, unit  shared by all frames.
    params        parameters of all frames, with domain and unit.
    options       of all builds.

    Other attributes are arguments of `build_sequence`.
    """

    def __init__(
        self,
        frames: Sources,
        params: BuildParams,
        options: BuildOptions,
        cold: bool = False,
        progress: Progress | None = None,
    ) -> None:
        if len(frames) == 0:
            raise UsageError("a sequence needs one frame or more")
        domain, unit = Domain.of(params.domain), params.unit
        if domain is None or unit is None:
            bounds = bounds_of_all(frames, params)
            domain, unit = domain or Domain.around(bounds), unit or diagonal_of(bounds)
        x, y, z = (float(x) for x in domain.origin)
        self.domain, self.unit = domain, unit
        self.params = replace(params, domain=(x, y, z, domain.length), unit=unit)
        self.cold, self.frames, self._follower = cold, frames, Follower()
        self.options = options
        self._earlier: tuple[int, dict[str, Array]] | None = None  # last built frame's index and octree
        self._progress = progress or (lambda _: None)

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Frame]:
        return self.span(0, len(self))

    def span(self, start: int, stop: int) -> Iterator[Frame]:
        """Frames `start` to `stop` - 1. A thread reads and checks the next frame while one is built."""
        before = load_frame(self.frames, start - 1, self.params) if start else None
        with executor(1) as ahead:
            coming = ahead.submit(self._prepare, start, before)
            for index in range(start, stop):
                frame = coming.result()
                if index + 1 < stop:
                    coming = ahead.submit(self._prepare, index + 1, frame.given)
                yield frame

    def _prepare(self, index: int, before: Mesh | None) -> Frame:
        """Loads and checks a frame, and draws its samples, before its build."""
        start, params = time.perf_counter(), self.params
        mesh = load_frame(self.frames, index, params).on(self._backend())
        loaded = time.perf_counter()
        if before is not None and None not in (units := (before.units, mesh.units)) and units[0] != units[1]:
            raise InputError(f"frame {index}: in {units[1]}, the frame before in {units[0]}; convert all, by --units")
        same = before is not None and np.array_equal(before.faces, mesh.faces)
        turned, choice = (Follower() if self.cold else self._follower).choose_sign(mesh, params.sign)
        whole = index % EVERY == 0
        return Frame(
            self,
            index,
            mesh.sha256,
            motion=largest_step(before.vertices, mesh.vertices) if same and before else None,
            coherent=same and not self.cold,
            given=mesh,
            mesh=turned,
            choice=choice,
            samples=draw_samples(turned, params.band, MEASURED_POINTS if whole else FEW_POINTS, thickness=whole),
            seconds={"load": loaded - start, "check": time.perf_counter() - loaded},
        )

    def _backend(self) -> Backend:
        return select_backend(self.options.device, self.options.threads)

    def _build(self, frame: Frame) -> Field:
        params, octree = self.params, OCTREES[self.params.octree]
        backend = self._backend()
        if self.options.max_memory is None:  # once: querying the system takes milliseconds
            self.options = replace(self.options, max_memory=memory_limit(backend, None))
        scene = Scene(backend, frame.mesh, frame.choice, params.query, trees_dominate=octree.trees_dominate)
        given = frame.given
        known = Deferred.known(frame.sha256), Deferred.known(frame.samples)
        facts = Facts(given.health, given.notes, given.of_file, *known)
        earlier, self._earlier = self._earlier, None
        if frame.coherent and earlier and earlier[0] == frame.index - 1:
            scene.warm_start = WarmStart.from_arrays(backend, scene.order, earlier[1])

        def keep(grown: Grown) -> None:
            if scene.gains_from_warm_start and not self.cold:
                self._earlier = frame.index, dict(grown.arrays)

        field = make_field(scene, params, self.options, facts, Schedule(), self._progress, keep)
        made = field.run["seconds"]
        seconds = {**frame.seconds, **made, "total": made["total"] + sum(frame.seconds.values())}
        field.run.update(seconds=seconds, coherent=frame.coherent, motion=frame.motion)
        return field


@dataclass(frozen=True)
class Frame:
    """A frame to build.

    index         frame index.
    sha256        mesh hash.
    motion        maximum distance, in the mesh's units, from a vertex to its position in the previous frame; None for
                  the first frame, and if the faces differ.
    coherent      whether the build reuses the previous frame's results.
    given, mesh   the mesh as given, and with consistently oriented faces.
    choice        preliminary choice of sign method.
    samples       points for the measured error.
    seconds       preparation time in seconds, by stage.
    """

    sequence: SequenceBuild
    index: int
    sha256: str
    motion: float | None
    coherent: bool
    given: Mesh
    mesh: Mesh
    choice: SignChoice
    samples: Samples
    seconds: dict[str, float]

    def build(self) -> Field:
        """This frame's field. Raises the errors of `sdfcli.build`."""
        with memory_errors():
            return self.sequence._build(self)


def load_frame(frames: Sources, index: int, params: BuildParams) -> Mesh:
    """A frame's mesh. Raises the errors of `load_placed`, prefixed with the frame index."""
    try:
        return load_placed(frames[index], params)
    except SdfError as error:
        raise type(error)(f"frame {index}: {error}") from error


def bounds_of_all(frames: Sources, params: BuildParams) -> Floats:
    """Lower and upper corner (2, 3) of the box around all frames, after scaling."""
    scaled = BuildParams(scale=params.scale, units=params.units)
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for index in range(len(frames)):
        bounds = load_frame(frames, index, scaled).bounds
        low, high = np.minimum(low, bounds[0]), np.maximum(high, bounds[1])
    return np.array([low, high])


def largest_step(before: Floats, after: Floats) -> float:
    """Maximum distance between vertices (v, 3) with the same index."""
    step = after - before
    return float(np.sqrt(np.einsum("vx,vx->v", step, step).max()))
