"""The finished field: its arrays, its samples, its file."""

from sdfcli.field.field import Field

__all__ = ["Field"]
