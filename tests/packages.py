"""Packages that add commands, as pip would install them, and `sdfcli` in a process that finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = "import sys; sys.argv[0] = 'sdfcli'; from sdfcli.__main__ import main; main()"


def install(source: Path, target: Path) -> str:
    """Writes what pip makes of a package's pyproject.toml into a folder; returns the PYTHONPATH that finds both."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    folder = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    facts["Summary"] = project["description"]
    (folder / "METADATA").write_text("".join(f"{name}: {fact}\n" for name, fact in facts.items()))
    lines = [f"[{group}]\n{listed(points)}\n" for group, points in project["entry-points"].items()]
    (folder / "entry_points.txt").write_text("".join(lines))
    return os.pathsep.join([str(target), str(source)])


def listed(points: dict[str, str]) -> str:
    return "".join(f"{name} = {target}\n" for name, target in points.items())


def run(words: str, path: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`sdfcli WORDS` in a process of its own, for which PYTHONPATH is `path`."""
    env = os.environ | {"PYTHONPATH": path, "COLUMNS": "200"}
    command = [sys.executable, "-c", PROGRAM, *words.split()]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
