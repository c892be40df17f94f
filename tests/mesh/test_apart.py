"""Readers in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdfcli.errors import DeviceError, InputError
from sdfcli.mesh.formats import apart
from sdfcli.mesh.load import load_mesh


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LIBRARIES", dict.fromkeys(apart.LIBRARIES, "no_such_library"))
    for suffix, extra in apart.EXTRAS.items():
        path = tmp_path / f"a{suffix}"
        path.write_text("")
        with pytest.raises(DeviceError, match=rf"not installed: pip install 'sdfcli\[{extra}\]'"):
            load_mesh(path)


def test_a_reader_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.step").write_text("")
    monkeypatch.setattr(apart.processes, "python", lambda module: ["sh", "-c", "kill -SEGV $$"])
    with pytest.raises(InputError, match=r"a\.step: its reader, cascadio, ended \(-11\)"):
        load_mesh(tmp_path / "a.step")
