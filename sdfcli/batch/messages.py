"""Settings and outcomes of builds, as JSON carries them between processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdfcli.errors import SdfError
from sdfcli.runtime.remote import shown


@dataclass(frozen=True)
class Settings:
    """Settings of all meshes of a batch.

    parameters     those of BuildParams.
    nearest        the triangle nearest to every corner is kept.
    previous       the file of an earlier frame's field.
    force          files that exist are replaced.
    skip_existing  a field that is there already, from the same mesh with the same parameters, is left alone. Without
                   `force` any other file under its name is an error.
    picture        outcomes have a thumbnail.
    why            the cause of every leaf is kept.
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
"""input, output, status (`ok`, `skipped` or `failed`), exit_code; and `error`, or the facts of the field."""


def failure(mesh: str, output: str | None, error: SdfError) -> Outcome:
    """The outcome of a failed build."""
    return {
        "input": shown(mesh),
        "output": output and shown(output),
        "status": "failed",
        "exit_code": error.exit_code,
        "error": shown(" ".join(str(error).split())),
    }
