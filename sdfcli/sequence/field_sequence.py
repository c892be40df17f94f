"""FieldSequence: fields of a moving mesh over time, and their evaluation, linear between frames."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Domain
from sdfcli.sequence.mix import mix

KEPT = 3
"""Frames in memory: the two around a time, and one more."""


class FieldSequence:
    """Fields of the frames of a moving mesh, all in one domain; see `sdfcli.load_sequence`.

    Between frames the field is linear in time, at every point. Where the faces of two frames are the same, and each
    vertex moves on a line by at most `motion`, its distances differ from those of the mesh in between by at most
    `bound(time)`, apart from the errors of the two fields.

    Attributes:
        domain: the cube of all octrees' roots, in the mesh's units.
        times: (t,) float64, increasing: the times of the frames, in seconds.
        motion: (t,) float64: maximum distance of a vertex from its place in the frame before, in the mesh's units; nan
            for the first frame, and where the faces are not those of the frame before.
        info: metadata of the file; keys in docs/reference/file.md.
        content_sha256: SHA-256 of domain, times, motions and the frames' hashes, in hexadecimal.
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
        """read: gives the field of a frame by its number."""
        self.domain, self.times, self.motion = domain, times.view(), motion.view()
        self.info, self.content_sha256 = info, content_sha256
        self.times.flags.writeable = self.motion.flags.writeable = False
        self._read = lru_cache(KEPT)(read)

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.times)

    def at(self, frame: int) -> Field:
        """The field of a frame; negative numbers count from the end. The last few are kept in memory.

        Raises UsageError for a frame that is not there; InputError where the file is damaged, or no longer the same.
        """
        count, number = len(self), operator.index(frame)
        if not -count <= number < count:
            raise UsageError(f"frame {frame}: the sequence has frames 0 to {count - 1}")
        return self._read(number % count)

    def frame_at(self, time: float) -> int:
        """The number of the frame nearest to a time, the earlier one of two. Raises UsageError for a time outside."""
        first, share = self._place(time)
        return first + (share > 0.5)

    def at_time(self, time: float) -> Field:
        """The field at a time: that of a frame, or between two of them one whose octree is the union of both, with the
        smaller leaf at each place. It is the same as `sample`, to float32, where the fields are continuous, as those of
        adaptive octrees are; elsewhere it differs by less than their errors.

        Raises UsageError for a time outside.
        """
        first, share = self._place(time)
        if not share:
            return self.at(first)
        return mix(self.at(first), self.at(first + 1), share, self.bound(time))

    def sample(self, points: Any, time: float) -> Any:
        """Signed distances (n,) float64 at points (n, 3) and a time; see `Field.sample`. Raises UsageError for a time
        outside."""
        return self._linear(lambda field: field.sample(points), time)

    def gradient(self, points: Any, time: float) -> Any:
        """Gradients (n, 3) float64 at points (n, 3) and a time; see `Field.gradient`. Raises UsageError for a time
        outside."""
        return self._linear(lambda field: field.gradient(points), time)

    def rate(self, points: Any, time: float) -> Any:
        """Change (n,) float64 of the signed distances at points (n, 3) per second, in the mesh's units: that of the
        interval that begins with or contains the time, of the last interval at the end.

        Raises UsageError for a time outside, and for a sequence of one frame.
        """
        if len(self) == 1:
            raise UsageError("a sequence of one frame has no rate of change")
        first = min(self._place(time)[0], len(self) - 2)
        change = self.at(first + 1).sample(points) - self.at(first).sample(points)
        return change / float(self.times[first + 1] - self.times[first])

    def bound(self, time: float) -> float | None:
        """Maximum error of linear interpolation at a time, in the mesh's units, apart from the errors of the fields:
        2 s (1 - s) motion at the share s of the interval. None where the faces of the two frames differ.

        Raises UsageError for a time outside.
        """
        first, share = self._place(time)
        if not share:
            return 0.0
        motion = float(self.motion[first + 1])
        return None if math.isnan(motion) else 2 * share * (1 - share) * motion

    def _linear(self, value: Callable[[Field], Any], time: float) -> Any:
        first, share = self._place(time)
        if not share:
            return value(self.at(first))
        return (1 - share) * value(self.at(first)) + share * value(self.at(first + 1))

    def _place(self, time: float) -> tuple[int, float]:
        """The frame at or before a time, and the share of the interval that has passed, 0 to below 1."""
        low, high = float(self.times[0]), float(self.times[-1])
        if not low <= time <= high:
            raise UsageError(f"time {time}: the sequence lasts from {low} to {high} seconds")
        first = int(np.searchsorted(self.times, time, "right")) - 1
        if time == self.times[first]:
            return first, 0.0
        return first, float((time - self.times[first]) / (self.times[first + 1] - self.times[first]))
