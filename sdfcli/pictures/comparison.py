"""`compare --picture`: two meshes from one side, each coloured by its distance to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdfcli.backend import select_backend
from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.params import whole
from sdfcli.pictures.posed import PosedMesh
from sdfcli.pictures.render import BAND, DEFAULT_VIEW, Camera, aim, view_axes
from sdfcli.pictures.slice import Bar, nice_step, paint, tiled
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.memory import memory_errors

Image = npt.NDArray[np.uint8]

LEAST_SIZE, MOST_SIZE = 64, 2048
RAYS = 2
"""Rays per pixel along each axis."""

DARK = 0.35
"""Light of a surface turned away from all lamps: colours stay legible."""

LINES = 8
"""Minimum labels along the scale."""


def check_image(size: int, view: str | tuple[float, float], up: str) -> None:
    """Raises UsageError for a picture that is too small or too large, and for an unknown view."""
    if not LEAST_SIZE <= whole(size) <= MOST_SIZE:
        raise UsageError(f"--size {size}: use {LEAST_SIZE} to {MOST_SIZE} pixels")
    view_axes(view, up)


@memory_errors("try a smaller --size")
def comparison_image(
    a: MeshSource,
    b: MeshSource,
    *,
    names: tuple[str, str] = ("A", "B"),
    largest: float | None = None,
    size: int = 700,
    view: str | tuple[float, float] = DEFAULT_VIEW,
    up: str = "y",
    sign: str = "auto",
    device: str = "auto",
    threads: int | None = None,
) -> Image:
    """Draws two meshes side by side, each coloured by its distance to the other, with a scale: (h, w, 3) uint8.

    Points outside the other mesh are red and points inside are blue, where that has an inside; otherwise all are red.

    Args:
        a: a mesh: a path, a `trimesh.Trimesh`, or vertices (v, 3) and faces (f, 3).
        b: another mesh.
        names: the meshes' names, for the headings.
        largest: distance with the full colour, in mesh units; default: the largest distance in the picture.
        size: width and height of each mesh, in pixels.
        view: as for `sdfcli.render`.
        up: as for `sdfcli.render`.
        sign: as for `sdfcli.compare`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: CPU thread count; default: all CPUs available to the process.

    Raises:
        InputError: a mesh cannot be read or used.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the picture does not fit into memory.
    """
    check_image(size, view, up)
    first, second = load_mesh(a), load_mesh(b)
    low = np.minimum(first.bounds[0], second.bounds[0])
    domain = Domain.around(np.array([low, np.maximum(first.bounds[1], second.bounds[1])]))
    corners = np.concatenate([domain.to_unit(mesh.vertices) for mesh in (first, second)])
    camera, _ = aim(np.pad(corners, ((0, 0), (0, 1))), view_axes(view, up), size, size)
    seen = []
    for mesh, other in ((first, second), (second, first)):
        point, light = _seen(mesh, domain, camera, RAYS * size, device, threads)
        there = light >= 0
        target, value = MeshDistance(other, sign=sign, device=device, threads=threads), np.zeros(light.shape)
        target._told = True
        if there.any():
            value[there] = target.signed_distance(domain.origin + point[there] * domain.length)
        seen.append((value, light, target.signed))
    most = max(float(np.abs(value).max()) for value, *_ in seen) if largest is None else largest
    signed = any(each for *_, each in seen)
    panels = [_painted(value, light, most) for value, light, _ in seen]
    step = nice_step(most / (LINES / 2 if signed else LINES))
    bar = Bar((-most if signed else 0.0, most), step, "distance")
    words = "red outside, blue inside the other mesh, " if signed else ""
    return tiled(panels, 2, [*names], bar, f"distance to the other mesh, {words}in the meshes' units")


def _seen(
    mesh: Mesh, domain: Domain, camera: Camera, size: int, device: str, threads: int | None
) -> tuple[Floats, npt.NDArray[np.float32]]:
    """Visible points (size, size, 3) of a mesh, in the domain's unit cube, and their light (size, size), negative where
    nothing is seen."""
    backend = select_backend(device, threads)
    shapes = PosedMesh(mesh)._group(backend, domain)
    point, light = np.empty((size * size, 3)), np.empty(size * size, np.float32)
    for first in range(0, size * size, BAND):
        n = min(BAND, size * size - first)
        at, shown = backend.xp.empty((n, 3)), backend.xp.empty(n, np.float32)
        backend.run(
            "sdf_mesh_seen",
            n,
            first=first,
            width=size,
            height=size,
            mesh=shapes,
            pixel_size=camera.pixel_size / RAYS,
            camera=backend.from_host(camera.frame),
            point=at,
            light=shown,
        )
        point[first : first + n], light[first : first + n] = backend.to_host(at), backend.to_host(shown)
    return point.reshape(size, size, 3), light.reshape(size, size)


def _painted(value: Floats, light: npt.NDArray[np.float32], most: float) -> Image:
    """A picture (h, w, 3) from distances and light at RAYS times as many points along each axis."""
    lit = np.where(light >= 0, DARK + (1 - DARK) * light, 1.0)[..., None]
    linear = lit * (paint(value, most) / 255.0) ** 2
    linear[light < 0] = 1.0
    side = len(value) // RAYS
    mean = linear.reshape(side, RAYS, side, RAYS, 3).mean(axis=(1, 3))
    return np.asarray(255.0 * np.sqrt(mean) + 0.5, np.uint8)
