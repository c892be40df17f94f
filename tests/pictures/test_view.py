"""`sdfcli.pictures.view`: a page holds the field, and nothing of a name or of the field's file becomes part of it."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sdfcli
import shapes
from conftest import ROOT
from sdfcli.errors import UsageError
from sdfcli.field.field import lattice_position
from sdfcli.mesh.mesh import Domain
from sdfcli.pictures.view.page import view_page

LISTS = {"leaf_level": "<u1", "residual_part": "<u1", "distance": "<f4"}


class Page(HTMLParser):
    """The elements of a page: `found` has their names and attributes, `inner` the text of those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inner: dict[str, str] = {}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inner[self._open] = self.inner.get(self._open, "") + data


@pytest.fixture(scope="module")
def reader() -> dict[str, Any]:
    """The functions of docs/reference/file.md's reader."""
    text = (ROOT / "docs" / "reference" / "file.md").read_text()
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)[0], names)
    return names


def shown(text: str, reader: dict[str, Any]) -> Any:
    """The field of a page, as the file's reader has it."""
    page = Page(text)
    facts, content = json.loads(page.inner["facts"]), zlib.decompress(base64.b64decode(page.inner["field"]))
    lists: dict[str, npt.NDArray[Any]] = {}
    for name, width, count in facts["lists"]:
        planes, content = np.frombuffer(content[: width * count], np.uint8), content[width * count :]
        lists[name] = planes.reshape(width, count).T.copy().view(LISTS.get(name, f"<u{width}")).ravel()
    assert content == b""
    step = facts["step"]
    if step is None:
        given = lists["distance"]
    else:
        given = reader["whole"](lists["residual"]) * facts["parts"]
        given = given + (reader["whole"](lists["residual_part"]) if "residual_part" in lists else 0)
    field = object.__new__(reader["Field"])
    field.origin, field.length = np.array(facts["origin"]), facts["length"]
    field.leaf_level, field.leaf_key = lists["leaf_level"], reader["keys"](lists["leaf_level"])
    corner = (given[:8] * step if step else given[:8]).astype(np.float32)
    field.value = reader["decoded"](field.leaf_level, 0, corner, given[8:], step or 0, hanging=step is None)
    return field


def points_in(field: sdfcli.Field, count: int = 4000) -> npt.NDArray[np.float64]:
    """Random points, on the lattice and between."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    unit = np.concatenate((rng.random((count, 3)), rng.integers(0, 257, (count, 3)) / 256))
    return np.asarray(field.domain.origin + unit * field.domain.length)


def one_leaf() -> sdfcli.Field:
    """A field of a single leaf."""
    corner = np.arange(8, dtype=np.uint64) << np.uint64(60)
    domain, zero = Domain(np.array([1.0, 2.0, 3.0]), 4.0), np.zeros(1, np.uint64)
    return sdfcli.Field(domain, zero, zero.astype(np.uint8), corner, np.linspace(-1, 2, 8, dtype=np.float32))


def fields() -> dict[str, sdfcli.Field]:
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    vertices, faces = shapes.cube()
    moved = vertices * rng.uniform(0.2, 1, 3) + rng.uniform(-5, 5, 3)
    thin = shapes.box([0, 0, 0], [1, 0.7, 0.02])
    return {
        "moved": sdfcli.build((moved, faces), tolerance=5e-3, device="cpu"),
        "tiny": sdfcli.build((1e-9 * moved, faces), tolerance=5e-3, device="cpu"),
        "huge": sdfcli.build((1e12 * moved, faces), tolerance=5e-3, device="cpu"),
        "thin, parts of steps": sdfcli.build(thin, tolerance=1e-2, device="cpu"),
        "bvh, distances": sdfcli.build(shapes.icosphere(2), octree="bvh", depth=5, device="cpu"),
        "no signs": sdfcli.build(shapes.icosphere(2), sign="none", depth=4, device="cpu"),
        "one leaf": one_leaf(),
    }


def test_a_page_holds_the_field(reader: dict[str, Any]) -> None:
    """To the bit: as its file does."""
    found = fields()
    assert found["thin, parts of steps"].parts > 1
    for name, field in found.items():
        page = shown(view_page(field).html, reader)
        points = points_in(field)
        assert np.abs(page.sample(points) - field.sample(points)).max() <= 1e-12 * field.domain.length, name


def test_a_large_field_is_cut_within_its_stated_difference(reader: dict[str, Any]) -> None:
    for field in (
        sdfcli.build(shapes.icosphere(3), tolerance=5e-4, device="cpu"),
        sdfcli.build(shapes.icosphere(3), octree="bvh", depth=7, device="cpu"),  # not continuous
    ):
        view = view_page(field, leaves=4096)
        page, points = shown(view.html, reader), points_in(field)
        assert len(page.leaf_level) == view.leaves <= 4096 < field.leaves
        assert page.leaf_level.max() < field.leaf_level.max()
        # Of the finest level that has few enough leaves.
        _, ends = np.unique(field.leaf_key >> np.uint64(3 * (20 - page.leaf_level.max() - 1)), return_index=True)
        assert len(ends) + np.count_nonzero(field.leaf_level <= page.leaf_level.max()) > 4096
        corners = field.domain.origin + field.domain.length * lattice_position(field.corner_key)
        worst = max(np.abs(page.sample(each) - field.sample(each)).max() for each in (points, corners))
        rounding = 1e-6 * field.domain.length
        assert worst <= view.difference + rounding
        if field.step:  # where it is continuous, the largest difference is at a corner
            assert view.difference <= worst + rounding
        words = f"shown with {view.leaves:,}, within {view.difference:.2g}"
        assert words in view.html


def test_a_whole_field_differs_by_nothing() -> None:
    field = sdfcli.build(shapes.icosphere(2), depth=4, device="cpu")
    view = field.view()
    assert (view.leaves, view.difference) == (field.leaves, 0)
    assert "shown with" not in view.html


HOSTILE = [
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "$facts ${field} $$",
    "&lt;b&gt; ünïcødé \u202e\U0001f407",
    os.fsdecode(b"na\xefve"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name: str) -> None:
    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    plain, page = Page(field.view(name="plain").html), Page(field.view(name=name).html)
    assert [tag for tag, _ in page.found] == [tag for tag, _ in plain.found]
    assert {key: value for key, value in page.inner.items() if key not in ("title", "h1")} == {
        key: value for key, value in plain.inner.items() if key not in ("title", "h1")
    }
    assert page.inner["h1"] == page.inner["title"] == name.encode("utf-8", "backslashreplace").decode()


def test_metadata_is_text() -> None:
    """Also that of a file which somebody else has written."""
    from dataclasses import replace

    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    mesh = {**field.info["mesh"], "units": "</script><script>alert(1)</script>"}
    hostile = replace(field, info={**field.info, "mesh": mesh, "verdict": "<img src=x>", "sign": "<b>"})
    plain, page = Page(field.view().html), Page(hostile.view().html)
    assert [tag for tag, _ in page.found] == [tag for tag, _ in plain.found]
    assert json.loads(page.inner["facts"])["units"] == mesh["units"]


@pytest.mark.parametrize("entry", [{}, {"leaves": None}, {"leaves": "<b>"}, 7, None])
def test_an_entry_without_the_overviews_leaves(entry: Any) -> None:
    from dataclasses import replace

    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    assert replace(field, info={**field.info, "overview": entry}).view().html == field.view().html


def test_a_page_loads_nothing() -> None:
    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    text = field.view().html
    page = Page(text)
    assert not re.search(
        r"https?:|//[a-z]|url\(|@import|\bimport\b|fetch|XMLHttp|WebSocket|\beval\b", without_comments(text)
    )
    for tag, attributes in page.found:
        assert not {"src", "href", "action", "style"} & set(attributes), tag
        assert not [each for each in attributes if each.startswith("on")]
    (policy,) = [each["content"] for tag, each in page.found if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def without_comments(text: str) -> str:
    return re.sub(r"^ *//.*$|(?<=[;{] ) *//.*$|  // .*$", "", text, flags=re.MULTILINE)


def test_the_facts_are_the_fields() -> None:
    field = sdfcli.build(shapes.icosphere(2), tolerance=3e-3, device="cpu")
    words = html.unescape(re.sub("<[^>]*>", " ", field.view(name="ball").html))
    assert f"{field.leaves:,} leaves, error {field.max_error:.2g}" in words
    for name, value in (("tolerance", 3e-3 * field.unit), ("measured error", field.max_error)):
        assert f"{name}  {value:.2g}" in words


def test_a_notebook_shows_it() -> None:
    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    view = field.view(name='a "quoted" & <odd> name')
    shell = view._repr_html_()
    (frame,) = Page(shell).found
    assert frame[0] == "iframe"
    assert frame[1]["srcdoc"] == view.html
    assert field._repr_png_() is not None  # the field itself: a picture


def test_saving(tmp_path: Path) -> None:
    view = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu").view()
    path = view.save(tmp_path / "new" / "a.html")
    assert path.read_text(encoding="utf-8") == view.html
    with pytest.raises(UsageError, match="exists"):
        view.save(path)
    view.save(path, force=True)
    with pytest.raises(UsageError, match=r"ends in \.html"):
        view.save(tmp_path / "a.png")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.html", "new"]


@pytest.mark.parametrize(
    "wrong", [{"leaves": 4095}, {"leaves": 2**21 + 1}, {"leaves": 5000.5}, {"up": "x"}, {"view": "q"}]
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    field = sdfcli.build(shapes.icosphere(1), depth=2, device="cpu")
    with pytest.raises(UsageError, match=f"--{next(iter(wrong))}"):
        field.view(**wrong)
