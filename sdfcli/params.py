"""Build parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Unpack

ENDINGS = (".h5", ".hdf5")
"""File name endings for fields and sequences."""

OCTREES = ("adaptive", "bvh")
SIGNS = ("auto", "pseudonormal", "winding", "none")
SOLIDS = FLOOD, INSIDE = ("flood", "inside")
BUILD_SIGNS = (*SIGNS, *SOLIDS)
"""Signs of builds: of a mesh, or of its solid, see solid/."""
SAMPLE_SIGNS = (*SIGNS, FLOOD)
"""Signs of training samples."""
HOLES = OPEN, CAP = ("open", "cap")
"""Treatment of an open mesh's holes: closed for signs only, or by faces, see mesh/holes.py."""
AUTO = "auto"
GAP, GAPS = 0.005, (0.001, 0.25)
"""Default radius of the ball that floods the outside, as a fraction of the diagonal; and the smallest and largest."""
VERDICTS = ("good", "usable", "doubtful", "unusable")
"""Verdicts of `check` and `build` on a mesh, from best to worst."""
QUERIES = ("fast", "baseline", "soa", "cct")
FORMS = ("minmax", "size", "ball")
"""Vector forms of a triangle's box: see query/nearest_triangles.py."""
MAX_DEPTH = 16
DEFAULT_DEPTH = 10
FINEST_CELL = 1.5
SHEET_CELL = 0.42
"""Cell edge that resolves a sheet, as a fraction of its thickness (measured: docs/concepts/accuracy.md)."""
LEAST_THIN = 1e-6
WIDEST_SHEET = 8.0
"""Maximum thickness, in tolerances, for walls and gaps to be searched for."""
UNITS = {"um": 1, "mm": 1_000, "cm": 10_000, "m": 1_000_000, "in": 25_400, "ft": 304_800}
"""Units of `units`, in micrometres."""
NAME = "{name}"
"""Placeholder for the input's name, without its ending, in an output's name."""
PLACES = ("domain", "unit", "scale", "units", "gap", "holes")
"""Parameters stored in a field only if given."""
PAGE_LEAVES = 1 << 20
"""Default maximum leaf count in a `view` page: 38 MB."""
GRID_RESOLUTION = 128
"""Default point count of exported grids along their longest side."""
HALF_WIDTH = 3.0
"""Default half width for exported narrow bands, in voxels, as in OpenVDB."""
LENGTHS = 1e-30, 1e31
"""Bounds on the domain edge, slightly wider than the extents of meshes."""
MOST_AWAY = 1e13
"""Maximum distance between domain and origin, in domain edges: slightly above the float64 resolution of meshes."""
FEW_LOST = 0.001
"""Maximum share of the surface whose thin walls and gaps a good field may lose; blades lose as much at their edges."""
THIN = 0.75
"""Thickness, in tolerances, down to which sheets keep both sides by default."""
SAMPLES = {"deepsdf": 500_000, "hunyuan": 874_496, "dora": 796_608, "triposg": 500_000}
"""Schemas of training samples, see export/schemas.py, with the default sample count per mesh."""
MOST_SAMPLES = 1 << 31
"""Maximum sample count per mesh."""
PROVE_LEAVES = 0.05
"""Maximum share of leaves added by `prove`."""
SHARP = ("hunyuan", "dora")
"""Schemas with samples on sharp edges."""
DEEPSDF = ("uniform", "surface", "sigma", "normals", "normalized")
"""Sample parameters that other schemas set themselves."""
GRIDS = 16, 4096
"""Minimum and maximum cell count along an axis of a sparse grid of samples."""
LEAST_ANGLE = 1.0
"""Minimum angle of sharp edges, in degrees."""
MOST_SIGMA = 1e6
"""Maximum standard deviation of samples, in enclosing sphere radii."""


def real(value: object) -> float:
    """A number as a float; NaN, outside every range, for anything else, text included."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def whole(value: object) -> float:
    """An integer, also one as a float; NaN for anything else."""
    number = real(value)
    return number if number.is_integer() else math.nan


class BuildKeywords(TypedDict, total=False):
    """Build parameters as options and keywords: names and types; see BuildParams."""

    octree: str
    depth: int | None
    tolerance: float
    band: float
    thin: float | None
    sign: str
    query: str
    domain: str | Sequence[float] | None
    unit: float | None
    max_error: float | None
    scale: float | None
    units: str | None
    gap: float | str | None
    holes: str


class SampleKeywords(TypedDict, total=False):
    """Training sample parameters as options and keywords: names and types; see SampleParams."""

    schema: str
    count: int | None
    uniform: float
    surface: float
    sigma: str | float | Sequence[float]
    normals: bool
    normalized: bool
    angle: float | None
    grid: int | None
    seed: int
    sign: str
    gap: float | str | None
    holes: str


@dataclass(frozen=True)
class BuildParams:
    """Build parameters. Raises UsageError for values out of range.

    Functions that take build parameters also take `max_error`: the maximum error in mesh units, in place of `unit`; it
    sets `unit` so that the tolerance is this length. They take `domain` as text, too: `X,Y,Z,L`.

    Attributes:
        octree: `adaptive`: cells are split while the trilinear field deviates from the true distance (Frisken 2000);
            `bvh`: while they contain a BVH node (the thesis's density-driven octree).
        depth: the finest level, 1 to 16; its cells are 2^-depth domain edges wide. None: 10, or the level whose cells
            are at most 1.5 tolerances wide, if finer.
        tolerance: maximum error, as a fraction of the mesh's bounding box diagonal.
        band: distance from the surface, as a fraction of the diagonal, within which the tolerance is absolute; outside,
            it is multiplied by distance / band.
        thin: thickness, as a fraction of the diagonal, down to which walls and gaps keep both sides. None: 0.75
            tolerances; 0: no such criterion. Without `depth`, the finest level is raised where this needs it.
        sign: the method for inside and outside: `auto`, `pseudonormal`, `winding` or `none`; or `flood`: the field of
            the solid that `sdfcli.solidify` makes, for open meshes and triangles in any state; or `inside`: the largest
            space that the flood does not reach from outside, a room, is outside, all else is solid.
        query: the nearest-triangle algorithm: `fast`, or one from the thesis: `baseline`, `soa`, `cct`. The field does
            not depend on it.
        domain: the octree's root cube, in mesh units: x, y, z of its lower corner, and its edge. It must contain the
            mesh. None: a padded cube around the mesh. Fields with the same domain share a lattice.
        unit: length, in mesh units, that replaces the diagonal in `tolerance`, `band` and `thin`, making them absolute.
            None: the diagonal.
        scale: factor for the mesh's coordinates, such as 0.001 for millimetres to metres. The field, and all lengths
            here, are in the scaled mesh's units. None: 1.
        units: the field's unit: `um`, `mm`, `cm`, `m`, `in` or `ft`, to which a mesh file's coordinates are converted
            from the file's unit: `mm` in STEP, `m` in glTF, as named in 3MF, USD and COLLADA. Not with `scale`, and not
            for other files and arrays, which name no unit. None: they stay in the file's unit.
        gap: for `flood` and `inside`: the radius of the ball that floods the outside, as a fraction of the diagonal, or
            `auto`; see `sdfcli.solidify`. None: 0.005.
        holes: `cap`: the holes of an open mesh are closed by faces, to which distances are measured, too, so that the
            field is continuous there; `open`: they are closed for signs only, and the sign jumps.
    """

    octree: str = "adaptive"
    depth: int | None = None
    tolerance: float = 1e-3
    band: float = 0.02
    thin: float | None = None
    sign: str = "auto"
    query: str = "fast"
    domain: tuple[float, float, float, float] | None = None
    unit: float | None = None
    scale: float | None = None
    units: str | None = None
    gap: float | str | None = None
    holes: str = OPEN

    def __post_init__(self) -> None:
        for name, allowed in (("octree", OCTREES), ("sign", BUILD_SIGNS), ("query", QUERIES), ("holes", HOLES)):
            if getattr(self, name) not in allowed:
                raise UsageError(f"--{name} {getattr(self, name)}: use {', '.join(allowed)}")
        if self.depth is not None and not 1 <= whole(self.depth) <= MAX_DEPTH:
            raise UsageError(f"--depth {self.depth}: use 1 to {MAX_DEPTH}")
        for name in ("tolerance", "band"):
            value = getattr(self, name)
            if not 0 < real(value) < 1:
                raise UsageError(f"--{name} {value}: use a fraction of the diagonal, or of --unit, between 0 and 1")
        if self.thin is not None and not (real(self.thin) == 0 or LEAST_THIN <= real(self.thin) < 1):
            raise UsageError(
                f"--thin {self.thin}: use a fraction of the diagonal, or of --unit, from {LEAST_THIN:g} to 1, or 0"
            )
        if self.unit is not None and not LENGTHS[0] < real(self.unit) < LENGTHS[1]:
            raise UsageError(f"--unit {self.unit}: use a length between {LENGTHS[0]:g} and {LENGTHS[1]:g}")
        check_scale(self.scale, self.units)
        object.__setattr__(self, "gap", _gap_for(self.sign, self.gap))
        if self.holes != OPEN and self.sign in SOLIDS:
            raise UsageError(
                f"--holes {self.holes}: not with --sign {self.sign}, which closes holes up to two --gap wide"
            )
        for name in ("depth", "tolerance", "band", "thin", "unit", "scale"):
            value = getattr(self, name)
            if value is not None:  # NumPy's numbers become Python's, as the command has them
                object.__setattr__(self, name, int(value) if name == "depth" else float(value))
        if self.domain is not None:
            object.__setattr__(self, "domain", parse_domain(self.domain))

    @classmethod
    def of(cls, **given: Unpack[BuildKeywords]) -> BuildParams:
        """The parameters from options or keywords. Raises UsageError for values out of range, and for both `unit` and
        `max_error`."""
        parameters: dict[str, Any] = {**given}
        max_error = parameters.pop("max_error", None)
        if max_error is not None:
            parameters["unit"] = _unit_for(
                max_error, parameters.get("unit"), parameters.get("tolerance", cls.tolerance)
            )
        return cls(**parameters)

    def depth_limit(self, diagonal: float) -> int:
        """The finest level for a mesh. diagonal: the mesh's, or `unit`, in domain edges."""
        if self.depth is not None:
            return self.depth
        needed = math.ceil(math.log2(1 / (FINEST_CELL * self.tolerance * diagonal)))
        return min(max(DEFAULT_DEPTH, needed), MAX_DEPTH)

    @property
    def thin_limit(self) -> float:
        """Thickness down to which sheets keep both sides, as a fraction of the diagonal; 0: no such criterion."""
        if self.octree == "bvh":
            return 0.0
        return THIN * self.tolerance if self.thin is None else self.thin

    def thin_depth(self, diagonal: float) -> int:
        """The finest level near sheets thinner than `thin_limit`. diagonal: as for `depth_limit`."""
        finest = self.depth_limit(diagonal)
        if self.depth is not None or not self.thin_limit:
            return finest
        return min(max(finest, depth_for_sheet(self.thin_limit, diagonal)), MAX_DEPTH)

    def resolved(self, diagonal: float) -> dict[str, Any]:
        """The parameters that determine the field, by name, with defaults resolved. diagonal: as for `depth_limit`."""
        chosen = {
            "depth": self.depth_limit(diagonal),
            "thin": self.thin_limit,
            "thin_depth": self.thin_depth(diagonal),
        }
        made = {name: value for name, value in {**self.__dict__, **chosen}.items() if name != "query"}
        if self.domain is not None:
            made["domain"] = list(self.domain)
        return {name: value for name, value in made.items() if name not in PLACES or value not in (None, OPEN)}


@dataclass(frozen=True)
class BuildOptions:
    """Build options besides the parameters; see `sdfcli.build`. Only `prove` affects the octree: leaves whose error is
    not proven are split."""

    device: str = "auto"
    threads: int | None = None
    max_memory: int | None = None
    keep_nearest: bool = False
    why: bool = False
    hashed: bool = False
    prove: bool = False
    prove_leaves: float = PROVE_LEAVES

    def __post_init__(self) -> None:
        check_flag("nearest", self.keep_nearest)
        check_flag("why", self.why)
        check_flag("prove", self.prove)


@dataclass(frozen=True)
class SampleParams:
    """Training sample parameters; by default DeepSDF's shares, with its paper's noise. Raises UsageError for values out
    of range, and for parameters of `deepsdf` with another schema.

    Attributes:
        schema: `deepsdf`, `hunyuan`, `dora` or `triposg`: the file's arrays, with their counts, normalisation and sign;
            see the guide to samples for generators.
        count: sample count per mesh, surface samples included. None: the schema's.
        uniform: for `deepsdf`: share of uniform samples, drawn from the enclosing sphere's bounding cube (see
            `normalized`).
        surface: for `deepsdf`: share of samples on the surface itself. All others are drawn there, uniform by area,
            then displaced.
        sigma: for `deepsdf`: standard deviations for the displacement along each axis, in enclosing sphere radii, or a
            single one; each applies to an equal number of samples.
        normals: for `deepsdf`: whether to compute unit normals: the distance's gradient, pointing outwards.
        normalized: for `deepsdf`: whether to move and scale points and distances so that the enclosing sphere becomes
            the unit sphere. Its centre is the bounding box's, its radius 1.03 times the farthest vertex's distance.
        angle: for `hunyuan` and `dora`: minimum angle between the normals at a sharp edge, in degrees. None: the
            schema's.
        grid: cells per axis, 16 to 4096, of a sparse grid whose crossings with the surface are added, with normals; see
            `DualGrid`. None: no grid.
        seed: random seed, 0 or more.
        sign: `auto`, `pseudonormal`, `winding` or `none`, as for `sdfcli.build`; or `flood`: samples of the solid that
            `sdfcli.solidify` makes, for open meshes and triangles in any state.
        gap: for `flood`: the ball's radius, as for `sdfcli.build`. None: 0.005.
        holes: `open` or `cap`, as for `sdfcli.build`; not with `flood`.
    """

    schema: str = "deepsdf"
    count: int | None = None
    uniform: float = 0.06
    surface: float = 0.0
    sigma: tuple[float, ...] = (0.05, 0.0158)
    normals: bool = False
    normalized: bool = False
    angle: float | None = None
    grid: int | None = None
    seed: int = 0
    sign: str = "auto"
    gap: float | str | None = None
    holes: str = OPEN

    def __post_init__(self) -> None:
        check_holes(self.holes)
        if self.schema not in tuple(SAMPLES):
            raise UsageError(f"--schema {self.schema}: use {', '.join(SAMPLES)}")
        if self.sign not in SAMPLE_SIGNS:
            raise UsageError(f"--sign {self.sign}: use {', '.join(SAMPLE_SIGNS)}")
        object.__setattr__(self, "gap", _gap_for(self.sign, self.gap))
        if self.holes != OPEN and self.sign == FLOOD:
            raise UsageError(f"--holes {self.holes}: not with --sign {FLOOD}, which closes holes up to two --gap wide")
        if self.count is None:
            object.__setattr__(self, "count", SAMPLES[self.schema])
        for name, low, high, words in (
            ("count", 1, MOST_SAMPLES, f"a whole number from 1 to {MOST_SAMPLES:,}"),
            ("seed", 0, math.inf, "a whole number, 0 or more"),
        ):
            value = getattr(self, name)
            if not low <= whole(value) <= high:
                raise UsageError(f"--{name} {value}: use {words}")
            object.__setattr__(self, name, int(value))
        for name in ("uniform", "surface"):
            if not 0 <= real(getattr(self, name)) <= 1:
                raise UsageError(f"--{name} {getattr(self, name)}: use a share of the samples, from 0 to 1")
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.uniform + self.surface > 1:
            raise UsageError(
                f"--uniform {self.uniform:g} and --surface {self.surface:g}: use shares with a sum of at most 1"
            )
        object.__setattr__(self, "sigma", parse_sigma(self.sigma))
        for name in ("normals", "normalized"):
            check_flag(name, getattr(self, name))
        if self.angle is not None:
            if not LEAST_ANGLE <= real(self.angle) < 180:
                raise UsageError(f"--angle {self.angle}: use degrees, from {LEAST_ANGLE:g} to less than 180")
            object.__setattr__(self, "angle", float(self.angle))
            if self.schema not in SHARP:
                raise UsageError(
                    f"--angle {self.angle:g}: is for --schema {' and '.join(SHARP)}, which have sharp edges"
                )
        if self.grid is not None:
            if not GRIDS[0] <= whole(self.grid) <= GRIDS[1]:
                raise UsageError(f"--grid {self.grid}: use a whole number from {GRIDS[0]} to {GRIDS[1]:,}")
            object.__setattr__(self, "grid", int(self.grid))
        for name in DEEPSDF if self.schema != "deepsdf" else ():
            if getattr(self, name) != getattr(SampleParams, name):
                raise UsageError(f"--{name}: is for --schema deepsdf; {self.schema} has its own")

    @property
    def stored(self) -> dict[str, Any]:
        """The parameters that determine the samples, by name, as in a file's info; others than `deepsdf`'s by its name
        and without the parameters that it sets."""
        absent = ("schema",) if self.schema == "deepsdf" else DEEPSDF
        given = {name: value for name, value in self.__dict__.items() if value is not None and name not in absent}
        return {name: value for name, value in given.items() if (name, value) != ("holes", OPEN)}

    @property
    def counts(self) -> tuple[int, int, int]:
        """`deepsdf`'s sample counts near the surface, uniform, and on the surface; `count` in all."""
        count = int(self.count or 0)
        on = round(self.surface * count)
        uniform = min(round(self.uniform * count), count - on)
        return count - uniform - on, uniform, on

    @classmethod
    def of(cls, **given: Unpack[SampleKeywords]) -> SampleParams:
        """The parameters from options or keywords, `sigma` also as text or a single number. Raises UsageError for
        values out of range."""
        parameters: dict[str, Any] = {**given}
        return cls(**parameters)


def _gap_for(sign: str, gap: float | str | None) -> float | str | None:
    """The gap for a sign: for a solid the default if None. Raises UsageError for one out of range, or with another
    sign."""
    if gap is None:
        return GAP if sign in SOLIDS else None
    found = parse_gap(gap)
    if sign not in SOLIDS:
        raise UsageError(f"--gap {found}: is for solids; add --sign {FLOOD}")
    return found


def check_gap(gap: object) -> None:
    """Raises UsageError for anything but a radius in range, and `auto`."""
    if gap != AUTO and not GAPS[0] <= real(gap) <= GAPS[1]:
        raise UsageError(f"--gap {gap}: use a fraction of the diagonal from {GAPS[0]:g} to {GAPS[1]:g}, or {AUTO}")


def parse_gap(gap: str | float) -> float | str:
    """A gap from text or a number. Raises UsageError for one out of range."""
    found = _number(gap) if isinstance(gap, str) and gap != AUTO else gap
    check_gap(gap if found != found else found)
    return found


def check_holes(holes: str) -> None:
    """Raises UsageError unless holes are in HOLES."""
    if holes not in HOLES:
        raise UsageError(f"--holes {holes}: use {', '.join(HOLES)}")


def check_sign(sign: str) -> str:
    """The sign. Raises UsageError for an unknown one, and for `flood`, which is for builds."""
    if sign not in SIGNS:
        raise UsageError(f"--sign {sign}: use {', '.join(SIGNS)}")
    return sign


def refuse_flood(params: BuildParams, use: str) -> None:
    """Raises UsageError for `flood` and `inside`. use: the refused use, in plural."""
    if params.sign in SOLIDS:
        remedy = "solidify the mesh first, and use the result" if params.sign == FLOOD else "use another sign"
        raise UsageError(f"--sign {params.sign}: not for {use}; {remedy}")


def check_flag(name: str, value: object) -> None:
    """Raises UsageError for anything but True and False."""
    if value not in (True, False):
        raise UsageError(f"{name} {value}: use True or False")


def check_tolerance(tolerance: float | None) -> None:
    """Raises UsageError for an impossible tolerance."""
    if tolerance is not None and not 0 < real(tolerance) < 1:
        raise UsageError(f"--tolerance {tolerance}: use a fraction of the diagonal between 0 and 1")


def check_scale(scale: float | None, units: str | None) -> None:
    """Raises UsageError for an impossible factor, an unknown unit, and both together."""
    if scale is not None and not LENGTHS[0] < real(scale) < LENGTHS[1]:
        raise UsageError(f"--scale {scale}: use a factor above 0, as 0.001 for millimetres to metres")
    if units is not None and units not in tuple(UNITS):
        raise UsageError(f"--units {units}: use {', '.join(UNITS)}")
    if scale is not None and units is not None:
        raise UsageError("--scale and --units both set the field's unit; use one of them")


def check_why(octree: str) -> None:
    """Raises UsageError for an octree whose cells are not split for causes of their own."""
    if octree != "adaptive":
        raise UsageError(f"--why: not with --octree {octree}, which splits cells for their triangles alone")


def parse_share(share: str | float | None) -> float:
    """A share from 0 to 10, also from text: `5%`; None: PROVE_LEAVES. Raises UsageError for anything else."""
    if share is None:
        return PROVE_LEAVES
    number = share.removesuffix("%") if isinstance(share, str) else share
    found = _number(number) / (100 if number != share else 1)
    if not 0 <= found <= 10:
        raise UsageError(f"--prove-leaves {share}: use a share from 0% to 1000%, as 5%")
    return found


def parse_sigma(sigma: str | float | Sequence[float]) -> tuple[float, ...]:
    """Standard deviations from one number, several, or comma-separated text. Raises UsageError for anything else."""
    given: Any = sigma.split(",") if isinstance(sigma, str) else sigma
    several = isinstance(given, Iterable) and not math.isfinite(real(given))
    values = list(given) if several else [given]
    found = tuple(_number(value) for value in values)
    wrong = [str(value) for value, number in zip(values, found, strict=True) if not 0 < number <= MOST_SIGMA]
    if wrong or not found:
        among = f" in {','.join(map(str, values))}" if len(values) > 1 else ""
        named = (wrong or [""])[0] or "''"
        raise UsageError(
            f"--sigma {named}{among}: use numbers above 0, up to {MOST_SIGMA:,.0f}, comma-separated, as in 0.05,0.0158"
        )
    return found


def _number(value: Any) -> float:
    """A number, also from text; NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def parse_domain(domain: str | Sequence[float]) -> tuple[float, float, float, float]:
    """The four numbers that define a cube, also from text. Raises UsageError for anything else."""
    numbers = domain.split(",") if isinstance(domain, str) else domain
    try:
        x, y, z, length = (float(number) for number in numbers)
    except (TypeError, ValueError):
        given = ",".join(map(str, numbers)) if isinstance(numbers, list | tuple) else domain
        raise UsageError(f"--domain {given}: use four numbers: X,Y,Z of the lower corner, and the edge") from None
    if not (LENGTHS[0] < length < LENGTHS[1] and max(abs(x), abs(y), abs(z)) <= MOST_AWAY * length):
        raise UsageError(
            f"--domain {x:g},{y:g},{z:g},{length:g}: use an edge between {LENGTHS[0]:g} and {LENGTHS[1]:g}, and a "
            f"corner within {MOST_AWAY:g} edges of the origin"
        )
    return x, y, z, length


def parse_size(size: int | str | None) -> int | None:
    """Bytes from a number or from text such as `800M`, `4G`, `2.5GiB`; None for None. Raises UsageError for anything
    else."""
    if size is None:
        return None
    units = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
    word = str(size).strip().upper().removesuffix("B")
    number = word.rstrip("KMGTI")
    try:
        count = float(number) * units[word[len(number) :]]
    except (ValueError, KeyError):
        count = 0.0
    if not 1 <= count < 2**60:
        raise UsageError(f"--max-memory {size}: use a size like 800M or 4G")
    return int(count)


def _unit_for(max_error: float, unit: float | None, tolerance: float) -> float | None:
    """The unit that makes the tolerance `max_error`. Raises UsageError if both are given, or for an impossible
    length."""
    if unit is not None:
        raise UsageError("--max-error and --unit both set the unit; use one of them")
    possible = 0 < real(tolerance) < 1  # others are refused later
    most = LENGTHS[1] * tolerance if possible else LENGTHS[1]
    if not 0 < real(max_error) < most:
        raise UsageError(f"--max-error {max_error}: use a length above 0 and below {most:g}, in the mesh's units")
    return max_error / tolerance if possible else None


def depth_for_sheet(thickness: float, diagonal: float) -> int:
    """The level whose cells resolve a sheet. thickness: in diagonals; diagonal: in domain edges."""
    return math.ceil(math.log2(1 / (SHEET_CELL * thickness * diagonal)))
