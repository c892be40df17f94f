"""Benchmark for particle layouts: the paper's dam break and finer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from sdfcli.apps.flow import tomioka
from sdfcli.apps.flow.cases import Start, dam_break
from sdfcli.apps.flow.fluid import Fluid
from sdfcli.apps.flow.layout import LISTED, WIDER, Grid, ParticleStore, check_layout
from sdfcli.apps.flow.run import dam_break_fluid
from sdfcli.apps.flow.step import STEPS, Stepper
from sdfcli.backend import Backend
from sdfcli.backend.timing import Stages
from sdfcli.errors import UsageError

ORDERS = ("lattice", "shuffled")
"""Particle numbering: along the lattice, as at the start, or random, as after mixing."""

LAYOUTS = ("index", "bucket", "compact", "compact, lists")
"""The paper's two, then ours; the last also lists possible neighbours in each step."""

BLOCKS = (64, 128, 256, 512)
"""GPU block sizes in threads, from the paper."""

WIDEST = 4.0
"""Maximum bucket edge, in radii of influence."""

SHORT = 100
"""Time steps on a CPU; a GPU runs the paper's 2,000."""

WARM = 10
"""Warm-up time steps."""

MOST_SCALE = 10_000
"""Maximum particle count, in multiples of the paper's."""

SEED = 1


@dataclass(frozen=True)
class Row:
    """One run.

    particles  particle count.
    order      in ORDERS.
    layout     in LAYOUTS.
    block      threads per block; None on a CPU.
    bucket     bucket edge, in radii of influence.
    seconds    for 2,000 steps, from the median run; includes (viii), as in the paper.
    stages     milliseconds per step by stage (step.py: STEPS), from a separate run.
    paper      the paper's seconds.
    """

    particles: int
    order: str
    layout: str
    block: int | None
    bucket: float
    seconds: float
    stages: dict[str, float]
    paper: float | None


def finer(scale: float) -> int:
    """The case's refinement factor for about `scale` times the paper's particles. Raises UsageError below 1 and above
    MOST_SCALE."""
    if not 1 <= scale <= MOST_SCALE:
        raise UsageError(f"--scale {scale:g}: use 1 to {MOST_SCALE:,}, times the paper's particles")
    wanted = scale * tomioka.PARTICLES
    found = 1
    while abs(_size(found + 1) - wanted) < abs(_size(found) - wanted):
        found += 1
    return found


def _size(finer: int) -> int:
    """The case's particle count at a refinement factor."""
    inner = 50 * 10 * 33 * finer**3
    whole = (50 * finer + 6) * (10 * finer + 6) * (33 * finer + 3)
    return whole - inner + 13 * 10 * 26 * finer**3


def flow_layout(target: str) -> str | None:
    """Layout in a profiler target `flow:LAYOUT`, compact for `flow`; None for other targets, such as files.

    Raises UsageError for an unknown layout.
    """
    word, _, layout = target.partition(":")
    if word != "flow" or Path(target).exists():
        return None
    check_layout(layout or "compact")
    return layout or "compact"


class FlowSteps:
    """Profiler target: the paper's case in one layout, with random particle numbers."""

    def __init__(self, backend: Backend, layout: str) -> None:
        start = dam_break()
        number = np.arange(len(start.position), dtype=np.uint32)
        np.random.default_rng(SEED).shuffle(number)
        self._stepper = _stepper(backend, start, dam_break_fluid(1), number, layout)

    def run(self, steps: int) -> None:
        """Runs time steps with all eight stages."""
        self._stepper.advance(steps, measured=True)


def measure(
    backend: Backend,
    scales: Sequence[float] = (1,),
    blocks: Sequence[int | None] = (None,),
    buckets: Sequence[float] = (WIDER,),
    steps: int = tomioka.STEPS,
    repeat: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Row]:
    """All layouts in interleaved runs, for each scale, numbering, block size and bucket edge.

    Raises UsageError for impossible scales and bucket edges.
    """
    for edge in buckets:
        if not 1 <= edge <= WIDEST:
            raise UsageError(f"--buckets {edge:g}: use 1 to {WIDEST:g} radii of influence")
    for scale in scales:
        times = finer(scale)
        start, fluid = dam_break(times), dam_break_fluid(times)
        for order in ORDERS:
            number = np.arange(len(start.position), dtype=np.uint32)
            if order == "shuffled":
                np.random.default_rng(SEED).shuffle(number)
            for block in blocks:
                if progress:
                    progress(f"{len(number):,} particles, {order}" + (f", blocks of {block}" if block else ""))
                for edge in buckets:
                    yield from _in_turns(backend, start, fluid, number, order, block, edge, steps, repeat)


def _in_turns(
    backend: Backend,
    start: Start,
    fluid: Fluid,
    number: np.typing.NDArray[np.uint32],
    order: str,
    block: int | None,
    edge: float,
    steps: int,
    repeat: int,
) -> Iterator[Row]:
    seconds: dict[str, list[float]] = {layout: [] for layout in LAYOUTS}
    stages: dict[str, dict[str, float]] = {}
    with backend.blocks_of(block or 128):
        for _ in range(repeat):
            for layout in LAYOUTS:
                stepper = _stepper(backend, start, fluid, number, layout, edge)
                seconds[layout].append(_run(stepper, steps)["steps"] / steps)
        for layout in LAYOUTS:
            own = Stages()
            some = min(steps, SHORT)
            _run(_stepper(backend, start, fluid, number, layout, edge, own), some)
            found = own.seconds()
            stages[layout] = {name: 1e3 * found[name] / (some + WARM) for name in STEPS if name in found}
    for layout in LAYOUTS:
        paper = None
        if len(number) == tomioka.PARTICLES and edge == WIDER and order == "lattice":
            paper = tomioka.SECONDS.get(block or 0, {}).get(layout)
        whole = tomioka.STEPS * median(seconds[layout])
        yield Row(len(number), order, layout, block, edge, whole, stages[layout], paper)


def _stepper(
    backend: Backend,
    start: Start,
    fluid: Fluid,
    number: np.typing.NDArray[np.uint32],
    layout: str,
    edge: float = WIDER,
    stages: Stages | None = None,
) -> Stepper:
    """Stepper for the case with renumbered particles."""
    along = np.argsort(number)
    place = (start.position - start.low).astype(np.float32)[along]
    grid = Grid.over(np.zeros(3), start.high - start.low, fluid.reach, edge)
    sorted_number = np.arange(len(number), dtype=np.uint32)
    name, _, lists = layout.partition(", ")
    rest, kind = np.zeros_like(place), start.kind[along]
    listed = LISTED if lists else 0
    store = ParticleStore(backend, name, grid, place, rest, kind, sorted_number, listed=listed)
    return Stepper(store, fluid, None, stages)


def _run(stepper: Stepper, steps: int) -> dict[str, float]:
    """Seconds for the time steps, after WARM warm-up steps."""
    whole, backend = Stages(), stepper.store.backend
    stepper.advance(WARM, measured=True)
    with whole("steps", backend):
        stepper.advance(steps, measured=True)
    return whole.seconds()
