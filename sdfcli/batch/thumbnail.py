"""Small picture of a field, as text to embed in a web page."""

from __future__ import annotations

import base64
import warnings

from sdfcli.errors import DrawingNote
from sdfcli.field.field import Field
from sdfcli.pictures.png import png
from sdfcli.pictures.render import render

SIZE = 96


def thumbnail(field: Field, device: str, threads: int | None) -> str:
    """PNG image of the surface, in base64. Raises InputError without a surface."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawingNote)
        picture = render(field, width=SIZE, height=SIZE, device=device, threads=threads)
    return base64.b64encode(png(picture)).decode()
