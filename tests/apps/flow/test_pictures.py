"""Pictures of flows, against rays and balls by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.apps.flow.pictures import RADIUS, RAYS, FlowPictures
from sdfcli.apps.flow.run import Flow, FlowOptions, State, prepare, prepare_dam_break
from sdfcli.backend import Backend, C

Picture = np.ndarray
SIZE = {"width": 60, "height": 44}
FILL = (-1.5, -1.5, -1.5, 1.5, 1.5, 1.5)


@pytest.fixture(scope="module")
def ball() -> sdfcli.Field:
    return sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=2e-3, domain=(-1.6, -1.6, -1.6, 3.2))


def flow_of(ball: sdfcli.Field, inside: bool, device: str = "cpu", threads: int | None = None) -> Flow:
    options = FlowOptions(inside=inside, time=0.1, frames=1, device=device, threads=threads)
    return prepare(ball, FILL, 0.25, options)


def with_places(state: State, position: Any, kind: int = C.FLUID) -> State:
    place = np.asarray(position, np.float32) - state.origin.astype(np.float32)
    n = len(place)
    return dataclasses.replace(
        state,
        place=place.astype(np.float32),
        number=np.arange(n, dtype=np.uint32),
        kind=np.full(n, kind, np.uint8),
        velocity=np.zeros((n, 3), np.float32),
        pressure=np.zeros(n, np.float32),
    )


def fronts(pictures: FlowPictures, state: State) -> Picture:
    """The ball that each ray meets first, -1 for none, by brute force; nearer ones, then smaller numbers."""
    balls = {name: pictures._balls.values[name] for name in ("camera", "pixel_size", "radius")}
    camera = np.asarray(balls["camera"])
    rows, columns = SIZE["height"] * RAYS, SIZE["width"] * RAYS
    y, x = ((np.arange(many) + 0.5) / RAYS - 0.5 * many / RAYS for many in (rows, columns))
    way = camera[3] + balls["pixel_size"] * (x[None, :, None] * camera[1] - y[:, None, None] * camera[2])
    way = way / np.linalg.norm(way, axis=2, keepdims=True)
    best, front = np.full((rows, columns), np.inf), np.full((rows, columns), -1)
    for number, centre in enumerate(pictures._domain.to_unit(state.position)):
        at = centre - camera[0]
        along = way @ at
        inner = balls["radius"] ** 2 - ((at - along[..., None] * way) ** 2).sum(axis=2)
        t = along - np.sqrt(np.maximum(inner, 0))
        nearer = (inner >= 0) & (t.astype(np.float32) < best)
        best[nearer], front[nearer] = t.astype(np.float32)[nearer], number
    return front


def test_every_ray_sees_the_nearest_ball(ball: sdfcli.Field) -> None:
    flow = flow_of(ball, False)
    first = flow.first()
    rng = np.random.default_rng(5)
    state = with_places(first, rng.uniform(-1.6, 1.6, (150, 3)))
    pictures = FlowPictures(flow, first, **SIZE)
    expected = fronts(pictures, state)
    assert 50 < len(np.unique(expected)) < 149  # some are hidden
    seen: list[Any] = []
    run = flow.backend.run

    def spy(kernel: str, n: int, **values: Any) -> None:
        run(kernel, n, **values)
        if kernel == "sdf_balls_cover":
            seen.append(values["front"].copy())

    flow.backend.run = spy  # type: ignore[method-assign]
    try:
        pictures.draw(state)
    finally:
        del flow.backend.run
    (front,) = seen
    found = np.where(front == 0, -1, (~front & np.uint64(0xFFFFFFFF)).astype(np.int64))
    differ = found != expected
    assert differ.mean() < 1e-3  # rays that graze a ball


def test_the_size_of_a_ball(ball: sdfcli.Field) -> None:
    """Half a spacing: neighbours of a lattice touch."""
    flow = flow_of(ball, False)
    first = flow.first()
    pictures = FlowPictures(flow, first, width=200, height=200, view="front")
    nothing = pictures.draw(with_places(first, np.empty((0, 3))))
    covered = (pictures.draw(with_places(first, [[0, 0, 0]])) != nothing).any(axis=2)
    across = covered.any(axis=0).sum()
    eye = np.asarray(pictures._balls.values["camera"])[0]
    distance = np.linalg.norm(eye - pictures._domain.to_unit(np.zeros((1, 3)))[0])
    radius = RADIUS * 0.25 / 3.2
    assert across == pytest.approx(2 * radius / distance / pictures._balls.values["pixel_size"], abs=2)


@pytest.mark.parametrize("inside", [False, True])
def test_a_field_without_water_is_what_render_draws(ball: sdfcli.Field, inside: bool) -> None:
    flow = flow_of(ball, inside)
    first = flow.first()
    found = FlowPictures(flow, first, ball, inside, **SIZE).draw(with_places(first, np.empty((0, 3))))
    if inside:
        assert np.array_equal(found, sdfcli.render(ball, device="cpu", **SIZE))
    else:  # from farther off: the whole tank is in the picture
        clay = (found.astype(int).max(axis=2) - found.astype(int).min(axis=2)) > 30
        assert 0.02 < clay.mean() < 0.3


def test_water_behind_an_obstacle_is_hidden_and_in_a_container_shines_through(ball: sdfcli.Field) -> None:
    for inside in (False, True):
        flow = flow_of(ball, inside)
        first = flow.first()
        pictures = FlowPictures(flow, first, ball, inside, view="front", **SIZE)
        nothing = pictures.draw(with_places(first, np.empty((0, 3))))
        middle = pictures.draw(with_places(first, [[0, 0, 0]]))
        assert np.array_equal(middle, nothing) != inside
        if not inside:
            assert not np.array_equal(pictures.draw(with_places(first, [[0, 0, 1.4]])), nothing)
            assert np.array_equal(pictures.draw(with_places(first, [[0, 0, -1.4]])), nothing)


def test_colours_tell_speeds(ball: sdfcli.Field) -> None:
    flow = flow_of(ball, False)
    first = flow.first()
    pictures = FlowPictures(flow, first, view="front", **SIZE)
    red = []
    for speed in (0.0, 2.0, 5.0, 1e3):
        state = with_places(first, [[0, 0, 0]])
        state.velocity[0, 1] = -speed
        red.append(int(pictures.draw(state)[SIZE["height"] // 2, SIZE["width"] // 2, 0]))
    assert red == sorted(red)
    assert red[0] < red[1] < red[2]


def test_walls_of_particles_are_left_out() -> None:
    flow = prepare_dam_break(FlowOptions(time=0.01, frames=1, device="cpu"))
    first = flow.first()
    pictures = FlowPictures(flow, first, **SIZE)
    whole, walls = pictures.draw(first), pictures.draw(with_places(first, [[0.5, 0.1, 0.3]], C.WALL))
    water = first.kind == C.FLUID
    alone = with_places(first, first.position[water])
    assert np.array_equal(whole, pictures.draw(alone))
    assert len(np.unique(walls.reshape(-1, 3), axis=0)) <= SIZE["height"]  # the background alone, a colour a row


def test_one_camera_for_all_states(ball: sdfcli.Field) -> None:
    flow = flow_of(ball, False)
    first = flow.first()
    pictures = FlowPictures(flow, first, ball, **SIZE)
    before = pictures.draw(first)
    pictures.draw(with_places(first, [[1.4, 1.4, 1.4]]))
    assert np.array_equal(pictures.draw(first), before)


def test_balls_behind_the_eye_and_far_beside_it(ball: sdfcli.Field) -> None:
    flow = flow_of(ball, False)
    first = flow.first()
    pictures = FlowPictures(flow, first, ball, view="front", **SIZE)
    nothing = pictures.draw(with_places(first, np.empty((0, 3))))
    eye = np.asarray(pictures._balls.values["camera"])[0] * 3.2 - 1.6
    behind = eye + np.array([0, 0, 5])
    beyond = [behind, eye, 0.99 * eye + 0.01 * behind, [1e6, 0, 0], [0, -1e30, 0]]
    assert np.array_equal(pictures.draw(with_places(first, beyond)), nothing)


def drawn(ball: sdfcli.Field, inside: bool, **device: Any) -> bytes:
    flow = flow_of(ball, inside, **device)
    first = flow.first()
    return FlowPictures(flow, first, ball, inside, **SIZE).draw(first).tobytes()


@pytest.mark.parametrize("inside", [False, True])
def test_threads(ball: sdfcli.Field, inside: bool) -> None:
    one = drawn(ball, inside, threads=1)
    for threads in (2, 5):
        assert drawn(ball, inside, threads=threads) == one


@pytest.mark.gpu
@pytest.mark.parametrize("inside", [False, True])
def test_on_a_gpu(ball: sdfcli.Field, inside: bool, gpu: Backend) -> None:
    assert drawn(ball, inside, device=gpu.name) == drawn(ball, inside)


def test_balls_at_one_place(ball: sdfcli.Field) -> None:
    """The smallest number is seen."""
    flow = flow_of(ball, False)
    first = flow.first()
    pictures = FlowPictures(flow, first, **SIZE)
    state = with_places(first, [[0.1, 0.2, 0.3]] * 40)
    state.velocity[1:, 0] = 100.0
    assert np.array_equal(pictures.draw(state), pictures.draw(with_places(first, [[0.1, 0.2, 0.3]])))
