"""Fields: arrays, evaluation, files."""

from sdfcli.field.field import Field

__all__ = ["Field"]
