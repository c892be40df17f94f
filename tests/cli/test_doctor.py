"""`sdfcli doctor`."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from commands import run
from conftest import ROOT
from sdfcli.cli import doctor
from sdfcli.cli.app import app
from sdfcli.errors import DeviceError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdfcli.startup.driver.present", lambda: False)
    monkeypatch.setattr("sdfcli.startup.driver.device_count", lambda: 0)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


def problems() -> list[str]:
    done = invoke("--json")
    told: list[str] = json.loads(done.stdout)["problems"]
    assert done.exit_code == (6 if told else 0)
    assert done.stderr.splitlines() == [f"sdfcli: {each}" for each in told]
    return told


def test_report() -> None:
    done = run("doctor", env={"PATH": "", "SDFCLI_BUILD_DEPTH": "5"})
    assert done.returncode == 0, done.stderr
    for words in ("numpy ", "kernel cache", "SDFCLI_BUILD_DEPTH  5", "cpu ", "works, a small field in "):
        assert words in done.stdout
    told = json.loads(run("doctor", "--json").stdout)
    assert told["tested"][0]["device"] == "cpu"
    assert len({each["content_sha256"] for each in told["tested"]}) == 1
    assert told["packages"]["numpy"]


def test_packages_are_all_that_can_be_installed() -> None:
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {
        extra: [re.split(r"[\[>=<; ]", each)[0] for each in needed]
        for extra, needed in {"": project["dependencies"], **project["optional-dependencies"]}.items()
    }
    cupy = [*names.pop("cuda13"), *names.pop("cuda12")]
    assert [*doctor.CUPY] == [*cupy, "cupy"]
    needed = [each.split(">")[0] for each in project["dependencies"] if ";" not in each]
    assert [*doctor.NEEDED] == needed
    assert {extra: list(each) for extra, each in doctor.EXTRAS.items()} == {
        extra: each for extra, each in names.items() if extra not in ("", "test", "simulators", "docs", "dev")
    }


def test_a_device_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DeviceError("the compiled CPU kernels\ncannot be loaded")

    import_module("sdfcli.pipeline")  # or it would keep what is set here
    monkeypatch.setattr("sdfcli.backend.select_backend", refuse)
    assert problems() == ["cpu: DeviceError: the compiled CPU kernels cannot be loaded"]
    assert "FAILED: DeviceError" in invoke().stdout


def test_devices_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def tested(name: str, _: object) -> doctor.TestedDevice:
        values: dict[str, Any] = {"model": "one", "free_bytes": 1, "seconds": 1.0, "error": None}
        return doctor.TestedDevice(device=name, content_sha256=name[-1] * 64, **values)

    monkeypatch.setattr("sdfcli.startup.driver.device_count", lambda: 2)
    monkeypatch.setattr(doctor, "_tested", tested)
    assert problems() == ["fields differ: cpu uuuuuuuu, cuda:0 00000000, cuda:1 11111111; please report this"]


def test_settings_that_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDFCLI_BUILD_TOLERENCE", "0.1")
    monkeypatch.setenv("SDFCLI_BUILD_TOLERANCE", "0.1")
    monkeypatch.setenv("SDFCLI_BENCH_SCAN_REPEAT", "3")
    monkeypatch.setenv("SDFCLI_REQUIRE", "good")
    monkeypatch.setenv("SDFCLI_BUILLD_REQUIRE", "good")
    monkeypatch.setenv("SDFCLI_EMPTY", "")
    assert problems() == [
        "SDFCLI_BUILD_TOLERENCE: no such variable; did you mean SDFCLI_BUILD_TOLERANCE?",
        "SDFCLI_BUILLD_REQUIRE: no such variable; did you mean SDFCLI_BUILD_REQUIRE?",
        "SDFCLI_REQUIRE: no such variable; did you mean SDFCLI_BUILD_REQUIRE?",
    ]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SDFCLI_BUILD_TOLERANCE", "fine", "use a number"),
        ("SDFCLI_BUILD_DEPTH", "99", "use 1 to 16"),
        ("SDFCLI_BUILD_DEPTH", "abc", "use a whole number"),
        ("SDFCLI_SAMPLES_COUNT", "-4", "use a whole number from 1 to 2,147,483,648"),
        ("SDFCLI_SAMPLES_SIGMA", "0", "use numbers above 0, up to 1,000,000, comma-separated, as in 0.05,0.0158"),
        ("SDFCLI_SAMPLES_UNIFORM", "3", "use a share of the samples, from 0 to 1"),
        ("SDFCLI_SAMPLES_ANGLE", "200", "use degrees, from 1 to less than 180"),
        ("SDFCLI_VERIFY_TOLERANCE", "2", "use a fraction of the diagonal between 0 and 1"),
        ("SDFCLI_BUILD_FORCE", "maybe", "use 1 or 0, true or false"),
        ("SDFCLI_BUILD_KEEP_GOING", "maybe", "use 1 or 0, true or false"),
        ("SDFCLI_VERIFY_SAMPLES", "2", "use a whole number, 3 or more"),
        ("SDFCLI_DEVICE", "abacus", "use auto, cpu, cuda, cuda:N or cuda:0,1"),
        ("SDFCLI_THREADS", "x", "use a whole number, 1 or more"),
        ("SDFCLI_THREADS", "0", "use a whole number, 1 or more"),
    ],
)
def test_wrong_values_of_variables(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    monkeypatch.setenv(name, value)
    assert problems() == [f"{name}: {value}: {says}"]


@pytest.mark.parametrize(("name", "value"), [("BUILD_GAP", "0.01"), ("SAMPLES_GAP", "auto"), ("SAMPLES_ANGLE", "30")])
def test_values_for_use_with_another_option(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"SDFCLI_{name}", value)
    assert problems() == []


def test_variables_that_are_known() -> None:
    """All that the package reads, and those of the pages."""
    sources = [ROOT / "docs" / "guides" / "trust.md", *(ROOT / "sdfcli").rglob("*.py")]
    names = {name for each in sources for name in re.findall(r"[\"`](SDFCLI_[A-Z_]+[A-Z])[\"`]", each.read_text())}
    assert {"SDFCLI_CONFIG", "SDFCLI_THREADS", "SDFCLI_KERNEL_LIBRARY", "SDFCLI_MPS_CLIENTS"} < names
    given = dict.fromkeys([*sorted(names), "SDFCLI_QUIET"], "1") | {"SDFCLI_DEVICE": "cpu"}
    found: Any = {"config": None, "variables": given}
    assert [*doctor._settings_faults(found)] == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[build]\ndepth = 3\n[bench.scan]\nrepeat = 2\n", []),
        (
            'quiet = "no"\n[bild]\n[build]\ndepht = 3\nforce = 1\n[doctor]\njsn = true\n[bench.scan]\nrepaet = 2\n',
            [
                "[bild]: no such command; did you mean build?",
                "quiet = no: use true or false",
                "[build] depht: no such option; did you mean depth?",
                "[build] force = 1: use true or false",
                "[doctor] jsn: no such option; did you mean json?",
                "[bench.scan] repaet: no such option; did you mean repeat?",
            ],
        ),
        (
            '[build]\ntolerance = "fine"\ndepth = 99\nmax-memory = "much"\nrequire = "best"\ndevice = "abacus"\n'
            "[sequence]\nband = -1\n[query]\ndevice = 'cpu'\n[render]\nsize = 1e3\n",
            [
                "[build] tolerance = fine: use a number",
                "[build] depth = 99: use 1 to 16",
                "[build] max-memory = much: use a size like 800M or 4G",
                "[build] require = best: use good, usable, doubtful",
                "[build] device = abacus: use auto, cpu, cuda, cuda:N or cuda:0,1",
                "[sequence] band = -1: use a fraction of the diagonal, or of --unit, between 0 and 1",
            ],
        ),
        ("[bench]\nscan = 3\n", ["[bench] scan: no such option"]),
        ("[build\n", ["is not a TOML file: Expected ']' at the end of a table declaration (at line 1, column 7)"]),
        (None, ["cannot be read: No such file or directory"]),
    ],
)
def test_a_faulty_settings_file(
    text: str | None, faults: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fault is in the report, whatever the command."""
    path = tmp_path / "set.toml"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("SDFCLI_CONFIG", str(path))
    found = problems()
    assert sorted(found) == sorted(f"{path}: {each}" for each in faults)
    assert json.loads(invoke("--json").stdout)["config"] == str(path)


def test_a_driver_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdfcli.startup.driver.present", lambda: True)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert problems() == ["an NVIDIA driver is installed, but not CuPy: pip install 'sdfcli[cuda13]' (or [cuda12])"]


def test_no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert problems() == ["no temporary folder is writable: set TMPDIR"]


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDFCLI_BUILD_OUTPUT", "s3://user:secret@host/fields/")
    for words in ([], ["--json"]):
        assert "secret" not in invoke(*words).output
