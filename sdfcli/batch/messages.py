"""Settings and outcomes of builds, passed between processes as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdfcli.errors import SdfError
from sdfcli.runtime.remote import shown


@dataclass(frozen=True)
class Settings:
    """Settings for all meshes in a batch.

    parameters     fields of BuildParams.
    nearest        store the nearest triangle of every corner.
    previous       file with an earlier frame's field.
    force          replace existing files.
    skip_existing  skip a mesh whose output is its field with the same parameters. Any other existing file is an error
                   unless `force` is set.
    picture        add a thumbnail to outcomes.
    why            store the cause of every leaf.
    """

    parameters: dict[str, Any]
    device: str = "auto"
    threads: int | None = None
    max_memory: int | None = None
    nearest: bool = False
    previous: str | None = None
    force: bool = False
    skip_existing: bool = False
    picture: bool = False
    why: bool = False


Outcome = dict[str, Any]
"""input, output, status (`ok`, `skipped` or `failed`), exit_code; and `error`, or the field's facts."""


def failure(mesh: str, output: str | None, error: SdfError) -> Outcome:
    """Outcome of a failed build."""
    return {
        "input": shown(mesh),
        "output": output and shown(output),
        "status": "failed",
        "exit_code": error.exit_code,
        "error": shown(" ".join(str(error).split())),
    }
