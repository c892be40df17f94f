"""Make the sample meshes: ``python make.py [folder]`` (needs an installed sdfcli).

Every shape is computed from formulas and fixed seeds, so that each run writes the same bytes
(another processor or version of the libraries may round a last digit differently).
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import sdfcli

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Mesh(NamedTuple):
    """A polygon mesh."""

    vertices: Floats  # (n, 3)
    faces: Ints  # (m, 3) triangles or (m, 4) quads, counter-clockwise seen from outside

    @property
    def triangles(self) -> Ints:
        """The faces, each cut into a fan of triangles."""
        corners = range(1, self.faces.shape[1] - 1)
        return np.concatenate([self.faces[:, [0, i, i + 1]] for i in corners])


EDGE_BASE = 1 << 32  # above every vertex index


def directed_edges(faces: Ints) -> tuple[Ints, Ints]:
    """Key ``start * EDGE_BASE + end`` of every face's edges, and the keys of the same edges walked backwards."""
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    return start * EDGE_BASE + end, end * EDGE_BASE + start


# --- Implicit surfaces ---------------------------------------------------------------------------


def polygonise(field: Callable[[Floats], Floats], low: ArrayLike, high: ArrayLike, cell: float) -> Mesh:
    """Polygonise the zero set of a distance-like field, negative inside, on a grid over the box low..high."""
    axes = [np.arange(start, stop, cell) for start, stop in zip(np.asarray(low), np.asarray(high), strict=True)]
    values = field(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
    # A surface that all but touches a grid point gives sliver triangles around it, so keep it a little away.
    margin = 0.04 * cell
    values = np.where(np.abs(values) < margin, np.copysign(margin, values), values)
    surface = sdfcli.isosurface(values, spacing=cell, device="cpu")
    return Mesh(np.asarray(low) + surface.vertices, surface.faces.astype(np.int64))


def tapered_capsule(points: Floats, start: ArrayLike, end: ArrayLike, start_radius: float, end_radius: float) -> Floats:
    """Distance to the hull of two balls."""
    start, axis = np.asarray(start), np.subtract(end, start)
    length = np.linalg.norm(axis)
    offset = points - start
    along = offset @ axis / length
    across = np.sqrt(np.maximum(np.sum(offset**2, axis=-1) - along**2, 0.0))
    # Of all balls between the two, the nearest one lies on the line through the point and normal to the hull.
    slope = (end_radius - start_radius) / length
    ball = np.clip(along + across * slope / np.sqrt(1.0 - slope**2), 0.0, length)
    return np.hypot(along - ball, across) - (start_radius + slope * ball)


def smooth_min(a: Floats, b: Floats, blend: float) -> Floats:
    """Minimum of two distances, rounded where they differ by less than ``blend``."""
    overlap = np.maximum(blend - np.abs(a - b), 0.0) / blend
    return np.minimum(a, b) - 0.25 * blend * overlap**2


# Start, end, radius at each and blend width, in centimetres; y is up and the rabbit looks along +z.
# Parts off the middle plane stand for a pair: the field is mirrored in x.
RABBIT_PARTS = [
    ((0.0, 4.1, -2.6), (0.0, 4.6, 1.0), 3.5, 2.5, 1.2),  # body
    ((0.0, 5.0, 1.5), (0.0, 7.6, 2.3), 2.1, 1.5, 1.2),  # chest and neck
    ((0.0, 8.6, 2.2), (0.0, 8.0, 3.9), 2.0, 1.35, 0.8),  # head
    ((1.05, 7.7, 3.0), (0.75, 7.5, 3.9), 1.15, 0.95, 0.6),  # cheek
    ((0.45, 7.4, 4.7), (0.42, 7.35, 5.0), 0.72, 0.65, 0.4),  # muzzle
    ((0.18, 7.95, 5.4), (0.0, 7.7, 5.6), 0.26, 0.22, 0.15),  # nose
    ((2.0, 3.3, -2.5), (2.1, 2.6, -1.0), 2.2, 1.9, 0.5),  # thigh
    ((2.5, 0.85, -1.8), (2.6, 0.75, 1.4), 0.85, 0.75, 0.5),  # hind foot
    ((1.15, 4.2, 2.4), (1.15, 1.0, 3.0), 1.15, 0.7, 0.6),  # foreleg
    ((1.15, 0.68, 3.1), (1.15, 0.65, 3.8), 0.68, 0.65, 0.4),  # forepaw
    ((0.0, 3.4, -6.2), (0.0, 3.8, -6.4), 1.2, 1.15, 0.4),  # tail
    ((1.5, 8.75, 3.3), (1.52, 8.75, 3.35), 0.44, 0.44, 0.1),  # eye
]
EAR_BASE, EAR_MIDDLE, EAR_TIP = np.array([(0.75, 9.9, 1.9), (1.25, 12.2, 1.4), (1.65, 14.4, 0.7)])


def rabbit(points: Floats) -> Floats:
    """Distance-like field of a sitting rabbit, in centimetres."""
    # Turn the head a little: the turn sets in along the neck, which leans forward.
    x, y, z = points[..., 0], points[..., 1], points[..., 2] - 2.0
    rise = np.clip((y + 0.7 * z - 5.0) / 3.0, 0.0, 1.0)
    angle = 0.35 * rise**2 * (3.0 - 2.0 * rise)
    turned_x, turned_z = np.cos(angle) * x - np.sin(angle) * z, np.sin(angle) * x + np.cos(angle) * z + 2.0
    points = np.stack([np.abs(turned_x), y, turned_z], axis=-1)

    distance = np.full(x.shape, np.inf)
    for start, end, start_radius, end_radius, blend in RABBIT_PARTS:
        distance = smooth_min(distance, tapered_capsule(points, start, end, start_radius, end_radius), blend)

    # Ears are flat: stretch space across them.
    flat = np.array([1.0, 1.0, 2.0])
    points, base, middle, tip = points * flat, EAR_BASE * flat, EAR_MIDDLE * flat, EAR_TIP * flat
    ear = smooth_min(
        tapered_capsule(points, base, middle, 0.55, 1.05), tapered_capsule(points, middle, tip, 1.05, 0.4), 0.6
    )
    forward = np.array([0.0, 0.0, 1.0])
    hollow = tapered_capsule(points, (base + middle) / 2 + forward, (middle + tip) / 2 + forward, 0.75, 0.55)
    ear = -smooth_min(-ear, hollow, 0.4)
    return smooth_min(distance, ear, 0.5)


def bunny() -> Mesh:
    """Rabbit, 15 cm tall, in metres."""
    mesh = polygonise(rabbit, (-5.5, -0.6, -8.2), (5.5, 16.2, 7.2), 0.124)
    return Mesh(0.01 * mesh.vertices, mesh.faces)


def shells() -> Mesh:
    """Hollow body: a bumpy sphere with a bumpy cavity, whose surface is therefore oriented towards its centre."""

    def hollow_ball(points: Floats) -> Floats:
        radius = np.linalg.norm(points, axis=-1)
        bumps = 0.06 * np.prod(np.sin(5.0 * points), axis=-1)
        return np.maximum(radius - 1.0 - 1.5 * bumps, 0.6 + bumps - radius)

    return polygonise(hollow_ball, (-1.2, -1.2, -1.2), (1.2, 1.2, 1.2), 0.056)


def metaballs() -> Mesh:
    """Balls of density that flow together where they meet (Nishimura et al. 1985), cut at half of a ball's density."""
    rng = np.random.default_rng(1985)
    centres, radii = rng.uniform(-0.8, 0.8, (12, 3)), rng.uniform(0.5, 0.9, 12)

    def missing_density(points: Floats) -> Floats:
        density = np.zeros(points.shape[:-1])
        for centre, radius in zip(centres, radii, strict=True):
            at = np.sqrt(np.sum((points - centre) ** 2, axis=-1)) / radius
            density += np.where(at < 1 / 3, 1.0 - 3.0 * at**2, 1.5 * (1.0 - np.minimum(at, 1.0)) ** 2)
        return 0.5 - density

    return polygonise(missing_density, (-1.7, -1.7, -1.7), (1.7, 1.7, 1.7), 0.06)


# --- Parts of planar faces -----------------------------------------------------------------------


def triangulate(points: Floats, outline: list[int], holes: list[list[int]]) -> list[list[int]]:
    """Triangulate a 2-D polygon by ear clipping.

    The outline is counter-clockwise, the holes are clockwise; all are loops of indices into ``points``.
    With holes the outline has to be convex and the holes round, so that the shortest bridge crosses nothing.
    """
    loop, holes = list(outline), list(holes)
    while holes:  # Join the nearest hole to the outline by a bridge, walked once each way.
        gaps = [np.linalg.norm(points[loop][:, None] - points[hole][None], axis=-1) for hole in holes]
        nearest = int(np.argmin([gap.min() for gap in gaps]))
        hole = holes.pop(nearest)
        i, j = divmod(int(gaps[nearest].argmin()), len(hole))
        loop = [*loop[: i + 1], *hole[j:], *hole[: j + 1], *loop[i:]]

    def left_of(a: int, b: int, others: Floats) -> Floats:
        (ux, uy), offset = points[b] - points[a], others - points[a]
        return ux * offset[..., 1] - uy * offset[..., 0]

    triangles = []
    while len(loop) > 2:
        for i in range(len(loop)):
            a, b, c = loop[i - 2], loop[i - 1], loop[i]
            others = points[[k for k in loop if k not in (a, b, c)]]
            inside = np.minimum(np.minimum(left_of(a, b, others), left_of(b, c, others)), left_of(c, a, others)) > -1e-9
            if left_of(a, b, points[c]) > 1e-9 and not inside.any():
                triangles.append([a, b, c])
                del loop[i - 1]
                break
        else:
            raise ValueError("outline has no ear: it crosses itself or all its points lie on a line")
    return triangles


def bracket() -> Mesh:
    """Angle bracket of 60 x 30 x 40 mm with a fillet, chamfers and three drilled holes."""
    fillet = [(14.0 - 8.0 * np.sin(t), 14.0 - 8.0 * np.cos(t)) for t in np.linspace(0.0, np.pi / 2, 25)]
    profile = np.array([(3, 0), (60, 0), (60, 6), *fillet, (6, 30), (3, 30), (0, 27), (0, 3)], dtype=np.float64)
    depth, count = 40.0, len(profile)
    floor, top, inner, back = 0, 2, 2 + len(fillet), count - 2  # sides, named by their first profile point
    # Side where the drill goes in, side where it comes out, centre, radius.
    drillings = [
        (floor, top, (26.0, 0.0, 12.0), 4.5),
        (floor, top, (46.0, 0.0, 24.0), 6.0),
        (back, inner, (0.0, 20.5, 20.0), 5.0),
    ]

    vertices = [*np.insert(profile, 2, 0.0, axis=1), *np.insert(profile, 2, depth, axis=1)]
    triangles: list[list[int]] = []
    holes: list[list[list[int]]] = [[] for _ in profile]
    directions = np.roll(profile, -1, axis=0) - profile
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for entry, leaving, centre, radius in drillings:
        (ux, uy), segments = directions[entry], 96
        turn = 2 * np.pi * (np.arange(segments) + 0.5) / segments
        rim = np.asarray(centre) + radius * np.stack([ux * np.cos(turn), uy * np.cos(turn), np.sin(turn)], axis=1)
        thickness = (profile[leaving] - profile[entry]) @ (-uy, ux)
        first = len(vertices)
        vertices += [*rim, *(rim + thickness * np.array([-uy, ux, 0.0]))]
        near = list(range(first, first + segments))
        far = [k + segments for k in near]
        holes[entry].append(near[::-1])
        holes[leaving].append(far)
        for k in range(segments):
            triangles += [[near[k - 1], near[k], far[k]], [near[k - 1], far[k], far[k - 1]]]

    points = np.array(vertices)
    outline = list(range(count))
    triangles += [[c, b, a] for a, b, c in triangulate(points[:, :2], outline, [])]
    triangles += [[a + count, b + count, c + count] for a, b, c in triangulate(points[:, :2], outline, [])]
    for i in outline:
        j = (i + 1) % count
        flat = np.stack([points[:, :2] @ directions[i], points[:, 2]], axis=1)
        triangles += triangulate(flat, [i, j, j + count, i + count], holes[i])
    return Mesh(points, np.array(triangles))


# --- Parametric surfaces -------------------------------------------------------------------------


def torus() -> Mesh:
    """Torus of radii 1 and 0.35 around the z axis, in quads."""
    rings, sides = 96, 48
    i, j = np.divmod(np.arange(rings * sides), sides)
    around, across = 2 * np.pi * i / rings, 2 * np.pi * j / sides
    reach = 1.0 + 0.35 * np.cos(across)
    vertices = np.stack([reach * np.cos(around), reach * np.sin(around), 0.35 * np.sin(across)], axis=1)
    next_i, next_j = (i + 1) % rings, (j + 1) % sides
    corners = [i * sides + j, next_i * sides + j, next_i * sides + next_j, i * sides + next_j]
    return Mesh(vertices, np.stack(corners, axis=1))


def scan() -> Mesh:
    """Open relief as a scanner would give it: irregular, slightly noisy, with holes and a ragged border."""
    rng = np.random.default_rng(7)
    size = 126
    row, column = np.divmod(np.arange(size * size), size)
    # Points moved by less than a quarter of a cell leave every quad convex, so that either diagonal is good.
    jitter = rng.uniform(-0.22, 0.22, (size * size, 2))
    sheet = 2.0 * (np.stack([column, row], axis=1) + jitter) / (size - 1) - 1.0
    radius = np.linalg.norm(sheet, axis=1)
    height = 0.09 * np.cos(14.0 * radius) * np.exp(-2.0 * radius**2) + 0.04 * np.prod(np.sin(6.0 * sheet), axis=1)
    height += rng.normal(0.0, 0.0015, size * size) - 0.3 * sheet[:, 0] ** 2
    vertices = np.column_stack([sheet, height])

    corner = np.flatnonzero((row < size - 1) & (column < size - 1))
    a, b, c, d = corner, corner + 1, corner + size + 1, corner + size
    shorter_ac = np.linalg.norm(vertices[a] - vertices[c], axis=1) < np.linalg.norm(vertices[b] - vertices[d], axis=1)
    first = np.where(shorter_ac, [a, b, c], [a, b, d])
    second = np.where(shorter_ac, [a, c, d], [b, c, d])
    faces = np.concatenate([first, second], axis=1).T

    centroids = sheet[faces].mean(axis=1)

    def within(x: float, y: float, blob_radius: float) -> NDArray[np.bool_]:
        offset = centroids - (x, y)
        angle = np.arctan2(offset[:, 1], offset[:, 0])
        wobble = 1.0 + 0.12 * np.sin(3.0 * angle + 9.0 * x) + 0.05 * np.sin(11.0 * angle + 9.0 * y)
        return np.linalg.norm(offset, axis=1) < blob_radius * wobble

    keep = within(0.0, 0.0, 0.94) & (rng.uniform(size=len(faces)) > 0.0004)
    for x, y, blob_radius in [(0.35, 0.3, 0.13), (-0.4, 0.1, 0.1), (-0.1, -0.5, 0.16), (0.5, -0.25, 0.05)]:
        keep &= ~within(x, y, blob_radius)
    faces = faces[keep]

    # Where the cut leaves two pieces that meet in a single vertex, the surface is not a manifold: widen the gap.
    while True:
        edges, reverse = directed_edges(faces)
        border_start = edges[~np.isin(edges, reverse)] // EDGE_BASE
        pinched = np.flatnonzero(np.bincount(border_start) > 1)
        if not len(pinched):
            break
        faces = faces[~np.isin(faces, pinched).any(axis=1)]
    used, compact = np.unique(faces, return_inverse=True)
    return Mesh(vertices[used], compact.reshape(faces.shape))


# --- Checks and files ----------------------------------------------------------------------------


def check(mesh: Mesh, closed: bool) -> None:
    """Make sure that the mesh is a clean oriented manifold, also in the single precision of the files."""
    vertices = mesh.vertices.astype(np.float32).astype(np.float64)
    a, b, c = vertices[mesh.triangles].transpose(1, 0, 2)
    edges, reverse = directed_edges(mesh.faces)
    assert len(np.unique(vertices, axis=0)) == len(vertices), "duplicate vertices"
    assert len(np.unique(mesh.faces)) == len(vertices), "unreferenced vertices"
    assert np.linalg.norm(np.cross(b - a, c - a), axis=1).min() > 0.0, "degenerate triangles"
    assert len(np.unique(edges)) == len(edges), "non-manifold or inconsistently oriented edges"
    assert np.isin(edges, reverse).all() == closed, "border where there should be none, or none where there should be"
    assert not closed or np.sum(a * np.cross(b, c)) > 0.0, "inside out"


def write_ply(path: Path, mesh: Mesh) -> None:
    """Write a binary little-endian PLY file."""
    faces = np.zeros(len(mesh.faces), dtype=[("count", "u1"), ("corners", "<i4", mesh.faces.shape[1])])
    faces["count"], faces["corners"] = mesh.faces.shape[1], mesh.faces
    header = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(mesh.vertices)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    path.write_bytes(header.encode() + mesh.vertices.astype("<f4").tobytes() + faces.tobytes())


def write_stl(path: Path, mesh: Mesh) -> None:
    """Write a binary STL file."""
    corners = mesh.vertices[mesh.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facets = np.zeros(len(corners), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    facets["normal"] = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    facets["corners"] = corners
    path.write_bytes(path.stem.encode().ljust(80) + np.uint32(len(facets)).tobytes() + facets.tobytes())


def write_obj(path: Path, mesh: Mesh) -> None:
    """Write a text OBJ file, whose indices count from one."""
    rounded = np.round(mesh.vertices, 6) + 0.0  # adding zero turns -0 into 0
    lines = [f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in rounded]
    lines += ["f " + " ".join(map(str, face)) for face in (mesh.faces + 1).tolist()]
    path.write_bytes("\n".join([*lines, ""]).encode())


def main() -> None:
    """Make, check and write all the samples."""
    parser = argparse.ArgumentParser(description="Make the sample meshes.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent, help="where to write them")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    samples = [
        ("bunny.ply", write_ply, bunny, True),
        ("bracket.stl", write_stl, bracket, True),
        ("torus.obj", write_obj, torus, True),
        ("scan.ply", write_ply, scan, False),
        ("shells.ply", write_ply, shells, True),
        ("metaballs.ply", write_ply, metaballs, True),
    ]
    for name, write, make, closed in samples:
        mesh = make()
        check(mesh, closed)
        write(folder / name, mesh)
        print(f"{name}: {len(mesh.vertices)} vertices, {len(mesh.triangles)} triangles")


if __name__ == "__main__":
    main()
