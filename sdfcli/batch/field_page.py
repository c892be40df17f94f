"""The page beside a field's file, as `sdfcli view` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.field.field import Field


def page_of(field_file: str | Path) -> Path:
    """The name of the page beside a field's file."""
    return Path(field_file).with_suffix(".html")


def write_page(field_file: Path, field: Field, force: bool) -> Path:
    """Writes a field's page beside its file, unless it is there; returns its path. Raises UsageError if another file
    is, unless `force` is set."""
    from sdfcli.pictures.view.page import view_page

    path, view = page_of(field_file), view_page(field, name=field_file.stem)
    try:
        return view.save(path, force)
    except UsageError:
        if not (path.is_file() and path.read_bytes() == view.html.encode()):
            raise
        return path
