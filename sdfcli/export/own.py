"""sdfcli's own format, in the version that it writes: see docs/reference/file.md."""

from __future__ import annotations

from pathlib import Path

from sdfcli.field.field import Field
from sdfcli.field.store import write


def write_field(path: Path, field: Field) -> dict[str, str]:
    """Writes a field. Returns the `content_sha256` in the file."""
    return {"content_sha256": write(field, path)}
