"""A page in a browser, compared with `sdfcli render`, `sdfcli slice` and the field. Skipped without Chromium."""

from __future__ import annotations

import base64
import http.server
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sdfcli
import shapes
from browser import Browser, opened
from conftest import ROOT
from sdfcli.backend import any_backend
from sdfcli.field.coarse import cut
from sdfcli.pictures.render import Shot, shot_of
from sdfcli.pictures.slice import LINES, nice_step, paint
from sdfcli.pictures.view import data
from sdfcli.pictures.view import page as page_module

Floats = npt.NDArray[np.float64]
WIDTH, HEIGHT = 240, 180
DRAWN = ("drawn", "still")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with opened((WIDTH, HEIGHT)) as browser:
        yield browser


@pytest.fixture(scope="module")
def fields() -> dict[str, sdfcli.Field]:
    bunny, bracket = (ROOT / "sample_meshes" / name for name in ("bunny.ply", "bracket.stl"))
    vertices, faces = shapes.icosphere(2)
    return {
        "bunny": sdfcli.build(bunny, tolerance=3e-3, device="cpu"),
        "bracket": sdfcli.build(bracket, tolerance=3e-3, device="cpu"),
        "tiny": sdfcli.build((1e-9 * vertices + 3e-9, faces), tolerance=1e-2, device="cpu"),
        "huge": sdfcli.build((1e9 * vertices - 4e9, faces), tolerance=1e-2, device="cpu"),
        "bvh": sdfcli.build((vertices, faces), octree="bvh", depth=6, device="cpu"),
        "unsigned": sdfcli.build((vertices, faces), sign="none", tolerance=5e-3, device="cpu"),
    }


@pytest.fixture(scope="module")
def pages(fields: dict[str, sdfcli.Field], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: field.view(name=name).save(folder / f"{name}.html") for name, field in fields.items()}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))


def words(*numbers: float) -> str:
    return ",".join(f"{x:.9g}" for x in numbers)


def camera(shot: Shot, field: sdfcli.Field, azimuth: float, elevation: float, distance: float = 1.0) -> str:
    """The address's words for a shot's camera."""
    eye, _, _, forward = shot.camera.frame
    target = field.domain.origin + field.domain.length * (eye + distance * forward)
    edge = distance * field.domain.length
    return f"view={words(azimuth, elevation)}&target={words(*target)}&distance={words(edge)}"


def rays(shot: Shot, column: Floats, row: Floats) -> tuple[Floats, Floats]:
    """Eye (3,) and unit ways (..., 3) in the unit cube of rays through a picture's places, in pixels."""
    eye, right, up, forward = shot.camera.frame
    x, y = (shot.camera.pixel_size * (at - size / 2) for at, size in ((column, WIDTH), (row, HEIGHT)))
    way = forward + x[..., None] * right - y[..., None] * up
    return eye, way / np.linalg.norm(way, axis=-1, keepdims=True)


def shot_from(field: sdfcli.Field, azimuth: float, elevation: float, iso: float | None = None) -> Shot:
    return shot_of([field], width=WIDTH, height=HEIGHT, view=(azimuth, elevation), iso=iso, device="cpu")


def covered(picture: npt.NDArray[np.uint8], empty: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where a picture differs from one without a surface."""
    return np.asarray(np.abs(picture.astype(int) - empty).max(axis=2) > 8)


@pytest.mark.parametrize("name", ["bunny", "bracket", "tiny", "huge", "bvh", "unsigned"])
def test_the_picture_is_that_of_render(
    name: str, window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path], rng: np.random.Generator
) -> None:
    """Its outline, and its light: the one shades as the other, and both are lit from the camera."""
    field, azimuth, elevation = fields[name], float(rng.uniform(-180, 180)), float(rng.uniform(-80, 80))
    iso = None if name in ("bunny", "unsigned") else float(rng.uniform(-0.02, 0.06) * field.domain.length)
    level = "" if iso is None else f"&iso={iso:.9g}"
    shot = shot_from(field, azimuth, elevation, iso)
    seen = f"{camera(shot, field, azimuth, elevation)}&bare"
    window.open(pages[name], seen + level)
    picture = window.picture()
    window.open(pages[name], f"{seen}&iso={-2 * field.domain.length:.9g}", DRAWN)
    mask = covered(picture, window.picture())
    drawn = sdfcli.render(
        field, width=WIDTH, height=HEIGHT, view=(azimuth, elevation), iso=iso, shot=shot, device="cpu", transparent=True
    )
    expected = drawn[..., 3] > 16  # as few rays show in the page
    assert expected.mean() > 0.05
    assert (mask & expected).sum() / (mask | expected).sum() > 0.99
    away = np.abs(picture.astype(int) - drawn[..., :3])[drawn[..., 3] == 255]
    assert away.mean() < 2
    assert np.quantile(away, 0.95) <= 5
    assert window.faults() == []


def test_what_is_under_the_pointer(
    window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path], rng: np.random.Generator
) -> None:
    """The first point of the ray at the level, and the field's value there."""
    for name in ("bunny", "bracket"):
        field, azimuth, elevation = fields[name], float(rng.uniform(-180, 180)), float(rng.uniform(-60, 60))
        edge = field.domain.length
        iso = float(rng.uniform(0, 0.02) * edge)
        shot = shot_from(field, azimuth, elevation, iso)
        window.open(pages[name], f"{camera(shot, field, azimuth, elevation)}&iso={iso:.9g}&bare", DRAWN)
        hits = 0
        for _ in range(12):
            column, row = int(rng.integers(30, WIDTH - 30)), int(rng.integers(30, HEIGHT - 30))
            found = pointed(window, column, row)
            eye, way = rays(shot, np.array(float(column)), np.array(float(row)))
            t = np.linspace(0, 3, 3001)
            along = field.domain.origin + edge * (eye + t[:, None] * way)
            inside = ((along >= field.domain.origin) & (along <= field.domain.origin + edge)).all(axis=1)
            below = t[inside & (field.sample(along) < iso)]
            if found is None:
                assert not len(below) or np.ptp(below) < 0.01  # grazed at most
                continue
            position, distance = found
            hits += 1
            unit = (position - field.domain.origin) / edge - eye
            depth = float(unit @ way)
            assert np.linalg.norm(unit - depth * way) < 1e-4  # on the ray
            assert not len(below) or depth < below[0] + 1e-3  # nothing is in front
            assert abs(field.sample(position[None])[0] - distance) < 1e-4 * edge
            assert abs(distance - iso) < 1e-4 * edge
        assert hits > 0


def pointed(window: Browser, column: int, row: int) -> tuple[Floats, float] | None:
    """Position and distance that the page tells of a place, in pixels; None for the background."""
    window.act({"type": "pointerMove", "duration": 0, "x": 1, "y": 1})
    window.act({"type": "pointerMove", "duration": 0, "x": column, "y": row})
    for _ in range(3):
        window.run("return new Promise(done => requestAnimationFrame(() => setTimeout(done, 5)))")
    if window.run("return document.getElementById('reading').hidden"):
        return None
    told = [window.text(name).replace("\u2212", "-") for name in ("position", "distance")]
    return np.array([float(word) for word in told[0].split(",")]), float(told[1].split()[0])


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_the_plane_has_the_colours_of_slice(
    axis: str, window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path], rng: np.random.Generator
) -> None:
    field, k = fields["bunny"], "xyz".index(axis)
    azimuth, elevation = {"x": (70.0, 15.0), "y": (20.0, 60.0), "z": (-20.0, 25.0)}[axis]
    shot, edge = shot_from(field, azimuth, elevation), field.domain.length
    at = float(field.domain.origin[k] + rng.uniform(0.3, 0.6) * edge)
    window.open(pages["bunny"], f"{camera(shot, field, azimuth, elevation)}&slice={axis},{at:.9g}&veil=1&bare")
    picture = window.picture().astype(int)
    row, column = np.indices((HEIGHT, WIDTH)) + 0.5
    eye, way = rays(shot, column, row)
    unit = eye + (((at - field.domain.origin[k]) / edge - eye[k]) / way[..., k])[..., None] * way
    there = ((unit > 0.01) & (unit < 0.99)).sum(axis=2) == 3
    value = field.sample((field.domain.origin + edge * np.clip(unit, 0, 1)).reshape(-1, 3)).reshape(HEIGHT, WIDTH)
    largest = float(np.abs(field.distance).max())
    away = np.abs(picture - paint(value, largest)).max(axis=2)
    pixel = edge * shot.camera.pixel_size * np.linalg.norm(unit - eye, axis=2)
    step = nice_step(largest / LINES)
    to_line = np.abs(value - step * np.rint(value / step))
    plain = there & (to_line > 2 * pixel) & (np.abs(value) > 5 * pixel)  # colours change slowly
    outline = there & (np.abs(value) < 0.4 * pixel)
    assert plain.mean() > 0.1
    assert np.quantile(away[plain], 0.98) <= 2
    assert outline.sum() > 50
    assert np.median(picture[outline].max(axis=1)) < 60
    lines = there & (np.abs(value) > 6 * pixel) & (to_line < 0.2 * pixel)
    assert lines.sum() > 50
    assert np.median((paint(value, largest) - picture)[lines].max(axis=1)) > 15  # darker


def test_nothing_is_in_front_of_the_plane(
    window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path], rng: np.random.Generator
) -> None:
    """Outside the surface a plane without opacity shows what is behind it."""
    field, k = fields["bunny"], 0
    shot, edge = shot_from(field, 60.0, 10.0), field.domain.length
    middle = field.domain.origin + edge / 2
    window.open(pages["bunny"], f"{camera(shot, field, 60, 10)}&slice=x,{middle[k]:.9g}&veil=0&bare")
    cut = window.picture()
    behind = sdfcli.render(field, width=WIDTH, height=HEIGHT, shot=shot, device="cpu", transparent=True)[..., 3] > 127
    row, column = np.indices((HEIGHT, WIDTH)) + 0.5
    eye, way = rays(shot, column, row)
    t = np.linspace(0, 4, 801)[:, None]
    hit = np.zeros((HEIGHT, WIDTH), bool)
    for i in range(0, HEIGHT, 8):  # some rows, in steps along their rays from the plane on
        start = (0.5 - eye[k]) / way[i, :, k]
        points = eye + (start[:, None, None] + t) * way[i][:, None]
        inside = ((points > 0) & (points < 1)).all(axis=2)
        value = field.sample((field.domain.origin + edge * points).reshape(-1, 3)).reshape(WIDTH, -1)
        hit[i] = (inside & (value < 0)).any(axis=1)
    window.open(pages["bunny"], f"{camera(shot, field, 60, 10)}&iso={-2 * edge:.9g}&bare", DRAWN)
    mask = covered(cut, window.picture())
    rows = slice(0, HEIGHT, 8)
    assert 0.02 < hit[rows].mean() < behind[rows].mean()
    assert mask[rows][hit[rows]].mean() > 0.97


def test_decoded_in_the_browser_to_the_bit(
    window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path]
) -> None:
    """The corners that the shader reads."""
    folder = Path(page_module.__file__).parent
    view = (folder / "view.js").read_text()
    (octree,) = re.findall(r"^async function octree\(.*?^\}$", view, flags=re.DOTALL | re.MULTILINE)
    script = f"""{(folder / "octree.js").read_text()}
const $ = id => document.getElementById(id), facts = JSON.parse($("facts").textContent);
{octree}
return octree("field", facts).then(({{corner}}) => {{
  const bytes = new Uint8Array(corner.buffer);
  let text = "";
  for (let k = 0; k < bytes.length; k += 32768) text += String.fromCharCode(...bytes.subarray(k, k + 32768));
  return btoa(text);
}});"""
    thin = sdfcli.build(shapes.box([0, 0, 0], [1, 0.7, 0.02]), tolerance=1e-2, device="cpu")
    assert thin.parts > 1
    page = thin.view().save(pages["bunny"].parent / "thin.html", force=True)
    for field, path in ((fields["bracket"], pages["bracket"]), (fields["bvh"], pages["bvh"]), (thin, page)):
        window.open(path, "bare", DRAWN)
        corner = np.frombuffer(base64.b64decode(window.run(script)), np.float32).reshape(-1, 8)
        which, value = field._leaf_values(any_backend())
        assert np.array_equal(corner, value if which is None else value[which])


def test_a_page_streams(
    fields: dict[str, sdfcli.Field], pages: dict[str, Path], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its end has not arrived, it shows the octree cut at a level, with all controls; then the field, seen from
    the same place."""
    monkeypatch.setattr(data, "STREAMED", 4096)
    field = fields["bunny"]
    coarse = cut(field, field.leaves // data.SHARE)
    text = field.view().html.encode()
    end = text.index(b'id="field">') + 100
    azimuth, elevation = float(rng.uniform(-180, 180)), float(rng.uniform(-60, 60))
    shot = shot_from(field, azimuth, elevation)
    seen = f"{camera(shot, field, azimuth, elevation)}&bare"

    def covered_by(source: sdfcli.Field) -> npt.NDArray[np.bool_]:
        more = {"width": WIDTH, "height": HEIGHT, "view": (azimuth, elevation), "shot": shot}
        return np.asarray(sdfcli.render(source, **more, device="cpu", transparent=True)[..., 3] > 16)

    with opened((WIDTH, HEIGHT), served=True) as window, streaming(text, end) as (address, go_on):
        window.go(f"{address}#{seen}")
        window.wait("coarse")
        settled(window, "coarse")
        first = window.picture()
        press(window, "ArrowRight")
        assert float(settled(window, "coarse")["view"].split(",")[0]) == pytest.approx((azimuth + 188) % 360 - 180)
        press(window, "ArrowLeft")
        address_before = settled(window, "coarse")
        assert window.run("return document.readyState") == "loading"
        go_on()
        window.wait(*DRAWN)
        assert settled(window) == address_before
        last = window.picture()
        window.open(pages["bunny"], f"{seen}&iso={-2 * field.domain.length:.9g}", DRAWN)
        empty = window.picture()
        assert window.faults() == []
    for picture, source, least in ((first, coarse, 0.97), (last, field, 0.99)):
        mask, expected = covered(picture, empty), covered_by(source)
        assert (mask & expected).sum() / (mask | expected).sum() > least
    assert np.abs(first.astype(int) - last).mean() > 1


@contextmanager
def streaming(content: bytes, end: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a page whose beginning arrives at once, and a function that sends the rest."""
    more = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content) if self.path == "/" else 0))
            self.end_headers()
            if self.path == "/":
                self.wfile.write(content[:end])
                more.wait(60)
                self.wfile.write(content[end:])

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", more.set
        more.set()
        server.shutdown()


def settled(window: Browser, *wanted: str) -> dict[str, str]:
    """The address's words, once a picture is there and the address has them."""
    window.run("return new Promise(done => setTimeout(done, 400))")
    window.wait(*(wanted or DRAWN))
    address = str(window.run("return location.hash.slice(1)"))
    return {name: value for name, _, value in (each.partition("=") for each in address.split("&"))}


def press(window: Browser, key: str) -> None:
    window.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))", key)


def test_keys_and_the_address(window: Browser, pages: dict[str, Path]) -> None:
    """What keys do is in the address, from which the page has it again."""
    window.open(pages["bunny"], "view=10,20", DRAWN)
    for key in ("ArrowRight", "ArrowUp", "s", "c", "h"):
        press(window, key)
    found = settled(window)
    assert [float(x) for x in found["view"].split(",")] == [18, 28]
    assert found["slice"].startswith("x,")
    assert {"cells", "bare", "target", "distance"} <= set(found)
    window.wait("still")
    first = window.picture()
    window.open(pages["bunny"], window.run("return location.hash.slice(1)"))
    assert np.abs(first.astype(int) - window.picture()).mean() < 0.5
    for _ in range(3):
        press(window, "s")
    distance = float(found["distance"])
    press(window, "+")
    found = settled(window)
    assert "slice" not in found
    assert float(found["distance"]) == pytest.approx(distance / 1.15)
    press(window, "0")
    found = settled(window)
    assert (found["view"], "distance" in found) == ("-30,20", False)


@pytest.mark.parametrize(
    "address",
    [
        "view=a,b",
        "view=",
        "iso=NaN",
        "slice=q,1&cells=0",
        "target=1,2&distance=3",
        "distance=-1&target=0,0,0",
        "%",
        "&&==",
    ],
)
def test_an_impossible_address_is_ignored(address: str, window: Browser, pages: dict[str, Path]) -> None:
    window.open(pages["tiny"], address, DRAWN)
    assert settled(window)["view"] == "-30,20"
    assert window.faults() == []


def test_the_controls(window: Browser, fields: dict[str, sdfcli.Field], pages: dict[str, Path]) -> None:
    window.open(pages["bracket"], wanted=DRAWN)
    field = fields["bracket"]
    window.run("document.querySelector('input[name=axis][value=\"1\"]').click()")
    change = (
        "const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('input'))"
    )
    window.run(change, "at", 0.25)
    window.run(change, "iso", 0.5)
    found = settled(window)
    axis, at = found["slice"].split(",")
    assert (axis, float(at)) == ("y", pytest.approx(float(field.domain.origin[1]) + 0.25 * field.domain.length))
    assert float(found["iso"]) == pytest.approx(0.25 * float(field.distance.max()), rel=1e-5)
    assert "Position" in window.text("plane")
    assert window.text("most") == f"{float(field.distance.max()):.2g}"
    window.run(change, "iso", 0.01)  # near the middle: the surface
    assert "iso" not in settled(window)
    window.run("document.getElementById('cells').click()")
    assert "cells" in settled(window)


@pytest.mark.parametrize(
    "name", ["</script><script>document.title = 'taken'</script>", '"><img src=x onerror=alert(1)>']
)
def test_a_hostile_name(name: str, window: Browser, tmp_path: Path) -> None:
    field = sdfcli.build(shapes.icosphere(1), depth=3, device="cpu")
    window.open(field.view(name=name).save(tmp_path / "a.html"), wanted=DRAWN)
    assert window.run("return [document.title, document.querySelector('h1').textContent]") == [name, name]
    # Nor does the page run what others add.
    window.run(
        "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)"
    )
    assert window.run("return window.taken") is None
    assert "Content Security Policy" in " ".join(window.faults())
    assert window.run("return [typeof decode, typeof Viewer, typeof facts]") == ["undefined", "undefined", "object"]


def test_a_notebook(window: Browser, fields: dict[str, sdfcli.Field], tmp_path: Path) -> None:
    """The page in a notebook's frame, which has no address of its own."""
    shell = tmp_path / "notebook.html"
    shell.write_text(f"<!doctype html><body>{fields['tiny'].view()._repr_html_()}</body>")
    window.visit(shell)
    frame = "document.querySelector('iframe').contentDocument"
    for _ in range(600):
        if window.run(f"return {frame}?.documentElement?.dataset?.state") in DRAWN:
            break
        window.run("return new Promise(done => setTimeout(done, 50))")
    window.run(f"{frame}.getElementById('cells').click()")
    window.run("return new Promise(done => setTimeout(done, 400))")
    assert window.run(f"return {frame}.getElementById('message').hidden") is True
    assert window.faults() == []


def test_without_webgl(window: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """One line says what is missing."""
    text = pages["tiny"].read_text().replace('getContext("webgl2"', 'getContext("webgl9"')
    script = re.findall(r'<script type="module" async>(.*?)</script>', text, flags=re.DOTALL)[0]
    digest = page_module._digest(script)
    text = re.sub(r"script-src '[^']*'", f"script-src '{digest}'", text)
    (tmp_path / "a.html").write_text(text)
    with pytest.raises(AssertionError, match="This page needs WebGL 2"):
        window.open(tmp_path / "a.html")


def test_a_phone(pages: dict[str, Path]) -> None:
    """A picture above a folded panel; what is touched is at least 44 pixels high; two schemes of colours."""
    with opened((390, 844), phone=True) as phone:
        phone.open(pages["bunny"], "slice=z,0", DRAWN)
        assert phone.run("return [document.documentElement.scrollWidth, innerWidth]") == [390, 390]
        box = "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.top, b.height]"
        top, height = phone.run(box, "#panel")
        assert top + height == 844
        assert height < 844 / 3
        light = phone.picture()
        assert light.shape == (844, 390, 3)
        phone.act(
            {"type": "pointerMove", "x": 195, "y": int(top + 20)},
            {"type": "pointerDown"},
            {"type": "pointerUp"},
            kind="touch",
        )
        assert phone.run("return document.getElementById('fold').getAttribute('aria-expanded')") == "true"
        assert phone.run(box, "#panel")[1] > height
        for target in ("#fold", ".choice label", "#at", "#iso", "#zero", "#reset", "label.row", "summary"):
            assert phone.run(box, target)[1] >= 44, target
        before = settled(phone)["view"]
        finger = [{"type": "pointerMove", "x": 195, "y": 200}, {"type": "pointerDown"}]
        finger += [{"type": "pointerMove", "duration": 50, "x": 255, "y": 200}, {"type": "pointerUp"}]
        phone.act(*finger, kind="touch")
        after = settled(phone)["view"]
        assert float(after.split(",")[0]) == pytest.approx(float(before.split(",")[0]) - 24)
        phone.scheme(dark=True)
        phone.open(pages["bunny"], "slice=z,0", DRAWN)
        dark = phone.picture()
        assert light[100, 5].min() > 200 > 60 > dark[100, 5].max()
        assert phone.faults() == []
