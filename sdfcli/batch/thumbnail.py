"""A small picture of a field, as text that a web page can hold."""

from __future__ import annotations

import base64
import io

from sdfcli.field import Field
from sdfcli.pictures.render import render

SIZE = 96


def thumbnail(field: Field) -> str:
    """A PNG image of the surface, in base64."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(render(field, width=SIZE, height=SIZE, device=field.run.get("device", "auto"))).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
