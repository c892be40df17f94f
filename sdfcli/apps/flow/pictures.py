"""Flow pictures: a field's surface as `render` draws it, and the water as balls."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt

from sdfcli.apps.flow.run import MACH, Flow, State
from sdfcli.backend import Array, C
from sdfcli.extract.sources import leaves_at
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.pictures.colour import diverging
from sdfcli.pictures.render import DEFAULT_VIEW, aim, check_size, draw, shot_at, trace, view_axes

RADIUS = 0.5
"""Ball radius, in spacings."""

RAYS = 3
"""Rays per pixel and axis for the balls."""

THROUGH = 0.75
"""The water's visible share behind its container's surface."""

CORNERS = np.array([[*corner, 0.0] for corner in product((0.0, 1.0), repeat=3)])
"""Unit cube corners as zero-size leaves."""


class FlowPictures:
    """Draws a flow's states with one camera.

    Slow water is blue; white water is as fast as a fall from the initial box's top to the ground. Water inside a
    surface shines through. Wall particles are not drawn.
    """

    def __init__(
        self,
        flow: Flow,
        first: State,
        field: Field | None = None,
        inside: bool = False,
        *,
        width: int = 800,
        height: int = 600,
        view: str | tuple[float, float] = DEFAULT_VIEW,
    ) -> None:
        """first: initial state; field, inside: the wall, if any; the others as for `render`, with gravity downwards.

        Raises `render`'s exceptions.
        """
        check_size(width, height)
        _, y, z = flow.fluid.gravity
        axes = view_axes(view, "z" if abs(z) > abs(y) else "y")
        backend = self._backend = flow.backend
        self._size = width, height
        self._through = THROUGH if inside else 0.0
        self._radius, self._fast = RADIUS * flow.fluid.spacing, math.sqrt(2) * flow.fluid.sound / MACH
        with backend.active():
            self._picture: Array | None = None
            self._depth: Array | None = None
            if field is None:
                corners = np.array([first.position.min(axis=0), first.position.max(axis=0)])
                self._domain = Domain.around(corners)
                camera, _ = aim(_corners_of(self._domain.to_unit(corners)), axes, width, height)
            else:
                self._domain = field.domain
                leaves = leaves_at(backend, field, 0.0)
                shot = shot_at(leaves, axes, width, height, 0.0, None if inside else CORNERS)
                camera, seen = shot.camera, (backend, field, 0.0, shot.camera, shot.reach)
                self._picture = backend.from_host(draw(*seen, width, height))
                self._depth = backend.xp.empty((height, width))
                trace(*seen, backend.xp.empty_like(self._picture), depth=self._depth)
            self._balls = backend.group(
                "Balls",
                width=width,
                height=height,
                rays=RAYS,
                pixel_size=camera.pixel_size,
                radius=self._radius / self._domain.length,
                camera=backend.from_host(camera.frame),
            )

    def draw(self, state: State) -> npt.NDArray[np.uint8]:
        """A state's picture (height, width, 3), the same on all devices and threads."""
        backend, xp = self._backend, self._backend.xp
        water = state.kind == C.FLUID
        velocity = state.velocity[water].astype(np.float64)
        speed = np.sqrt(sum(velocity[:, k] ** 2 for k in range(3)))
        colour = diverging(np.minimum(speed / self._fast, 1.0) - 1.0)
        width, height = self._size
        with backend.active():
            centre = backend.from_host(self._domain.to_unit(state.position[water]))
            front = xp.zeros((height * RAYS, width * RAYS), np.uint64)
            balls = {"balls": self._balls, "centre": centre, "front": front}
            backend.run("sdf_balls_cover", len(centre), **balls)
            picture = xp.empty((height, width, 3), np.uint8)
            backend.run(
                "sdf_balls_draw",
                width * height,
                **balls,
                count=len(centre),
                through=self._through,
                colour=backend.from_host(colour),
                depth=self._depth,
                behind=self._picture,
                pixel=picture,
            )
            return backend.to_host(picture)


def _corners_of(box: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A box's (2, 3) corners as zero-size leaves (8, 4)."""
    return np.hstack((box[0] + (box[1] - box[0]) * CORNERS[:, :3], CORNERS[:, 3:]))
