"""StatedError: a field's claim about its own error, and the resulting bounds on true distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.field.field import Field, stated


@dataclass(frozen=True)
class StatedError:
    """|field - true distance| <= near * max(1, |true distance| / band), in mesh units (concepts/accuracy.md).

    Stated: `near` is the tolerance, or the measured error if larger. Proven: `near` is the largest bound of any leaf
    (see `proven.error_for_bounds`).
    """

    near: float
    band: float
    proven: bool = False

    @staticmethod
    def of(field: Field) -> StatedError:
        """A field's stated error. Raises InputError if its info states none."""
        if "between" in field.info and "max_error" not in field.info:
            raise InputError("at that time no error is known: the faces of the frames around it differ; use --frame N")
        with stated(field.info):
            parameters = field.info["parameters"]
            near = field.unit * max(float(parameters["tolerance"]), float(field.info["max_error"]))
            band = field.unit * float(parameters["band"])
        if not (math.isfinite(near) and near >= 0 and math.isfinite(band) and band > 0):
            raise InputError(f"the field states an error of {near:g} and a band of {band:g}; build it again")
        return StatedError(near, band)

    def at(self, distance: Any) -> Any:
        """Maximum error at true distances, a number or an array."""
        return self.near * growth(distance, self.band)


def growth(distance: Any, band: float) -> Any:
    """Growth of the tolerance at true distances, a number or an array: 1 within the band, distance / band outside.
    Octree criteria (octree/error.h) and bounds on contacts (contact/bounds.h) follow the same rule."""
    return np.maximum(1.0, np.abs(distance) / band)


def is_unsigned(field: Field) -> bool:
    """Whether the field has no signs."""
    return field.info.get("sign") == "none"
