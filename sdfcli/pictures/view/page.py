"""One HTML page that shows a field in a browser and loads nothing: the data, WebGL 2 shaders, and their program."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sdfcli.backend import any_backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.field.store import as_field
from sdfcli.mesh.arrays import Floats
from sdfcli.params import PAGE_LEAVES
from sdfcli.pictures.colour import diverging_table
from sdfcli.pictures.level import box_of, shown_level
from sdfcli.pictures.render import DEFAULT_VIEW, safety, view_angles, view_axes
from sdfcli.pictures.view.data import PackedLists, PageData, page_data
from sdfcli.runtime.files import check_ending, written_whole

HERE = Path(__file__).parent
ENDINGS = (".html", ".htm")
HEIGHT = 480
"""Height of a view in a notebook, in pixels."""


@dataclass(frozen=True)
class View:
    """A field's page, from `Field.view`; a notebook shows it.

    Attributes:
        html: the page.
        leaves: number of leaves in it.
        difference: maximum difference between the page's field and the field, in the mesh's units: 0 unless the finest
            levels were left out.
    """

    html: str
    leaves: int
    difference: float

    def save(self, path: str | PathLike[str], force: bool = False) -> Path:
        """Writes the page, whole or not at all, and returns its path. Raises UsageError if the file cannot be written,
        exists without `force`, or does not end in .html or .htm."""
        path = Path(path)
        check_ending(path, *ENDINGS)
        with written_whole(path, force) as temporary:
            temporary.write_text(self.html, encoding="utf-8", newline="\n")
        return path

    def __repr__(self) -> str:
        return f"<View: {self.leaves:,} leaves>"

    def _repr_html_(self) -> str:
        frame = f"width:100%;height:{HEIGHT}px;border:0;border-radius:12px"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{frame}" title="field" loading="lazy"></iframe>'


def view_page(
    source: Field | str | PathLike[str],
    *,
    name: str = "field",
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    leaves: int = PAGE_LEAVES,
) -> View:
    """The page of a field. name: its heading; the others are as in `Field.view`, as are the errors raised."""
    view_axes(view, up)
    field = as_field(source)
    data, box = page_data(field, leaves), box_of(any_backend(), field)
    name = name.encode("utf-8", "backslashreplace").decode()  # a file's name need not be text
    style, script = _read("page.css"), _read("octree.js") + _read("view.js")
    units = f" {field.units}" if field.units else ""
    page = Template(_read("page.html")).substitute(
        policy=f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'",
        name=html.escape(name),
        line=html.escape(", ".join(_summary(field, data, units))),
        rows="".join(f"<dt>{key}</dt><dd>{html.escape(value)}</dd>" for key, value in _rows(field, data, box, units)),
        facts=json.dumps(_facts(field, data, box, view, up)).replace("<", "\\u003c"),
        coarse=_text(data.coarse) if data.coarse else "",
        field=_text(data.whole),
        trace=_read("trace.glsl"),
        show=_read("show.glsl"),
        style=style,
        script=script,
    )
    return View(page, data.leaves, data.difference)


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _text(lists: PackedLists) -> str:
    return base64.b64encode(lists.content).decode()


def _digest(text: str) -> str:
    """A script's or a style's hash, by which the page's policy admits it and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _facts(field: Field, data: PageData, box: Floats, view: str | tuple[float, float], up: str) -> dict[str, Any]:
    """The program's parameters, in mesh units; see docs/reference/commands/view.md."""
    error, slack = safety(field, data.difference)
    return {
        **_numbers(data.whole),
        "coarse": _numbers(data.coarse) if data.coarse else None,
        "origin": [float(x) for x in field.domain.origin],
        "length": field.domain.length,
        "box": box.tolist(),
        "near": error * field.domain.length if np.isfinite(error) else None,
        "slack": slack,
        "sign": "none" if is_unsigned(field) else "signed",
        "units": field.units,
        "iso": shown_level(field, None),
        "view": view_angles(view),
        "up": up,
        "colours": base64.b64encode(diverging_table().tobytes()).decode(),
    }


def _numbers(packed: PackedLists) -> dict[str, Any]:
    return {"lists": packed.lists, "step": packed.step, "parts": packed.parts}


def _summary(field: Field, data: PageData, units: str) -> list[str]:
    """Words below the name."""
    words = [f"{field.leaves:,} leaves{_of_whole(field)}"]
    with suppress(InputError):
        words.append(f"error {field.max_error:.2g}{units}")
    if data.difference:
        words.append(f"shown with {data.leaves:,}, within {data.difference:.2g}{units}")
    return words


def _of_whole(field: Field) -> str:
    """Words for an overview."""
    whole: Any = field.info.get("overview")
    known = isinstance(whole, dict) and isinstance(whole.get("leaves"), int)
    return f" of {whole['leaves']:,}, an overview" if known else ""


def _rows(field: Field, data: PageData, box: Floats, units: str) -> list[tuple[str, str]]:
    """Names and values of the page's table."""
    rows = [
        ("leaves", f"{field.leaves:,}{_of_whole(field)}"),
        ("depth", f"{int(field.leaf_level.max())}"),
        ("size", " x ".join(f"{x:.4g}" for x in box[1] - box[0]) + units),
        ("domain edge", f"{field.domain.length:.6g}{units}"),
    ]
    if data.difference:
        rows += [("shown", f"{data.leaves:,} leaves, depth {data.depth}: within {data.difference:.2g}{units}")]
    with suppress(InputError):
        rows += [("measured error", f"{field.max_error:.2g}{units}")]
        rows += [("stated error", f"{StatedError.of(field).near:.2g}{units}")]
        rows += [("tolerance", f"{float(field.info['parameters']['tolerance']) * field.unit:.2g}{units}")]
    mesh = field.info.get("mesh")
    if isinstance(mesh, dict) and isinstance(mesh.get("triangles"), int):
        rows += [("triangles", f"{mesh['triangles']:,}")]
    return rows + [(key, str(field.info[key])) for key in ("sign", "verdict") if key in field.info]
