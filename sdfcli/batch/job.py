"""One mesh's field or samples into a file, unless they exist there."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

from sdfcli.backend.overflow import overflow
from sdfcli.backend.select import first_device
from sdfcli.batch.check import check_for
from sdfcli.batch.messages import Outcome, Settings, failure
from sdfcli.batch.sampling import sample_into
from sdfcli.errors import CheckFailedError, InputError, SdfError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.schema import INFO, is_complete
from sdfcli.field.store import load
from sdfcli.mesh.load import load_placed
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import VERDICTS
from sdfcli.pipeline import Helpers, build_field
from sdfcli.runtime import remote
from sdfcli.runtime.memory import as_sdf_error


def outcome_of(mesh: str, output: str, settings: Settings) -> Outcome:
    """`build_into`, or `check_mesh`; an exception becomes a failed outcome."""
    try:
        return check_mesh(mesh, settings) if settings.check else build_into(mesh, output, settings)
    except Exception as error:
        return failure(mesh, output, as_sdf_error(error, mesh))


def build_into(
    mesh: str,
    output: str,
    settings: Settings,
    progress: Callable[[str], None] = lambda _: None,
    helpers: Helpers | None = None,
) -> Outcome:
    """Builds a field, or draws samples, into a file, or finds them there. Mesh and output may be remote: see
    runtime/remote.py. helpers: as for `build`.

    Raises the errors of `pipeline.build` and `Field.save`, or of `sample_into`, and UsageError if the file holds
    another field.
    """
    if remote.is_remote(mesh):
        progress("fetching")
    with remote.local_input(mesh) as source, remote.local_output(output) as target:
        with overflow(Path(target).absolute().parent):
            if settings.samples is not None:
                outcome = sample_into(source, Path(target), settings, settings.samples, progress)
            else:
                outcome = _build_here(source, Path(target), settings, progress, helpers)
        if remote.is_remote(output):
            progress("sending")
    named = {"input": remote.shown(mesh), "output": remote.shown(output)}
    return {**outcome, **named, **_required(named["input"], outcome, settings.require)}


def check_mesh(mesh: str, settings: Settings) -> Outcome:
    """Checks a mesh. Raises the errors of `check_for`."""
    with remote.local_input(mesh) as source:
        report: Outcome = {**check_for(source, settings.params, settings)}
    shown = remote.shown(mesh)
    unit = {} if settings.params.unit is None else {"unit": settings.params.unit}
    return {"input": shown, "status": "ok", **unit, **_required(shown, report, settings.require), **report}


def _required(mesh: str, facts: Outcome, require: str | None) -> Outcome:
    """Exit code, and `error` for a verdict worse than required, or a tolerance missed or not proven."""
    faults = []
    if require is not None and VERDICTS.index(facts["verdict"]) > VERDICTS.index(require):
        faults.append(f"{facts['verdict']}, worse than {require}")
    if require is not None and facts.get("error_limit"):
        unit = facts.get("unit") or facts["health"]["diagonal"]
        far, allowed = (f"{facts[name] * unit:.4g}" for name in ("max_error", "tolerance"))
        faults.append(f"the error {far} misses the tolerance {allowed}, in the mesh's units")
    proven = facts.get("proven_error")
    if require is not None and "proven_error" in facts and (proven is None or proven > facts["tolerance"]):
        faults.append("the error is not proven to be within the tolerance")
    if not faults:
        return {"exit_code": 0}
    return {"exit_code": CheckFailedError.exit_code, "error": f"{mesh}: {'; '.join(faults)}"}


def _build_here(
    mesh: str, target: Path, settings: Settings, progress: Callable[[str], None], helpers: Helpers | None
) -> Outcome:
    if settings.skip_existing and os.path.exists(target):
        progress("comparing with the field that is there")
        given = load_placed(mesh, settings.params)
        found = _same_field(target, given, settings)
        if found is not None:
            return {**outcome_of_field(mesh, target, "skipped", found, settings), "notes": given.notes}
    previous = _earlier(settings.previous) if settings.previous else None
    field = build_field(mesh, settings.params, settings, progress, previous, helpers)
    progress("writing")
    start = time.perf_counter()
    try:
        field.save(target, settings.force)
    except UsageError:
        if not (settings.skip_existing and _is_there(target, field)):
            raise
        return {**outcome_of_field(mesh, target, "skipped", field, settings), "notes": field.run["notes"]}
    seconds = dict(field.run["seconds"])
    seconds["write"] = time.perf_counter() - start
    seconds["total"] = seconds.pop("total") + seconds["write"]
    return {
        **outcome_of_field(mesh, target, "ok", field, settings),
        "notes": field.run["notes"],
        "previous_used": field.run["previous"],
        "device": field.run["device"],
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }


def _is_there(path: Path, field: Field) -> bool:
    """Whether another process has written the same field in the meantime."""
    try:
        found = load(path)
        found._check()
    except InputError:
        return False
    return found.content_sha256 == field.content_sha256 and found.info == field.info


@functools.cache
def _earlier(path: str) -> Field:
    return load(path)


def _same_field(path: Path, mesh: Mesh, settings: Settings) -> Field | None:
    """The field in a file if a build would give the same; None for another field that may be replaced.

    Raises UsageError for another field that may not be replaced.
    """
    try:
        field = load(path)
        field._check()
        other = _difference(field, mesh, settings)
    except InputError as error:
        field, other = None, str(error)
    else:
        other = other and f"{path}: exists, and {other}"
    if other and not settings.force:
        raise UsageError(f"{other}; add --force to rebuild it, while fields that are the same are skipped")
    return None if other else field


def _difference(field: Field, mesh: Mesh, settings: Settings) -> str | None:
    """Describes how a field differs from a build's result; None if it does not."""
    if not is_complete(field.info):
        return "another version of sdfcli wrote it"
    if field.info["mesh"]["sha256"] != mesh.sha256:
        return "was built from another mesh"
    made = field.info["parameters"]
    wanted = settings.params.resolved(mesh.unit / mesh.domain.length)
    if made != wanted:
        names = [name for name in {**wanted, **made} if made.get(name) != wanted.get(name)]
        other = [f"{name} {made.get(name)}, not {wanted.get(name)}" for name in names]
        return f"was built with other parameters ({', '.join(other)})"
    if field.nearest is None and settings.keep_nearest:
        return "was built without --nearest"
    if field.leaf_cause is None and settings.why:
        return "was built without --why"
    if field.leaf_bound is None and settings.prove:
        return "was built without --prove"
    certificate = field.info.get("certificate")
    if certificate and certificate["more_leaves"] and not settings.prove:
        return "was built with --prove, which split more leaves"
    if certificate and settings.prove and certificate["most_leaves"] != settings.prove_leaves:
        return f"was built with --prove-leaves {certificate['most_leaves']:.9g}, not {settings.prove_leaves:.9g}"
    return None


def outcome_of_field(mesh: str, target: Path, status: str, field: Field, settings: Settings) -> Outcome:
    """Outcome for a mesh whose field is in a file, with complete metadata (see schema.is_complete)."""
    info = {name: field.info[name] for name in INFO if name in field.info}
    parameters, health = info.pop("parameters"), info.pop("mesh")
    outcome = {
        "input": mesh,
        "output": str(target),
        "status": status,
        "exit_code": 0,
        **{name: health[name] for name in ("triangles", "vertices", "watertight")},
        "health": health,
        **{name: parameters[name] for name in ("octree", "tolerance", "unit") if name in parameters},
        **info,
        "leaves": field.leaves,
        "corners": field.corners,
        "bytes": target.stat().st_size,
        "content_sha256": field.content_sha256,
    }
    if settings.picture:
        from sdfcli.batch.thumbnail import thumbnail

        with contextlib.suppress(SdfError):  # a field without a surface is valid
            outcome["picture"] = thumbnail(field, first_device(settings.device), settings.threads)
    if settings.pages:
        from sdfcli.batch.field_page import write_page

        outcome["page"] = str(write_page(target, field, settings.force))
    return outcome
