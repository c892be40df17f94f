"""PNG files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.runtime.files import check_ending, check_target, written_whole


def check_picture(path: Path, force: bool, *sources: Path) -> None:
    """Raises UsageError for another ending, for one of the sources, and for an existing file unless `force` is set."""
    check_ending(path, ".png")
    check_target(path, force, *sources)


def png(picture: npt.NDArray[np.uint8]) -> bytes:
    """A picture (h, w, 3) as a PNG file's content."""
    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(picture).save(made, format="PNG")
    return made.getvalue()


def write_png(path: Path, picture: npt.NDArray[np.uint8], force: bool) -> None:
    """Writes a picture (h, w, 3), whole or not at all. Raises UsageError if the file exists, unless `force` is set."""
    with written_whole(path, force) as temporary:
        temporary.write_bytes(png(picture))


def holds(path: Path, picture: npt.NDArray[np.uint8]) -> bool:
    """Whether a regular file equals the output of `write_png` for a picture."""
    made = png(picture)
    with open(path, "rb") as file:
        return file.read(len(made) + 1) == made
