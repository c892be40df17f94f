"""Draws the pictures of the documentation: `python docs/make_pictures.py`.

Those of signs.md are slices through small fields, inside blue, outside grey, with lines of equal distance; the surface
is black. Those of the README, of pictures.md, watertight.md, judgement.md, robot-collision.md and thickness.md are what
`sdfcli render`, `sdfcli slice` and `sdfcli thickness` draw, mostly of the sample meshes; those of flow.md are what
`sdfcli flow` does.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from PIL import Image

import sdfcli
from sdfcli.apps.bench.motions import twist
from sdfcli.apps.flow.pictures import FlowPictures
from sdfcli.apps.flow.run import Flow, prepare, prepare_dam_break
from sdfcli.mesh.load import load_mesh
from sdfcli.pictures.moving import write_gif
from sdfcli.pictures.render import shot_of
from sdfcli.query.poses import pose_at

FOLDER = Path(__file__).parent / "pictures"
SAMPLES = Path(__file__).parent.parent / "sample_meshes"
MOST_BYTES = 150_000
PIXELS = 240
FRAMES = 16
INSIDE, OUTSIDE, NO_SIGN = (0.55, 0.71, 0.9), (0.93, 0.92, 0.9), (0.96, 0.9, 0.72)


def ball(radius: float, centre: tuple[float, float, float] = (0, 0, 0)) -> trimesh.Trimesh:
    """A sphere."""
    mesh = trimesh.creation.icosphere(subdivisions=4, radius=radius)
    mesh.apply_translation(centre)
    return mesh


def joined(*parts: trimesh.Trimesh) -> tuple[Any, Any]:
    """All parts in one mesh."""
    whole = trimesh.util.concatenate(parts)
    return np.asarray(whole.vertices), np.asarray(whole.faces)


def inverted(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    """The other orientation."""
    return trimesh.Trimesh(mesh.vertices, mesh.faces[:, ::-1], process=False)


def open_ball(height: float) -> tuple[Any, Any]:
    """A sphere without what lies above a height."""
    mesh = ball(1.0)
    return mesh.vertices, mesh.faces[mesh.triangles_center[:, 1] < height]


def hills() -> tuple[Any, Any]:
    """An open wavy surface."""
    x, z = np.meshgrid(np.linspace(-1.2, 1.2, 41), np.linspace(-1.2, 1.2, 41), indexing="ij")
    y = 0.25 * np.sin(4 * x) * np.cos(2 * z)
    corner = np.arange(41 * 41).reshape(41, 41)
    a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    faces = np.concatenate([np.stack([a, c, b], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)])
    return np.stack([x, y, z], -1).reshape(-1, 3), faces


SCENES = {
    "overlapping": joined(ball(0.8, (-0.4, 0, 0)), ball(0.8, (0.4, 0.1, 0))),
    "cavity": joined(ball(1.0), inverted(ball(0.6))),
    "nested": joined(ball(1.0), ball(0.6)),
    "hole": open_ball(0.75),
    "bowl": open_ball(0.0),
    "sheet": hills(),
}


def draw(shape: tuple[Any, Any], path: Path) -> None:
    """A slice through the middle, across the z axis."""
    field = sdfcli.build(shape, device="cpu", tolerance=1.5e-3)
    side = np.linspace(-1.45, 1.45, PIXELS)
    x, y = np.meshgrid(side, side[::-1])
    distance = field.sample(np.stack([x, y, np.full_like(x, 1e-3)], -1).reshape(-1, 3)).reshape(x.shape)
    unsigned = field.info["sign"] == "none"
    colour = np.where(distance[..., None] < 0, INSIDE, NO_SIGN if unsigned else OUTSIDE)
    colour = colour * np.where(np.abs((distance / 0.15 + 0.5) % 1 - 0.5) < 0.05, 0.88, 1.0)[..., None]
    colour = np.where(np.abs(distance)[..., None] < 0.012, 0.1, colour)
    Image.fromarray((255 * colour).round().astype(np.uint8)).quantize(32).save(path, optimize=True)
    print(path.name, path.stat().st_size, field.info["sign"], field.info["sign_reason"], field.info["sign_confidence"])


def save(picture: Any, name: str, colours: int | None = 256) -> None:
    """A picture in so many colours, a third of the bytes; None: in all of them, where few have hues of their own."""
    path, image = FOLDER / f"{name}.png", Image.fromarray(picture)
    (image.quantize(colours) if colours else image).save(path, optimize=True)
    print(path.name, path.stat().st_size)
    assert path.stat().st_size < MOST_BYTES


def draw_samples() -> None:
    """The sample meshes, as the two commands draw them."""
    sources = SAMPLES / "bunny.ply", SAMPLES / "bracket.stl", SCENES["sheet"]
    bunny, bracket, sheet = (sdfcli.build(source, device="cpu") for source in sources)
    save(sdfcli.render(bunny, view="25,15"), "bunny")
    draw_causes()
    save(sdfcli.slice_image(bunny, at=0.02, octree=True, size=480), "bunny_z")
    save(sdfcli.slice_image(bracket, at=20, size=480), "bracket_z")
    save(sdfcli.render(bracket, width=640, height=480, view="-150,30"), "bracket")
    save(sdfcli.render(sheet, width=640, height=320), "hills")
    walls = sdfcli.thickness(SAMPLES / "bracket.stl", device="cpu")
    save(walls.picture(width=640, height=480, view="30,30", up="z", device="cpu"), "bracket_walls", colours=None)


def draw_messy() -> None:
    """The asset of guides/watertight.md, which its first block makes."""
    page = (FOLDER.parent / "guides" / "watertight.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(code, {})
        field = sdfcli.build("asset.stl", device="cpu", tolerance=2e-3)
    save(sdfcli.slice_image(field, axis="x", size=480), "messy")


def draw_causes() -> None:
    """Why cells of the rabbit were split, as `sdfcli slice --why` draws it."""
    bunny = sdfcli.build(SAMPLES / "bunny.ply", device="cpu", why=True)
    save(sdfcli.slice_image(bunny, axis="x", at=0.0, size=480, why=True), "bunny_why")


def draw_contacts() -> None:
    """A tool in the bracket, as `sdfcli render --mesh` draws it."""
    bracket, tool = sdfcli.build(SAMPLES / "bracket.stl", device="cpu"), trimesh.creation.capsule(height=20, radius=3)
    for name, at, view in ("peg", "14,12,8.5,0,90,0", "-140,25"), ("contacts", "30,-2,30", "30,25"):
        pose = pose_at(at)
        found = sdfcli.contacts(bracket, tool, pose, margin=0.5, device="cpu")
        look = {"mesh": tool, "pose": pose, "contacts": found.manifold}
        save(sdfcli.render(bracket, width=640, height=480, view=view, **look), name, colours=None)


def draw_moving() -> None:
    """The rabbit, which turns its head: a GIF."""
    rabbit, path = load_mesh(SAMPLES / "bunny.ply"), FOLDER / "twist.gif"
    amounts = 0.15 * rabbit.diagonal * np.sin(2 * np.pi * np.arange(FRAMES) / FRAMES)
    fields = list(sdfcli.build_sequence([(twist(rabbit.vertices, x), rabbit.faces) for x in amounts], device="cpu"))
    shot = shot_of(fields, width=240, height=180)
    pictures = [sdfcli.render(field, width=240, height=180, shot=shot) for field in fields]
    write_gif(path, pictures, [2 / FRAMES] * FRAMES, pictures[::4])
    print(path.name, path.stat().st_size)
    assert path.stat().st_size < MOST_BYTES


def draw_flows() -> None:
    """Water as `sdfcli flow --pictures` draws it: the dam break, then around a rabbit and in it."""
    rabbit = SAMPLES / "bunny.ply"
    flow = prepare_dam_break(time=0.3, frames=1, device="cpu")
    save(last_of(FlowPictures(flow, flow.first(), width=640, height=400), flow), "flow_dam")
    for name, domain, box, spacing, time in (
        ("flow_tank", (-0.16, -0.001, -0.16, 0.32), (-0.16, -0.001, -0.16, -0.07, 0.15, 0.16), 0.008, 0.3),
        ("flow_inside", None, (-0.07, 0, -0.08, 0.07, 0.15, -0.02), 0.004, 0.2),
    ):
        inside = domain is None
        field = sdfcli.build(rabbit, device="cpu", domain=domain)
        flow = prepare(field, box, spacing, inside=inside, time=time, frames=1, device="cpu")
        pictures = FlowPictures(flow, flow.first(), field, inside, width=560, height=420)
        save(last_of(pictures, flow), name, colours=None)


def last_of(pictures: FlowPictures, flow: Flow) -> Any:
    """The picture of a flow's last state."""
    *_, last = flow.states()
    return pictures.draw(last)


def main() -> None:
    """Draws them all."""
    FOLDER.mkdir(exist_ok=True)
    draw_samples()
    draw_messy()
    draw_contacts()
    draw_flows()
    draw_moving()
    for name, shape in SCENES.items():
        draw(shape, FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
