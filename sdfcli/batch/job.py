"""One mesh of a batch: its field is built, or found."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

from sdfcli.batch.terms import Outcome, Settings, failure
from sdfcli.batch.thumbnail import thumbnail
from sdfcli.errors import InputError, OutOfMemoryError, SdfError, UsageError
from sdfcli.field import Field
from sdfcli.mesh import Mesh, load_mesh
from sdfcli.params import BuildParams
from sdfcli.pipeline import build
from sdfcli.store import load

TOLD = (
    "mesh",
    "parameters",
    "verdict",
    "sign",
    "sign_reason",
    "sign_confidence",
    "depth",
    "jump_leaves",
    "max_error",
    "rms_error",
    "error_limit",
)
"""What a field's file says of itself that outcomes tell."""


def outcome_of(mesh: str, output: str, settings: Settings) -> Outcome:
    """Builds a field into a file. Failures become outcomes, too."""
    try:
        return build_into(mesh, output, settings)
    except SdfError as error:
        return failure(mesh, output, str(error), error.exit_code)
    except MemoryError:
        return failure(mesh, output, f"{mesh}: out of memory", OutOfMemoryError.exit_code)
    except Exception as error:
        return failure(mesh, output, f"{mesh}: internal error: {type(error).__name__}: {error}", SdfError.exit_code)


def build_into(mesh: str, output: str, settings: Settings, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Builds a field into a file, or finds it there.

    Raises what `pipeline.build` and `Field.save` raise, and UsageError for a file that is another field.
    """
    target, source = Path(output), mesh
    if settings.skip_existing and target.exists():
        progress("comparing with the field that is there")
        loaded = load_mesh(mesh)
        try:
            field = _same_field(target, loaded, settings)
        except (InputError, UsageError) as error:
            if not settings.force:
                raise UsageError(f"{error}; use --force to replace it") from error
        else:
            return _outcome(mesh, target, "skipped", field, settings)
    field = build(
        source,
        device=settings.device,
        threads=settings.threads,
        max_memory=settings.max_memory,
        progress=progress,
        previous=_earlier(settings.previous) if settings.previous else None,
        keep_nearest=settings.nearest or settings.previous is not None,
        **settings.parameters,
    )
    progress("writing")
    start = time.perf_counter()
    field.save(target, settings.force)
    seconds = dict(field.run["seconds"])
    seconds["write"] = time.perf_counter() - start
    seconds["total"] = seconds.pop("total") + seconds["write"]
    return {
        **_outcome(mesh, target, "ok", field, settings),
        "previous_used": field.run["previous"],
        "device": field.run["device"],
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }


@functools.cache
def _earlier(path: str) -> Field:
    return load(path)


def _same_field(path: Path, mesh: Mesh, settings: Settings) -> Field:
    """The field in a file. Raises UsageError where a build would make another one, InputError where it is damaged."""
    field = load(path)
    params = BuildParams(**settings.parameters)
    wanted = {**params.as_dict(), "depth": params.depth_limit(mesh.diagonal / mesh.domain.length)}
    if not field.info.keys() >= set(TOLD):
        raise UsageError(f"{path}: exists, and another version of sdfcli wrote it")
    made = field.info["parameters"]
    if field.info["mesh"]["sha256"] != mesh.sha256:
        raise UsageError(f"{path}: exists, and was built from another mesh")
    if made != wanted:
        other = [f"{name} {made.get(name)}, not {value}" for name, value in wanted.items() if made.get(name) != value]
        raise UsageError(f"{path}: exists, and was built with other parameters ({', '.join(other)})")
    if field.nearest is None and (settings.nearest or settings.previous is not None):
        raise UsageError(f"{path}: exists, and was built without --nearest")
    return field


def _outcome(mesh: str, target: Path, status: str, field: Field, settings: Settings) -> Outcome:
    info = {name: field.info[name] for name in TOLD}
    parameters, health = info.pop("parameters"), info.pop("mesh")
    outcome = {
        "input": mesh,
        "output": str(target),
        "status": status,
        "exit_code": 0,
        **{name: health[name] for name in ("triangles", "vertices", "watertight")},
        "health": health,
        **{name: parameters[name] for name in ("octree", "tolerance")},
        **info,
        "leaves": len(field.leaf_key),
        "corners": len(field.corner_key),
        "bytes": target.stat().st_size,
        "content_sha256": field.content_sha256,
    }
    if settings.picture:
        outcome["picture"] = thumbnail(field)
    return outcome
