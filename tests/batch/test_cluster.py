"""Outcomes from Dask workers, which get absolute paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdfcli.batch.cluster import _absolute, _as_named
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import failure
from sdfcli.errors import InputError


def test_messages_name_files_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = Job("scans/a", "scans/a.h5")
    sent = _absolute(job)
    assert sent == Job(str(tmp_path / "scans/a"), str(tmp_path / "scans/a.h5"))
    for number, name in enumerate(job):
        outcome = failure(*sent, InputError(f"{sent[number]}: cannot be used"))
        found = _as_named({**outcome, "notes": [f"{sent[number]}: noted"]}, job)
        assert (found["input"], found["output"]) == job
        assert (found["error"], found["notes"]) == (f"{name}: cannot be used", [f"{name}: noted"])


def test_addresses_and_absolute_names_stay() -> None:
    job = Job("https://host/a.ply", "/fields/a.h5")
    assert _absolute(job) == job
    found = _as_named(failure(*job, InputError("https://host/a.ply and /fields/a.h5")), job)
    assert found["error"] == "https://host/a.ply and /fields/a.h5"
