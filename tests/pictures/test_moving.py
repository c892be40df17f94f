"""Moving pictures, as Pillow reads them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from sdfcli.pictures.moving import LONGEST, Palette, Picture, delays, write_apng, write_gif

SECONDS = [0.25, 0.5, 0.25, 1.0]


def square(k: int) -> Picture:
    """A red square that moves over a background with a slope of colours, 200 of them in all."""
    picture = np.empty((50, 70, 3), np.uint8)
    picture[...] = np.linspace(30, 229, 50).astype(np.uint8)[:, None, None]
    picture[10 + 5 * k : 20 + 5 * k, 3 + 15 * k : 23 + 15 * k] = 200, 10 * k, 20
    return picture


PICTURES = [square(k) for k in range(4)]


def written(ending: str, path: Path, pictures: Any, seconds: list[float]) -> Path:
    if ending == "gif":
        write_gif(path, pictures, seconds, PICTURES)
    else:
        write_apng(path, pictures, seconds)
    return path


def read(path: Path) -> tuple[list[Picture], list[float]]:
    """Pictures and seconds; loops for ever."""
    with Image.open(path) as file:
        assert file.info["loop"] == 0
        frames = [(np.asarray(each.convert("RGB")), each.info["duration"]) for each in ImageSequence.Iterator(file)]
    return [picture for picture, _ in frames], [duration / 1000 for _, duration in frames]


@pytest.mark.parametrize("ending", ["gif", "apng"])
def test_pictures_and_times_come_back(ending: str, tmp_path: Path) -> None:
    pictures, seconds = read(written(ending, tmp_path / "a", iter(PICTURES), SECONDS))
    assert seconds == SECONDS
    assert len(pictures) == 4
    for picture, expected in zip(pictures, PICTURES, strict=True):
        assert np.array_equal(picture, expected)


@pytest.mark.parametrize("ending", ["gif", "apng"])
def test_equal_pictures_and_one_picture(ending: str, tmp_path: Path) -> None:
    still, seconds = read(written(ending, tmp_path / "a", [PICTURES[1], PICTURES[1], PICTURES[0]], [0.25] * 3))
    assert seconds == [0.25] * 3 or seconds == [0.5, 0.25]  # Pillow joins equal ones
    assert np.array_equal(still[0], PICTURES[1])
    assert np.array_equal(still[-1], PICTURES[0])
    path = written(ending, tmp_path / "b", PICTURES[:1], [0.25])
    assert np.array_equal(np.asarray(Image.open(path).convert("RGB")), PICTURES[0])


@pytest.mark.parametrize("ending", ["gif", "apng"])
def test_the_file_repeats_and_stores_what_changes(ending: str, tmp_path: Path) -> None:
    first = written(ending, tmp_path / "a", PICTURES, SECONDS).read_bytes()
    assert written(ending, tmp_path / "b", PICTURES, SECONDS).read_bytes() == first
    noise = np.random.default_rng(1).integers(0, 256, (60, 60, 3), np.uint8)
    other = noise.copy()
    other[4, 5] = 255 - other[4, 5]
    alone, all_of_them = (
        written(ending, tmp_path / "c", pictures, [1.0] * len(pictures)).stat().st_size
        for pictures in ([noise], [noise] + [other] * 20)
    )
    assert all_of_them < alone + 20 * 250


@pytest.mark.parametrize("ending", ["gif", "apng"])
def test_two_pictures_are_in_memory(ending: str, tmp_path: Path) -> None:
    alive: list[Any] = []
    most = 0

    def drawn() -> Iterator[Picture]:
        nonlocal most
        for k in range(12):
            picture = PICTURES[k % 4].copy()
            alive.append(weakref.ref(picture))
            gc.collect()
            most = max(most, sum(each() is not None for each in alive))
            yield picture

    written(ending, tmp_path / "a", drawn(), [0.1] * 12)
    assert most <= 3  # the last two, and the new one


def test_what_stands_still_has_one_colour(tmp_path: Path) -> None:
    """More colours than a GIF has: those that are alike in two pictures stay alike."""
    rng = np.random.default_rng(2)
    pictures = [rng.integers(0, 256, (40, 40, 3), np.uint8) for _ in range(3)]
    for picture in pictures[1:]:
        picture[10:30] = pictures[0][10:30]
    write_gif(tmp_path / "a.gif", pictures, SECONDS[:3], pictures[:1])
    first, *others = read(tmp_path / "a.gif")[0]
    for other in others:
        assert np.array_equal(other[10:30], first[10:30])
        assert not np.array_equal(other[:10], first[:10])


def test_entries_are_the_nearest() -> None:
    picture = np.random.default_rng(3).integers(0, 256, (60, 50, 3), np.uint8)
    palette = Palette([picture])
    assert palette.colours.shape == (255, 3)
    for seen in (picture, picture[::-1], 255 - picture):
        off = seen[:, :, None].astype(int) - palette.colours
        assert np.array_equal(palette.nearest(seen), (off**2).sum(axis=3).argmin(axis=2))


def test_delays() -> None:
    assert sum(delays([1 / 24] * 240, 100, 2)) == 1000
    assert set(delays([1 / 24] * 240, 100, 2)) == {4, 5}
    assert delays([1 / 200] * 3, 100, 2) == [2, 2, 2]
    assert delays([1000.0, 0.5], 100, 2) == [LONGEST, 50]
