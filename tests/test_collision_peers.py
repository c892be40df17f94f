"""tools/collision_peers.py finds nothing wrong, and what is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import collision_peers
import numpy as np
import pytest
import trimesh

import shapes
from sdfcli.query.contacts import contacts


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    paths = []
    for name, (vertices, faces) in (
        ("moving", shapes.moved(shapes.torus(16, 9), 0.3)),
        ("fixed", shapes.star(np.random.default_rng(1), 2)),
    ):
        paths.append(str(tmp_path / f"{name}.ply"))
        trimesh.Trimesh(vertices, faces, process=False).export(paths[-1])
    monkeypatch.setattr(sys, "argv", ["collision_peers.py", *paths, "--tolerance", "0.01", *words])
    monkeypatch.delitem(collision_peers.LIBRARIES, "coal")  # the tests' environment has one of them
    return collision_peers.main()


def test_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, tmp_path, "--poses", "40", "--repeat", "1", "--check", "--points", "2000") == 0
    printed = capsys.readouterr().out
    assert printed.count("poses/s") == 2 * 4
    assert printed.count("below the bounds 0,") == 2
    assert printed.endswith("wrong: 0\n")


def test_a_wrong_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def turned(*given: Any, **more: Any) -> Any:
        found = contacts(*given, **more)
        return replace(found, verdict=2 - found.verdict)

    monkeypatch.setattr(collision_peers, "contacts", turned)
    assert run(monkeypatch, tmp_path, "--poses", "20", "--repeat", "1") == 1
    assert "wrong: 0" not in capsys.readouterr().out


def test_bounds_that_are_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def shifted(*given: Any, **more: Any) -> Any:
        found = contacts(*given, **more)
        return replace(found, low=found.low + 0.3, high=found.high + 0.3)

    monkeypatch.setattr(collision_peers, "contacts", shifted)
    assert run(monkeypatch, tmp_path, "--poses", "20", "--repeat", "1", "--check", "--points", "2000") == 1
