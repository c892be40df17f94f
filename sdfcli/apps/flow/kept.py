"""A flow's finished states, stored next to its file until it ends, so that an interrupted run can resume."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli import __version__
from sdfcli.apps.flow.run import Flow, State
from sdfcli.backend import C
from sdfcli.field.field import Field
from sdfcli.runtime.parts import read_part, write_part

ARRAYS: dict[str, tuple[str, tuple[int, ...]]] = {
    "number": ("<u4", ()),
    "kind": ("|u1", ()),
    "place": ("<f4", (3,)),
    "velocity": ("<f4", (3,)),
    "pressure": ("<f4", ()),
}
"""A state's stored arrays: type, and shape per particle."""

PUSHES = 2
"""Maximum times per particle and time step behind a wall or too fast."""

FACTS: dict[str, tuple[type, ...]] = {
    "time": (float,),
    "steps": (int,),
    "lost": (int,),
    "behind": (int,),
    "fast": (int,),
    "clearance": (float, type(None)),
    "energy": (float,),
}
"""A state's other stored values: types."""


class KeptStates:
    """Iterable over a flow's states that stores each finished one in a folder.

    first  initial state.
    kept   states read from an earlier run so far.
    """

    def __init__(self, flow: Flow, field: Field | None, folder: Path) -> None:
        """folder: from `parts_folder`."""
        self._flow, self._folder, self.first = flow, folder, flow.first()
        self._key = state_key(flow, field, self.first)
        self.kept = 0

    def __iter__(self) -> Iterator[State]:
        """All states. Raises `Flow.after`'s exceptions, and UsageError if a state cannot be stored."""
        state = self.first
        yield state
        while state.index < self._flow.frames:
            found = self._read(state.index + 1)
            if found is None:
                state = self._flow.after(state)
                self._write(state)
            else:
                state = found
                self.kept += 1
            yield state

    def _write(self, state: State) -> None:
        facts = {name: getattr(state, name) for name in FACTS}
        arrays = (np.asarray(getattr(state, name), dtype).tobytes() for name, (dtype, _) in ARRAYS.items())
        write_part(self._folder, state.index, {"key": self._key, "particles": len(state), **facts}, *arrays)

    def _read(self, index: int) -> State | None:
        """A frame's stored state; None if missing, damaged, impossible, or from another flow."""
        part = read_part(self._folder, index)
        if part is None or not isinstance(part[0], dict) or part[0].get("key") != self._key:
            return None
        head, content = part
        count = head.get("particles")
        row = sum(np.dtype(dtype).itemsize * int(np.prod(shape)) for dtype, shape in ARRAYS.values())
        if type(count) is not int or count < 0 or len(content) != row * count:
            return None
        if any(type(head.get(name)) not in kinds for name, kinds in FACTS.items()):
            return None
        values: dict[str, Any] = {name: head[name] for name in FACTS}
        first = 0
        for name, (dtype, shape) in ARRAYS.items():
            length = count * int(np.prod(shape))
            values[name] = np.frombuffer(content, dtype, length, first).reshape(count, *shape)
            first += values[name].nbytes
        state = State(index=index, origin=self.first.origin, **values)
        return state if self._may_follow(state) else None

    def _may_follow(self, state: State) -> bool:
        """Whether a state is plausible for the flow: kernels do not check it."""
        start, number, grid, steps = self.first, state.number, self._flow.grid, state.index * self._flow.per_frame
        counted = (state.steps, state.time) == (steps, steps * self._flow.fluid.step)
        finite = math.isfinite(state.energy) and math.isfinite(state.clearance or 0.0)
        return bool(
            counted
            and finite
            and min(state.behind, state.fast) >= 0
            and max(state.behind, state.fast) <= PUSHES * steps * len(start)
            and (state.clearance is None) == (self._flow.wall is None or not (state.kind == C.FLUID).any())
            and self._flow.bears(state.velocity)
            and np.isfinite(state.pressure).all()
            and (np.diff(number.astype(np.int64)) > 0).all()
            and (number < len(start)).all()
            and np.array_equal(state.kind, start.kind[number])
            and ((state.place >= grid.low) & (state.place < grid.high)).all()
            and state.lost == len(start) - len(state)
        )


def state_key(flow: Flow, field: Field | None, first: State) -> dict[str, Any]:
    """Everything that determines a flow's states."""
    digest = hashlib.sha256()
    for values in (first.kind, first.place, first.origin):
        digest.update(values.tobytes())
    fluid = asdict(flow.fluid)
    return {
        "tool_version": __version__,
        "field": field and field.content_sha256,
        "fluid": {**fluid, "gravity": list(fluid["gravity"])},
        "per_frame": flow.per_frame,
        "start": digest.hexdigest(),
    }
