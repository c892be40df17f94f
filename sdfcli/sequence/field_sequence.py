"""FieldSequence: a moving mesh's fields over time, evaluated linearly between frames."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Domain
from sdfcli.sequence.mix import mix

KEPT = 3
"""Frames in memory: the two around a time, and one more."""


class FieldSequence:
    """Fields of a moving mesh's frames, all in one domain; see `sdfcli.load_sequence`.

    Between frames, the field is linear in time at every point. If both frames have the same faces, and each vertex
    moves along a line by at most `motion`, the interpolated distances differ from the true ones to the mesh in between
    by at most `bound(time)`, apart from the two fields' errors.

    Attributes:
        domain: root cube shared by all octrees, in the mesh's units.
        times: (t,) float64, increasing. Frame times in seconds.
        motion: (t,) float64. Maximum distance from a vertex to its position in the previous frame, in the mesh's units;
            nan for the first frame, and if the previous frame has different faces.
        info: file metadata; keys in docs/reference/file.md.
        content_sha256: SHA-256 of domain, times, motions and frame hashes, in hexadecimal.
    """

    def __init__(
        self,
        domain: Domain,
        times: Floats,
        motion: Floats,
        info: dict[str, Any],
        content_sha256: str,
        read: Callable[[int], Field],
    ) -> None:
        """read: returns the field at a frame index."""
        self.domain, self.times, self.motion = domain, times.view(), motion.view()
        self.info, self.content_sha256 = info, content_sha256
        self.times.flags.writeable = self.motion.flags.writeable = False
        self._read = lru_cache(KEPT)(read)

    def __len__(self) -> int:
        """Frame count."""
        return len(self.times)

    def __repr__(self) -> str:
        return f"<FieldSequence: {len(self):,} frames, {self.times[0]:.6g} to {self.times[-1]:.6g} s>"

    def at(self, frame: int) -> Field:
        """A frame's field; negative indices count from the end. The last few are cached in memory.

        Raises UsageError for a nonexistent frame; InputError if the file is damaged or has changed.
        """
        count, number = len(self), operator.index(frame)
        if not -count <= number < count:
            raise UsageError(f"frame {frame}: the sequence has frames 0 to {count - 1}")
        return self._read(number % count)

    def frame_at(self, time: float) -> int:
        """Index of the frame nearest to a time, the earlier one on a tie. Raises UsageError for a time outside the
        sequence."""
        first, share = self._place(time)
        return first + (share > 0.5)

    def at_time(self, time: float) -> Field:
        """The field at a time: a frame's, or between two frames a field on the union of their octrees, with the smaller
        leaf at each location. Its values equal `sample`, to float32, if the fields are continuous, as with adaptive
        octrees; otherwise they differ by less than the fields' errors.

        Raises UsageError for a time outside the sequence.
        """
        first, share = self._place(time)
        if not share:
            return self.at(first)
        return mix(self.at(first), self.at(first + 1), share, self.bound(time))

    def sample(self, points: npt.ArrayLike, time: float) -> Floats:
        """Signed distances (...) float64 at points (..., 3) and a time; see `Field.sample`. Raises UsageError for a
        time outside the sequence."""
        return self._linear(lambda field: field.sample(points), time)

    def gradient(self, points: npt.ArrayLike, time: float) -> Floats:
        """Gradients (..., 3) float64 at points (..., 3) and a time; see `Field.gradient`. Raises UsageError for a time
        outside the sequence."""
        return self._linear(lambda field: field.gradient(points), time)

    def rate(self, points: npt.ArrayLike, time: float) -> Floats:
        """Rates of change (...) float64 of the signed distances at points (..., 3), in the mesh's units per second,
        over the interval that starts at or contains the time; at the end, over the last interval.

        Raises UsageError for a time outside the sequence, and for a one-frame sequence.
        """
        if len(self) == 1:
            raise UsageError("a sequence of one frame has no rate of change")
        first = min(self._place(time)[0], len(self) - 2)
        change = self.at(first + 1).sample(points) - self.at(first).sample(points)
        return change / float(self.times[first + 1] - self.times[first])

    def bound(self, time: float) -> float | None:
        """Maximum linear interpolation error at a time, in the mesh's units, apart from the fields' errors:
        2 s (1 - s) motion at share s of the interval. None if the two frames' faces differ.

        Raises UsageError for a time outside the sequence.
        """
        first, share = self._place(time)
        if not share:
            return 0.0
        motion = float(self.motion[first + 1])
        return None if math.isnan(motion) else 2 * share * (1 - share) * motion

    def _linear(self, value: Callable[[Field], Floats], time: float) -> Floats:
        first, share = self._place(time)
        if not share:
            return value(self.at(first))
        return (1 - share) * value(self.at(first)) + share * value(self.at(first + 1))

    def _place(self, time: float) -> tuple[int, float]:
        """The frame at or before a time, and the elapsed share of the interval, 0 to below 1."""
        low, high = float(self.times[0]), float(self.times[-1])
        if not low <= time <= high:
            raise UsageError(f"time {time}: the sequence lasts from {low} to {high} seconds")
        first = int(np.searchsorted(self.times, time, "right")) - 1
        if time == self.times[first]:
            return first, 0.0
        return first, float((time - self.times[first]) / (self.times[first + 1] - self.times[first]))
