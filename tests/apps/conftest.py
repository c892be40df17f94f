"""What all tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, commands in this process print no line about how long they take."""
    monkeypatch.setattr("sdfcli.cli.output.PERIOD", 3600.0)
