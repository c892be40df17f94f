"""Facts about a mesh and its field as text: health, verdict, thin walls, tolerance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sdfcli.cli.output import error_text
from sdfcli.params import FEW_LOST, LEAST_THIN, MAX_DEPTH, WIDEST_SHEET

FAULTS = (
    "open_edges",
    "non_manifold_edges",
    "inconsistent_edges",
    "degenerate_faces",
    "duplicate_faces",
    "inverted_shells",
    "crossing_faces",
)

JUMPS = "where the sign jumps across the mesh's holes; close them, or use --sign none"
ERROR_LIMITS = {
    "jumps": f"missed {JUMPS}",
    "depth": "missed: the finest leaves are too large; try a larger --depth",
    "samples": "missed between the test points of a leaf; try a smaller one",
    "triangles": "not enforced by --octree bvh",
}


def kept_text(limit: str | None) -> str:
    """Whether the tolerance was kept, and if not, why."""
    return "kept" if limit is None else ERROR_LIMITS.get(limit, "missed")


def place_text(point: Iterable[float], digits: int = 4) -> str:
    """A point's coordinates as text."""
    return ", ".join(f"{x:.{digits}g}" for x in point)


def solid_text(solid: dict[str, Any], unit: float, name: str) -> str:
    """The flood's radius, and the solid's volume."""
    gap = length_text(solid["gap"] / unit, unit, name)
    return f"the outside is what a ball of radius {gap} reaches; volume {solid['volume']:.6g}"


def holes_text(holes: dict[str, Any]) -> str:
    """Number and size of the holes that were closed, in the mesh's units."""
    if not holes["count"]:
        return "none to close"
    many, area = f"{holes['count']:,} hole{'' if holes['count'] == 1 else 's'}", error_text(holes["area"])
    return f"{many} closed by {holes['faces']:,} faces; the widest {error_text(holes['widest'])}, area {area} in all"


def leaves_text(count: int) -> str:
    """A leaf count as text."""
    return f"{count:,} lea{'f' if count == 1 else 'ves'}"


def health_text(health: dict[str, Any]) -> str:
    """A mesh's state in a few words."""
    from sdfcli.mesh.health import count_text

    faults = [count_text(health[key], key) for key in FAULTS if health.get(key)]
    return ", ".join(["watertight" if health["watertight"] else "not watertight", *faults])


def frames_text(counts: dict[str, int]) -> str:
    """Frame counts by sign or verdict."""
    return ", ".join(f"{name} ({count:,} frame{'s' if count > 1 else ''})" for name, count in counts.items())


VERDICTS = {
    "good": "the mesh is closed, oriented, and without faults",
    "usable": "the mesh has faults, but a clear inside",
    "doubtful": "the mesh's inside is uncertain",
}


UNSIGNED = {
    "good": "the mesh is closed, oriented, and without faults",
    "usable": "the mesh has faults, but none that affects distances without signs",
    "doubtful": "the mesh encloses nothing, so its distances have no signs",
}
"""Without signs: on request, or, if doubtful, as none are possible."""


def verdict_text(report: dict[str, Any]) -> str:
    """The mesh's verdict in words, with the certainty of its inside if the field has signs."""
    verdict, confidence, lost = report["verdict"], report["sign_confidence"], report["sheets"]["lost"] or 0.0
    meanings = UNSIGNED if report["sign"] == "none" else VERDICTS
    words = f"{verdict}: {meanings[verdict]}" if verdict in meanings else str(verdict)
    if lost > FEW_LOST:
        words = f"{verdict}: thin walls or gaps are lost"
    if confidence is None:
        return words
    return f"{words} (the mesh's inside is certain at {confidence:.1%} of the points near the surface)"


COARSE = 0.1
"""Maximum tolerance, in mesh diagonals, at which `--thin` keeps walls (0.2 to 0.4 on test meshes). Above it few cells,
or the root alone, meet the tolerance, and walls are not searched for in cells larger than the part."""

FRACTIONS = ("tolerance", "max_error", "rms_error", "proven_error")
"""Fractions in reports."""
SHEETS = ("thinnest", "needed_thin")
"""Those in `sheets`."""


def lengths_of(report: dict[str, Any], unit: float) -> dict[str, float | None]:
    """A report's fractions as lengths in the mesh's units, by name. unit: in the mesh's units."""
    found = {name: report[name] for name in FRACTIONS if name in report}
    found |= {name: report.get("sheets", {}).get(name) for name in SHEETS if "sheets" in report}
    return {name: None if value is None else value * unit for name, value in found.items()}


def units_text(mesh: dict[str, Any]) -> str:
    """The unit of all lengths. mesh: as in a field's info."""
    return f"in {mesh['units']}, as are all lengths" if mesh.get("units") else "in the mesh's units, as are all lengths"


def tessellation_rows(mesh: dict[str, Any]) -> list[tuple[str, str]]:
    """A table row for triangles that approximate a file's curved surfaces; none for a file of triangles. mesh: as in a
    field's info."""
    within = mesh.get("deflection")
    words = "of the file's curved surfaces, beside the error, which is relative to the triangles"
    return [] if within is None else [("tessellated", f"within {error_text(within)} {words}")]


def tessellation_text(mesh: dict[str, Any]) -> str:
    """The same for a line, after an error."""
    within = mesh.get("deflection")
    return "" if within is None else f", tessellated within {error_text(within)}"


def length_text(fraction: float, unit: float, name: str) -> str:
    """A length in the mesh's units, then as a fraction. unit: in the mesh's units; name: see `unit_name`."""
    return f"{error_text(fraction * unit)} ({error_text(fraction)} of the {name})"


def errors_text(report: dict[str, Any], unit: float, name: str) -> str:
    """Largest and root-mean-square error with their sample count; unit, name: as for `length_text`."""
    count = f"{report['error_samples']:,} " if "error_samples" in report else ""
    rms = f"rms {error_text(report['rms_error'] * unit)} ({error_text(report['rms_error'])})"
    return f"{length_text(report['max_error'], unit, name)}, largest of {count}samples; {rms}"


UNPROVEN = {
    "above_tolerance": "above the tolerance",
    "not_certified": "not certified",
    "jump": "at a jump of the sign",
    "open_hole": "at open holes",
}
"""Leaves by why their error is not proven to be within the tolerance, in `certificate`."""
UNBOUNDED = ("jump", "open_hole")
"""Those among them without a bound."""

PROOF_LIMITS = {
    "depth": "the finest leaves are too large; try a larger --depth",
    "leaves": "more would be split with a larger --prove-leaves",
    "rounds": "splits did not suffice",
    "octree": "not enforced by --octree bvh",
}


def at_most_text(fraction: float, unit: float, name: str) -> str:
    """As `length_text`, with three digits, rounded up."""
    return f"{rounded_up(fraction * unit):.3g} ({rounded_up(fraction):.3g} of the {name})"


def rounded_up(value: float) -> float:
    """A number at most 1 % above a value, with three significant digits."""
    digits, _, exponent = f"{value:.2e}".partition("e")
    found = float(f"{digits}e{exponent}")
    return found if found >= value else float(f"{round(100 * float(digits)) + 1}e{int(exponent) - 2}")


def rounded_down(value: float) -> float:
    """A number at most 1 % below a value, with three significant digits."""
    digits, _, exponent = f"{value:.2e}".partition("e")
    found = float(f"{digits}e{exponent}")
    return found if found <= value else float(f"{round(100 * float(digits)) - 1}e{int(exponent) - 2}")


def proof_text(report: dict[str, Any], unit: float, name: str) -> str:
    """The largest proven error, and the leaves that are not certified; unit, name: as for `length_text`."""
    error, proof = report["proven_error"], report["certificate"]
    where = "elsewhere" if any(proof[reason] for reason in UNBOUNDED) else "everywhere"
    words = "no bound" if error is None else f"error at most {at_most_text(error, unit, name)} {where} (proven)"
    left = [f"{leaves_text(proof[reason])} {why}" for reason, why in UNPROVEN.items() if proof[reason]]
    if proof["limit"] in PROOF_LIMITS and len(left) > 0:
        left[-1] += f": {PROOF_LIMITS[proof['limit']]}"
    if proof["more_leaves"]:
        left.append(f"{leaves_text(proof['more_leaves'])} added")
    return "; ".join([*left[::-1], words] if where == "elsewhere" else [words, *left])


def unit_name(parameters: dict[str, Any]) -> str:
    """Length unit of a build's errors and tolerances: `unit` or `diagonal`."""
    return "unit" if "unit" in parameters else "diagonal"


def coarse_note(tolerance: float, diagonal: float) -> str | None:
    """A note on a tolerance above COARSE diagonals; None below it. Lengths in the mesh's units."""
    share = tolerance / diagonal
    if share <= COARSE:
        return None
    amount = f"{share:.0%} of" if share < 2 else f"{float(f'{share:.2g}'):,.12g} times"
    return (
        f"the tolerance, {error_text(tolerance)}, is {amount} the mesh's diagonal, {error_text(diagonal)}: almost "
        "always a unit mistake; see --max-error and --scale"
    )


def sheets_text(
    sheets: dict[str, Any],
    tolerance: float,
    unit: float,
    name: str,
    diagonal: float,
    lost: str = "lost",
    signed: bool = False,
    octree: str = "adaptive",
) -> str:
    """Thinnest wall, share of the surface whose walls or gaps are lost, and options that would keep them.

    unit, name: as for `length_text`. diagonal: the mesh's. signed: whether the field has signs, for walls that were not
    measured.
    """
    if sheets["lost"] is None:
        return "not measured" if signed else "not resolved: the field has no signs"
    if sheets["thinnest"] is None:
        words = f"none below {length_text(WIDEST_SHEET * tolerance, unit, name)}"
    else:
        words = f"{length_text(sheets['thinnest'], unit, name)} at the thinnest"
    if not sheets["lost"]:
        return words
    share, needed, depth = sheets["lost"], sheets["needed_thin"], sheets["needed_depth"]
    adaptive = "" if octree == "adaptive" else "--octree adaptive "
    if depth > MAX_DEPTH:
        remedy = "finer than the deepest octree"
    elif tolerance * unit > COARSE * diagonal or needed < LEAST_THIN:  # cells too large to show walls, or no --thin
        error = float(f"{0.95 * min(needed * unit, COARSE * diagonal):.1e}")  # two digits, rounded down
        remedy = f"{adaptive}--max-error {error:.2g} keeps them"
    else:
        remedy = f"{adaptive}--thin {needed:.2g} --depth {depth} keeps them"
    return f"{words}; walls or gaps {lost} at {share:.2%} of the surface: {remedy}"
