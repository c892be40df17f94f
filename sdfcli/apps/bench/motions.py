"""Mesh motions for benchmarks: vertices (v, 3) at rest to vertices (v, 3).

A motion's amount is the maximum vertex displacement, in the vertices' units; its sign gives the direction. The long
axis follows the bounding box's longest edge; the other two come after it in cyclic order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sdfcli.mesh.arrays import Floats

Motion = Callable[[Floats, float], Floats]


def turn(vertices: Floats, amount: float) -> Floats:
    """Rotation about the long axis through the middle, by at most half a turn."""
    return _rotated(vertices, np.ones(len(vertices)), amount)


def twist(vertices: Floats, amount: float) -> Floats:
    """Rotation about the long axis by angles proportional to the axial distance from the middle: the ends rotate in
    opposite directions, each by at most half a turn."""
    along, _ = _place(vertices)
    return _rotated(vertices, along, amount)


def bend(vertices: Floats, amount: float) -> Floats:
    """Parabola along the long axis: the ends move, the middle stays."""
    along, off = _place(vertices)
    _, across, _ = _axes(vertices)
    way = np.zeros_like(off)
    way[:, across] = along**2
    return _moved(vertices, way, amount)


def inflation(vertices: Floats, amount: float) -> Floats:
    """Moves all vertices away from the middle by the same distance."""
    _, off = _place(vertices)
    distance = np.linalg.norm(off, axis=1, keepdims=True)
    return _moved(vertices, off / np.where(distance > 0, distance, 1), amount)


def breathing(vertices: Floats, amount: float) -> Floats:
    """Moves vertices away from the long axis, most in its middle, not at all at its ends."""
    along, off = _place(vertices)
    off[:, _axes(vertices)[0]] = 0
    return _moved(vertices, off * (1 - along**2)[:, None], amount)


MOTIONS: dict[str, Motion] = {
    "turn": turn,
    "bend": bend,
    "twist": twist,
    "inflation": inflation,
    "breathing": breathing,
}


def cycle(vertices: Floats, motion: Motion, frames: int, amount: float) -> Iterator[Floats]:
    """Vertices (v, 3) per frame for a smooth motion there and back: amount * sin(2 pi k / frames) in frame k."""
    for number in range(frames):
        yield motion(vertices, amount * float(np.sin(2 * np.pi * number / frames)))


def _axes(vertices: Floats) -> tuple[int, int, int]:
    """Long axis, and the two after it."""
    long = int(np.argmax(np.ptp(vertices, axis=0)))
    return long, (long + 1) % 3, (long + 2) % 3


def _place(vertices: Floats) -> tuple[Floats, Floats]:
    """Coordinates along the long axis (v,), from -1 to 1, and vectors (v, 3) from the bounding box centre."""
    off = vertices - (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    along = off[:, _axes(vertices)[0]]
    return along / (np.abs(along).max() or 1), off


def _moved(vertices: Floats, way: Floats, amount: float) -> Floats:
    """Vertices moved along the vectors (v, 3), scaled to the maximum length `amount`."""
    longest = np.linalg.norm(way, axis=1).max()
    return vertices + way * (amount / longest if longest > 0 else 0)


def _rotated(vertices: Floats, share: Floats, amount: float) -> Floats:
    """Vertices rotated about the long axis by shares (v,), scaled to the smallest angle with displacement `amount`."""
    long, x, y = _axes(vertices)
    _, off = _place(vertices)
    reach = 2 * np.hypot(off[:, x], off[:, y])  # of half a turn
    moves = (share != 0) & (reach > 0)
    half_turns = 2 * np.arcsin(np.minimum(1, abs(amount) / reach[moves]))
    angles = share * np.copysign(np.min(half_turns / np.abs(share[moves]), initial=np.pi), amount)
    cosine, sine = np.cos(angles), np.sin(angles)
    turned = vertices - off
    turned[:, long] = vertices[:, long]
    turned[:, x] += cosine * off[:, x] - sine * off[:, y]
    turned[:, y] += sine * off[:, x] + cosine * off[:, y]
    return turned
