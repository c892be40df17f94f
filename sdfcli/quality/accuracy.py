"""Errors of a field at random points, against exact distances."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.field.stated_error import growth
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import Mesh, face_normals

NEAR = 0.1
"""Maximum distance of `near` points from the surface, as a fraction of the band."""

JUMP_PROBES, HALVINGS, PROOF = 7, 8, 1.5
"""Jump search: probes per axis; bisections between two probes; and the ratio that proves a jump, of the summed
distances at both ends to the length between them. A continuous distance has at most 1; the margin covers rounding."""

MOST_KEPT = 30_000
"""Maximum point count for which random numbers are cached for the next mesh: drawing takes longer than using them."""

MOST_SUSPECTS = 0.02
"""Maximum share of points above the tolerance at which jumps are searched for; above it, the field is wrong."""


class Sampled(Protocol):
    """A field to sample: a Field or a uniform grid."""

    def sample(self, points: Any) -> Any: ...

    def cell_at(self, points: Any) -> tuple[Any, Any]:
        """Lower corners (n, 3) and edges (n,) of the cells that contain points, in the mesh's units."""


class Reference(Protocol):
    """Exact signed distances (n,) at points (n, 3), in the mesh's units."""

    def signed_distance(self, points: Any) -> Any: ...


class Evaluated(NamedTuple):
    """Points, region by region, with exact and field distances.

    counts  point count by region.
    points  (n, 3), in the mesh's units, like all distances.
    truth   (n,) exact signed distances.
    value   (n,) the field's signed distances.
    """

    counts: dict[str, int]
    points: Floats
    truth: Floats
    value: Floats


@dataclass(frozen=True)
class RegionErrors:
    """Errors in one region, as fractions of the diagonal.

    Attributes:
        samples: point count.
        largest: maximum of |field - truth|, outside the band divided by distance / band, as the tolerance grows there.
        rms: root mean square of the same.
        jumps: count of excluded points at a sign jump: where an open surface's hole is closed, the sign jumps between
            the hole's two sides, which no continuous field can follow.
        where: (3,) point with the largest error, in the mesh's units.
    """

    samples: int
    largest: float
    rms: float
    jumps: int
    where: tuple[float, float, float]


def sample_points(mesh: Mesh, band: float, count: int, seed: int) -> dict[str, Floats]:
    """Random points (n, 3) by region, `count` in total: near the surface, in the band (a fraction of the diagonal)
    around it, and everywhere in the domain."""
    points, ends = drawn_points(mesh, band, count, seed), accumulate(region_counts(count).values())
    return dict(zip(region_counts(count), np.split(points, [*ends][:-1]), strict=True))


def region_counts(count: int) -> dict[str, int]:
    """Point counts by region, for `count` points in total."""
    return {"near": count // 3, "band": count // 3, "everywhere": count - 2 * (count // 3)}


def drawn_points(mesh: Mesh, band: float, count: int, seed: int) -> Floats:
    """The points (count, 3) of `sample_points`, region by region."""
    places, way, far, anywhere = (_kept_numbers if count <= MOST_KEPT else _numbers)(count, seed)
    points, _ = _drawn(mesh, places, (way, far, band * mesh.unit), more=len(anywhere))
    points[len(far) :] = mesh.domain.origin + anywhere * mesh.domain.length
    return points


def _numbers(count: int, seed: int) -> tuple[Places, Floats, Floats, Floats]:
    """Random numbers for `sample_points`: locations, directions (n, 3) and offsets (n,), -1 to 1 bands, for points near
    the surface, then in the band; and points in the unit cube."""
    rng, third = np.random.default_rng(seed), count // 3

    def around() -> tuple[Floats, ...]:
        places = Places.drawn(third, rng)
        return places.share, places.weight, _directions(third, rng), rng.uniform(-1, 1, third)

    share, weight, way, far = map(np.concatenate, zip(around(), around(), strict=True))
    far[:third] *= NEAR
    return Places.of(share, weight), way, far, rng.random((count - 2 * third, 3))


_kept_numbers = functools.lru_cache(maxsize=1)(_numbers)


class Places(NamedTuple):
    """Random locations, uniform by area, for any surface.

    share   (n,) share of the total area before the location.
    weight  (n, 3) barycentric weights in the face.
    order   (n,) uint32, indices that sort `share`.
    """

    share: Floats
    weight: Floats
    order: npt.NDArray[np.uint32]

    @staticmethod
    def drawn(count: int, rng: np.random.Generator) -> Places:
        """`count` random locations."""
        return Places.of(rng.random(count), rng.dirichlet([1.0, 1.0, 1.0], count))

    @staticmethod
    def of(share: Floats, weight: Floats) -> Places:
        """Locations with the given shares and weights."""
        return Places(share, weight, np.argsort(share).astype(np.uint32))


def on_surface(mesh: Mesh, count: int, rng: np.random.Generator) -> Floats:
    """Random points (count, 3) on the surface, uniform by area."""
    return _drawn(mesh, Places.drawn(count, rng))[0]


def surface_samples(mesh: Mesh, places: Places) -> tuple[Floats, Floats]:
    """Surface points (n, 3) at n locations, and their faces' unit normals (n, 3), 0 for faces without area."""
    points, normals = _drawn(mesh, places, normals=True)
    assert normals is not None
    return points, normals


def _drawn(
    mesh: Mesh,
    places: Places,
    away: tuple[Floats, Floats, float] | None = None,
    more: int = 0,
    normals: bool = False,
) -> tuple[Floats, Floats | None]:
    """Points (n + more, 3) at n locations, the last `more` uninitialised; and their faces' unit normals (n, 3).

    away: directions (n, 3) away from the surface, offsets (n,) in widths, and the width; None: on the surface.
    normals: whether to compute normals, else None.
    """
    backend, sums, count = any_backend(), mesh.area_sums, len(places.share)
    way, far, width = away or (None, None, 0.0)
    given: dict[str, Any] = {**places._asdict(), "way": way, "far": far}
    given |= {"sums": sums, "vertex": mesh.vertices, "face": mesh.faces}
    arrays = {name: None if array is None else backend.from_host(array) for name, array in given.items()}
    point, normal = backend.xp.empty((count + more, 3)), backend.xp.empty((count, 3)) if normals else None
    numbers = {"faces": len(sums), "domain": mesh.domain.group(backend), "width": width}
    backend.run("sdf_points_drawn", count, point=point[:count], normal=normal, **numbers, **arrays)
    return backend.to_host(point), None if normal is None else backend.to_host(normal)


def corners_of(mesh: Mesh, face: Ints) -> Floats:
    """Corners (k, 3, 3) of a few faces (k,): `take` is faster than indexing, by far for scattered faces."""
    return np.take(mesh.vertices, np.take(mesh.faces, face, axis=0), axis=0)


def face_directions(mesh: Mesh, face: Ints) -> Floats:
    """Unit normals (k, 3) of faces (k,); 0 for faces without area."""
    normal = face_normals(mesh.domain.to_unit(corners_of(mesh, face)).reshape(-1, 9))
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.asarray(normal / np.where(length > 0, length, 1.0))


def _directions(count: int, rng: np.random.Generator) -> Floats:
    way = rng.normal(size=(count, 3))
    return np.asarray(way / np.linalg.norm(way, axis=1, keepdims=True))


def errors(
    field: Sampled,
    diagonal: float,
    tolerance: float,
    band: float,
    reference: Reference,
    points: Floats,
    most_suspects: float = MOST_SUSPECTS,
) -> RegionErrors:
    """A field's errors at points (n, 3) against a reference. tolerance, band: fractions of the diagonal.

    Jumps are searched for at points with an error above the tolerance, unless their share exceeds `most_suspects`.
    """
    found = Evaluated({"": len(points)}, points, reference.signed_distance(points), field.sample(points))
    return errors_by_region(field, diagonal, tolerance, band, reference, found, most_suspects)[""]


def errors_by_region(
    field: Sampled,
    diagonal: float,
    tolerance: float,
    band: float,
    reference: Reference,
    found: Evaluated,
    most_suspects: float = MOST_SUSPECTS,
) -> dict[str, RegionErrors]:
    """`errors` of several regions, already evaluated together."""
    counts, points, truth, value = found
    relative = np.abs(value - truth)
    relative /= diagonal  # in place: new memory pages take longer
    relative /= growth(truth, band * diagonal)
    suspect, jump = relative > tolerance, np.zeros(len(points), bool)
    parts, end = {}, 0
    for name, count in counts.items():
        parts[name] = part = slice(end, end := end + count)
        if np.count_nonzero(suspect[part]) > most_suspects * count:
            suspect[part] = False
    jump[suspect] = _jumps(field, reference, points[suspect], truth[suspect], value[suspect])
    counted = np.where(jump, -1.0, relative)
    worst = [part.start + int(np.argmax(counted[part])) for part in parts.values()]
    return {
        name: _region_errors(relative[part], jump[part], points[place])
        for (name, part), place in zip(parts.items(), worst, strict=True)
    }


def _region_errors(relative: Floats, jump: Bools, where: Floats) -> RegionErrors:
    counted = relative[~jump] if jump.any() else relative
    squares = counted**2
    return RegionErrors(
        samples=len(relative),
        largest=float(counted.max(initial=0.0)),
        # Summed sequentially: the order of NumPy's sums depends on the machine.
        rms=math.sqrt(np.cumsum(squares, out=squares)[-1] / len(squares)) if len(squares) else 0.0,
        jumps=int(jump.sum()),
        where=(float(where[0]), float(where[1]), float(where[2])),
    )


def at_jump(field: Sampled, reference: Reference, where: tuple[float, float, float]) -> bool:
    """Whether a point lies at a sign jump: see `_jumps`."""
    return bool(at_jumps(field, reference, np.array([where]))[0])


def at_jumps(field: Sampled, reference: Reference, points: Floats) -> Bools:
    """Whether points (n, 3) lie at sign jumps, (n,): see `_jumps`."""
    return np.asarray(_jumps(field, reference, points, reference.signed_distance(points), field.sample(points)))


def _jumps(field: Sampled, reference: Reference, points: Floats, truth: Floats, value: Floats) -> Any:
    """Whether exact distances prove a sign jump within one leaf's width of each point's leaf: (n,) bool.

    Segments between probes of different sign are bisected. If a segment crosses the surface, the distances at its ends
    shrink with its length; at a jump they do not. Points at which the field's magnitude exceeds the exact one by more
    than the leaf's diagonal do not count.
    """
    jump = np.zeros(len(points), bool)
    if len(points) == 0:
        return jump
    low, edge = field.cell_at(points)
    steps = np.linspace(-1.0, 2.0, JUMP_PROBES)
    grid = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    probes = low[:, None] + grid * edge[:, None, None]
    exact = reference.signed_distance(probes.reshape(-1, 3)).reshape(len(points), -1)
    place, exact = np.append(probes, points[:, None], axis=1), np.append(exact, truth[:, None], axis=1)
    first, second = _pairs(JUMP_PROBES)
    of, pair = np.nonzero((exact[:, first] < 0) != (exact[:, second] < 0))
    which = np.stack([first[pair], second[pair]])
    ends, exact = place[of, which], exact[of, which]
    for _ in range(HALVINGS):
        if len(of) == 0:
            break
        middle = ends.mean(axis=0)
        between = reference.signed_distance(middle)
        moved, each = ((between < 0) != (exact[0] < 0)).astype(np.int64), np.arange(len(of))
        ends[moved, each], exact[moved, each] = middle, between
        way = np.linalg.norm(ends[1] - ends[0], axis=1)
        jump[of[np.abs(exact).sum(axis=0) > PROOF * way]] = True
        open_still = ~jump[of]
        of, ends, exact = of[open_still], ends[:, open_still], exact[:, open_still]
    return jump & (np.abs(value) <= np.abs(truth) + edge * np.sqrt(3.0))


def _pairs(side: int) -> tuple[Ints, Ints]:
    """Pairs of adjacent probes in a side^3 cube, and of each probe with the point itself, index side^3."""
    number = np.arange(side**3)
    neighbours = [np.moveaxis(number.reshape(side, side, side), axis, 0) for axis in range(3)]
    first = [along[:-1].ravel() for along in neighbours]
    second = [along[1:].ravel() for along in neighbours]
    return np.concatenate([*first, number]), np.concatenate([*second, np.full(side**3, side**3)])
