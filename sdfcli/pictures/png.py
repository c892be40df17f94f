"""Picture files: PNG and JPEG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import UsageError
from sdfcli.runtime.files import check_ending, check_target, written_whole

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    ".png": ("PNG", {}),
    ".jpg": ("JPEG", {"quality": 95, "subsampling": 0}),  # thin lines of one colour stay sharp
    ".jpeg": ("JPEG", {"quality": 95, "subsampling": 0}),
}
"""Pillow's format and its options, by file name ending."""
TRANSPARENT = (".png", ".apng")
"""Endings of files that can have a transparent background."""


def check_picture(path: Path, force: bool, *sources: Path, transparent: bool = False) -> None:
    """Raises UsageError for another ending, for one that has no transparency if needed, for one of the sources, and for
    an existing file unless `force` is set."""
    check_ending(path, *FORMATS)
    check_transparent(path, transparent)
    check_target(path, force, *sources)


def png(picture: npt.NDArray[np.uint8]) -> bytes:
    """A picture (h, w, 3) as a PNG file's content."""
    return _content(".png", picture)


def check_transparent(path: Path, transparent: bool) -> None:
    """Raises UsageError for transparency in a file that cannot have it."""
    if transparent and path.suffix.lower() not in TRANSPARENT:
        raise UsageError(f"{path}: not with --transparent; use a name that ends in {' or '.join(TRANSPARENT)}")


def write_picture(path: Path, picture: npt.NDArray[np.uint8], force: bool) -> None:
    """Writes a picture (h, w, 3), or (h, w, 4) with opacity, whole or not at all. Raises UsageError if the file exists,
    unless `force` is set."""
    with written_whole(path, force) as temporary:
        temporary.write_bytes(_content(path.suffix, picture))


def holds(path: Path, picture: npt.NDArray[np.uint8]) -> bool:
    """Whether a regular file equals the output of `write_picture` for a picture."""
    made = _content(path.suffix, picture)
    with open(path, "rb") as file:
        return file.read(len(made) + 1) == made


def _content(suffix: str, picture: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    kind, options = FORMATS[suffix.lower()]
    made = io.BytesIO()
    Image.fromarray(picture).save(made, kind, **options)
    return made.getvalue()
