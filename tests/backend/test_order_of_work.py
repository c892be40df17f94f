"""Work of a device in order: what is ready to be run, waited for, or done ahead of something else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

import backends
from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Stages
from sdfcli.mesh.load import make_mesh
from sdfcli.scene import Scene

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

import shapes

backend = backends.backend


def long_work(backend: Backend) -> tuple[Array, Callable[[], None]]:
    """Numbers, and what adds 300 to each, which a GPU is at for a while."""
    numbers = backend.xp.zeros(1 << 22, np.uint32)

    def work() -> None:
        for _ in range(300):
            backend.xp.add(numbers, np.uint32(1), out=numbers)

    return numbers, work


def test_a_kernel_that_is_ready_runs_as_often_as_it_is_called(backend: Backend) -> None:
    values = backend.from_host(np.arange(1, 101), np.float64)
    launch = backend.ready("sdf_area_sums", 1, faces=len(values), area=values)
    expected = np.arange(1.0, 101.0)
    assert np.array_equal(backend.to_host(values), expected)
    for _ in range(3):
        launch()
        expected = np.cumsum(expected)
        assert np.array_equal(backend.to_host(values), expected)


def test_work_so_far_is_waited_for(backend: Backend) -> None:
    numbers, work = long_work(backend)
    work()
    done, copied = backend.done_so_far(), backend.copy_async(numbers[-1:])
    done()
    assert copied().tolist() == [300]


def test_work_behind_is_not_waited_for(backend: Backend) -> None:
    numbers, work = long_work(backend)
    before = backend.xp.full(1000, 3, np.uint32)
    for round_ in range(1, 4):
        with backend.foreground():
            backend.low_priority(work)
            found = before * np.uint32(2)
            on_host = backend.to_host(found)
        assert on_host.tolist() == [6] * 1000
        assert backend.to_host(found).tolist() == [6] * 1000
        assert backend.to_host(numbers[::999]).min() == 300 * round_  # what comes later follows it


@pytest.mark.gpu
def test_work_behind_is_overtaken(gpu: CudaBackend) -> None:
    cuda, (numbers, work) = gpu.xp.cuda, long_work(gpu)
    work()  # loads what it runs
    gpu.synchronize()
    times, overtaken = 1, False
    while not overtaken and times < 10:  # a host that stands still for milliseconds comes late
        with gpu.foreground():
            done = gpu.low_priority(lambda: (work(), cuda.get_current_stream().record())[1])
            gpu.to_host(gpu.xp.full(1000, 3, np.uint32))
            overtaken = not done.done
        times += 1
    assert overtaken
    assert int(numbers.min()) == int(numbers.max()) == 300 * times


@pytest.mark.gpu
def test_streams_are_left_where_work_fails(gpu: CudaBackend) -> None:
    numbers, work = long_work(gpu)
    stream = gpu.xp.cuda.get_current_stream()

    def fails() -> None:
        work()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"), gpu.foreground():
        gpu.low_priority(fails)
    assert gpu.xp.cuda.get_current_stream() == stream
    assert int(numbers.min()) == int(numbers.max()) == 300


def test_work_beside_comes_after_what_was_there_and_waits_for_nothing_later(backend: Backend) -> None:
    numbers, work = long_work(backend)
    with ThreadPoolExecutor(1) as thread:
        for round_ in range(1, 4):
            work()
            doubled = thread.submit(
                backend.high_priority(lambda: backend.to_host(numbers[::999] * np.uint32(2)))
            ).result
            assert set(doubled().tolist()) == {600 * round_}
        later, after = long_work(backend)
        asked = thread.submit(backend.high_priority(lambda: backend.xp.full(1000, 3, np.uint32))).result
        after()
        assert backend.to_host(asked()).tolist() == [3] * 1000  # is there, also for other streams
        assert backend.to_host(later[::999]).tolist() == [300] * len(later[::999])


@pytest.mark.gpu
def test_work_beside_fails_in_its_thread(gpu: CudaBackend) -> None:
    def fails() -> None:
        raise RuntimeError("no")

    with ThreadPoolExecutor(1) as thread, pytest.raises(RuntimeError, match="no"):
        thread.submit(gpu.high_priority(fails)).result()


def test_crossing_faces_are_counted_at_once_or_later(backend: Backend) -> None:
    """Later where their tree is a small part of a GPU's memory."""
    shape, found = shapes.overlapping(np.random.default_rng(0), 2), set()
    for memory in (None, 1 << 40):
        scene = Scene.of(make_mesh(*shape), "winding", backend, memory=memory, stages=Stages())
        scene.release_sign_data()
        scene.settle()
        assert scene.counted == (memory is None or not backend.memory.scarce)
        with backend.foreground():
            scene.count_crossing()
            assert len(scene.index.order) == len(shape[1])
        assert scene.counted
        found.add(scene.choice.crossing)
    assert len(found) == 1
    assert found.pop() > 0
