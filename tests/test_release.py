"""What a release says in several places is the same in all: the version, and what the package needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def recipe() -> Any:
    return yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())


def test_the_version_of_the_source(project: Any, recipe: Any) -> None:
    [version] = re.findall(r'^ +__version__ = "(.+)"', (ROOT / "sdfcli/__init__.py").read_text(), re.MULTILINE)
    assert project["tool"]["setuptools_scm"]["fallback_version"] == version
    assert recipe["context"]["version"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version


def test_conda_asks_for_what_pip_asks_for(project: Any, recipe: Any) -> None:
    asked = recipe["requirements"]
    assert set(project["build-system"]["requires"]) <= {each.replace(" ", "") for each in asked["host"]}
    [(elsewhere, more)] = [(each["if"], each["then"]) for each in asked["run"] if isinstance(each, dict)]
    assert elsewhere == "not linux"
    names = {each.replace(" ", "") for each in asked["run"] if isinstance(each, str) and each != "python"}
    assert {*names, more.replace(" ", "") + "; sys_platform != 'linux'"} == set(project["project"]["dependencies"])
    assert recipe["build"]["python"]["entry_points"] == [f"sdfcli = {project['project']['scripts']['sdfcli']}"]


@pytest.mark.parametrize("name", ["ci", "release"])
def test_actions_are_pinned(name: str) -> None:
    """A tag of somebody else's may move."""
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    used = re.findall(r"uses: (.+)", text)
    assert used
    for each in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_jobs_that_may_write_install_nothing() -> None:
    """Whatever a package of others does, it has no token to do it with."""
    for name in ("ci", "release"):
        jobs = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())["jobs"]
        for job in jobs.values():
            text = yaml.safe_dump(job)
            writes = "write" in (job["permissions"] or {}).values()
            assert not (writes and re.search(r"pip |\.ci/run", text))
            assert not (writes and "setup-python" in text)


@pytest.mark.parametrize("name", ["wheels", "docs"])
def test_packages_of_a_release_have_hashes(name: str) -> None:
    text = (ROOT / f"tools/{name}.txt").read_text()
    pinned = re.split(r"\n(?=[a-z])", text)[1:]
    assert all(re.match(r"[\w.-]+==\S+( ;.*)? \\\n    --hash=sha256:", each) for each in pinned)
    wanted = (ROOT / f"tools/{name}.in").read_text().splitlines()
    names = {re.match(r"[\w.-]+", line)[0] for line in wanted if not line.startswith("#")}
    assert names <= {each.partition("==")[0] for each in pinned}


def test_registries_have_no_address() -> None:
    """Mirrors and proxies serve them, too; names are enough."""
    files = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "Dockerfile"]
    for path in [*files, *ROOT.glob("tools/*"), ROOT / "conda/recipe.yaml", ROOT / ".ci/run"]:
        if path.is_file():
            assert not re.search(r"pypi\.org|pythonhosted\.org|anaconda\.org", path.read_text()), path


def test_where_to_get_it() -> None:
    """Before the first release no page installs a published package, and one says how it is had instead."""
    released = "There has been no release yet" not in (ROOT / "CHANGELOG.md").read_text()
    assert ("Nothing has been released yet" in (ROOT / "docs/start/install.md").read_text()) != released
    if not released:
        for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
            published = re.search(
                r"install (-\S+ )*['\"]?sdfcli(==\S+)?['\"]?(?![\w\[/-])|rev: v\d|sdfcli@v\d", path.read_text()
            )
            assert not published, (path, published)
