"""`sdfcli profile`, with a program in place of Nsight Compute, and a backend in place of a GPU."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner, Result

from commands import reports, run
from sdfcli.apps.bench import ncu, thesis
from sdfcli.backend.cpu import CpuBackend
from sdfcli.cli.app import app
from sdfcli.errors import InputError
from sdfcli.spatial.binary import Traffic

HEADER = (
    '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
    '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"'
)
COUNTED = {
    "sdf_distance_baseline": (8_000_000, 1_000, 240_000_000, 3_000_000_000, 10.9, 80.0, 90.0),
    "sdf_distance_soa": (4_000_000, 500, 192_000_000, 2_400_000_000, 11.0, 81.0, 91.0),
    "sdf_distance_cct": (1_000_000, 2_000, 24_000_000, 120_000_000, 8.4, 82.0, 92.0),
    "sdf_distance_vectors": (6_000_000, 1_000, 60_000_000, 1_500_000_000, 10.9, 83.0, 93.0),
    "sdf_distance_deferred": (5_000_000, 1_000, 120_000_000, 1_000_000_000, 10.5, 84.0, 94.0),
    "sdf_distance_components": (16_000_000, 4_000, 216_000_000, 6_000_000_000, 11.0, 85.0, 95.0),
    "sdf_distance_packet": (500_000, 100, 12_000_000, 60_000_000, 30.6, 86.0, 96.0),
}
LONG = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
REFUSED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"


def rows(counted: dict[str, tuple[float, ...]] = COUNTED, grid: str = "(100, 1, 1)") -> str:
    """What ncu prints of these kernels: nanoseconds, sectors, requests."""
    lines = ["==PROF== Connected to process 7 (python3)", HEADER]
    for kernel, values in counted.items():
        for metric, unit, value in zip(
            ncu.METRICS, ("ns", "sector", "request", "sector", "", "%", "%"), values, strict=True
        ):
            fields = ("7", "python3", "127.0.0.1", f"{kernel}({kernel}_args)", "(128, 1, 1)", grid, "0", "9.0", "10")
            fields += ("Command line profiler metrics", metric, unit, f"{value / 2:,}", f"{2 * value:,}", f"{value:,}")
            lines.append(",".join(f'"{field}"' for field in fields))
    return "\n".join([*lines, ""])


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """fake_ncu(stdout, stderr, exit_code) is what ncu is from then on; returns the file that it writes its
    arguments to."""
    arguments = tmp_path / "arguments"

    def install(stdout: str = "", stderr: str = "", exit_code: int = 0) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "stdout").write_text(stdout)
        (folder / "stderr").write_text(stderr)
        quoted = shlex.quote(str(folder))
        script = f"printf '%s\\n' \"$@\" > {shlex.quote(str(arguments))}\n"
        script += f"cat {quoted}/stdout\ncat {quoted}/stderr >&2\nexit {exit_code}\n"
        (folder / "ncu").write_text("#!/bin/sh\n" + script)
        (folder / "ncu").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return arguments

    return install


@pytest.fixture
def no_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(ncu, "PLACES", ())


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuBackend:
    """A backend that passes for a GPU."""
    backend = CpuBackend(1)
    backend.name = "cuda:0"
    monkeypatch.setattr("sdfcli.backend.select_backend", lambda device: backend)
    return backend


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The launches of a workload whose variants take 8, 4, 2 and 1 ms."""
    done: list[str] = []

    class Workload:
        def __init__(self, mesh: Any, backend: Any, points: str = "octree", depth: int = 9) -> None:
            done.append(f"{len(mesh.faces)} {backend.name} {points} {depth}")

        def query_seconds(self, queries: tuple[str, ...], repeat: int, skip: int) -> dict[str, float]:
            done.append(f"{skip} + {repeat}")
            known = {**dict.fromkeys(queries, 16e-3), "baseline": 8e-3, "soa": 4e-3, "cct": 2e-3, "fast": 1e-3}
            return {variant: known[variant] for variant in queries}

        def traffic(self, query: str) -> Traffic | None:
            counts = ([320, 640], [3200, 1280], [4, 6], [100, 120])
            return None if query == "fast" else Traffic(*map(np.array, counts))

    monkeypatch.setattr("sdfcli.apps.bench.workload.Workload", Workload)
    return done


@pytest.fixture
def ball(tmp_path: Path) -> Path:
    path = tmp_path / "ball.ply"
    trimesh.creation.icosphere(subdivisions=2).export(path)
    return path


@pytest.fixture
def bunny(ball: Path) -> Path:
    return ball.rename(ball.with_name("bunny.ply"))


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["profile", *map(str, words)])


def cells(output: str, label: str) -> list[list[str]]:
    """The cells behind a label, in every row that has it."""
    lines = [re.fullmatch(rf"\s*{re.escape(label)}  +(.*)", line) for line in output.splitlines()]
    return [line[1].split() for line in lines if line]


def test_the_table(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu(rows())
    done = invoke(ball)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "ball.ply: 320 triangles, octree points of depth 9, 10 launches on cuda:0" in " ".join(done.stdout.split())
    assert cells(done.stdout, "time, ms") == [["8", "4", "1", "6", "5", "16", "0.5"]]
    assert cells(done.stdout, "DRAM sectors read") == [["1,000", "500", "2,000", "1,000", "1,000", "4,000", "100"]]
    assert cells(done.stdout, "L1 load requests") == [["240M", "192M", "24M", "60M", "120M", "216M", "12M"]]
    assert cells(done.stdout, "L1 load sectors") == [["3,000M", "2,400M", "120M", "1,500M", "1,000M", "6,000M", "60M"]]
    assert cells(done.stdout, "sectors a request") == [["12.5", "12.5", "5", "25", "8.333", "27.78", "5"]]
    assert cells(done.stdout, "active threads a warp") == [["10.9", "11", "8.4", "10.9", "10.5", "11", "30.6"]]
    assert cells(done.stdout, "L1 hit rate of loads, %") == [["80", "81", "82", "83", "84", "85", "86"]]
    assert cells(done.stdout, "L2 hit rate of reads, %") == [["90", "91", "92", "93", "94", "95", "96"]]
    assert cells(done.stdout, "least time, ms") == [["4", "2", "0.5", "3", "2.5", "8", "0.25"]]
    assert cells(done.stdout, "most time, ms") == [["16", "8", "2", "12", "10", "32", "1"]]
    assert cells(done.stdout, "times as fast as Baseline") == [["2.00", "8.00", "1.33", "1.60", "0.50", "16.00"]]
    assert cells(done.stdout, "L1 load requests, % fewer") == [["20.0", "90.0", "75.0", "50.0", "10.0", "95.0"]]
    assert cells(done.stdout, "DRAM sectors read, % fewer") == [["50.0", "-100.0", "0.0", "0.0", "-300.0", "90.0"]]
    # 20 % fewer: (32 - 26 p) / (32 - 24 p) = 0.8 at p = 6.4 / 6.8
    assert "25.0 % fewer transactions at p = 1" in done.stdout
    assert "measured: 20.0 % fewer load requests, as at p = 0.94" in done.stdout
    assert "thesis" not in done.stdout


def test_the_thesis_stands_beside_its_models(bunny: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu(rows())
    done = invoke(bunny)
    assert done.exit_code == 0, done.output
    under = cells(done.stdout, "thesis")
    assert under[:5] == [
        ["5.43", "3.79", "1.22"],
        ["440k", "210k", "1.05M"],
        ["50.5M", "39.5M", "4M"],
        ["547.6M", "350.4M", "26.7M"],
        ["10.84", "8.87", "6.65"],
    ]
    assert under[5] == ["1.43", "4.46"]
    assert len(under) == 9
    assert "thesis: 21.8 % fewer load requests" in done.stdout


def test_json(bunny: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    counted = {name: values for name, values in COUNTED.items() if name != "sdf_distance_packet"}
    fake_ncu(rows(counted) + rows({"another_kernel": (1, 2, 3, 4, 5, 6, 7)}))
    done = invoke(bunny, "--json", "--points", "near", "--count", 3, "--metrics", "lts__t_sectors.sum")
    assert done.exit_code == 0, done.output
    report = reports("profile", done.stdout)[0]
    assert report["input"] == str(bunny)
    assert report["triangles"] == 320
    assert (report["device"], report["points"], report["repeat"]) == ("cuda:0", "near", 3)
    assert report["measured_by"] == "ncu"
    assert list(report["variants"]) == list(ncu.KERNELS)
    assert report["variants"]["cct"] == {
        "ms": 1,
        "dram_sectors": 2_000,
        "load_requests": 24_000_000,
        "load_sectors": 120_000_000,
        "sectors_per_request": 5,
        "active_threads": 8.4,
        "l1_hit_percent": 82,
        "l2_hit_percent": 92,
        "ms_min": 0.5,
        "ms_max": 2,
        "lts__t_sectors.sum": None,
    }
    assert set(report["variants"]["fast"].values()) == {None}
    assert report["speedup"] == {
        "soa": 2,
        "cct": 8,
        "vectors": pytest.approx(4 / 3),
        "deferred": 1.6,
        "components": 0.5,
        "fast": None,
    }
    assert report["reduction_percent"]["cct"]["load_requests"] == pytest.approx(90)
    assert report["model"] == {"at_p_1": 25, "measured": pytest.approx(20), "p": pytest.approx(16 / 17)}
    assert report["thesis"]["variants"]["soa"] == {
        figure: values[1] for figure, values in thesis.QUERY["bunny"].items()
    }
    assert report["thesis"]["gpu"] == "NVIDIA GeForce RTX 3080"


def test_no_thesis_for_other_meshes(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu(rows())
    assert reports("profile", invoke(ball, "--json").stdout)[0]["thesis"] is None


def test_what_ncu_is_asked_for(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    arguments = fake_ncu(rows())
    more = ["--metrics", "a.sum, b.avg", "--metrics", "c.max"]
    done = invoke(ball, "--skip", 1, "--count", 2, "--depth", 7, "--device", "cuda:3", *more)
    assert done.exit_code == 0, done.output
    words = arguments.read_text().splitlines()
    assert words[words.index("--metrics") + 1].endswith(",a.sum,b.avg,c.max")
    for option, value in {"--skip": "1", "--count": "2", "--depth": "7", "--device": "cuda:3"}.items():
        assert words[words.index(option) + 1] == value
    assert cells(done.stdout, "b.avg") == [["-"] * 7]


def test_other_kernels(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    short = {"sdf_morton": (1_000, 1, 1, 1, 32.0, 50.0, 60.0), "sdf_bvh_build": (5_000, 2, 10, 40, 16.0, 50.0, 60.0)}
    more = {"sdf_bvh_build": (15_000, 4, 30, 80, 16.0, 50.0, 60.0)}
    fake_ncu(rows(short) + "\n".join(rows(more, "(9, 1, 1)").splitlines()[2:]) + "\n")
    words = (ball, "-k", "morton|bvh", "--count", 4, "--metrics", LONG)
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert "4 runs" in done.stdout
    assert LONG in done.stdout  # lines are not folded where there is no terminal
    table = [line.split() for line in done.stdout.splitlines() if line.startswith("sdf_")]
    assert [line[:3] for line in table] == [["sdf_bvh_build", "20", "0.01"], ["sdf_morton", "10", "0.001"]]
    report = reports("profile", invoke(*words, "--json").stdout)[0]
    assert report["kernels"]["sdf_bvh_build"] == {
        "launches": 20,
        "ms": pytest.approx(0.01),
        "dram_sectors": 3,
        "load_requests": 20,
        "load_sectors": 60,
        "sectors_per_request": 3,
        "active_threads": 16,
        "l1_hit_percent": 50,
        "l2_hit_percent": 60,
        "ms_min": 0.0025,
        "ms_max": pytest.approx(0.03),
        LONG: None,
    }


def test_particles(fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    arguments = fake_ncu(rows({"sdf_flow_force": (5_000, 2, 10, 40, 16.0, 50.0, 60.0)}))
    done = invoke("flow:index", "--count", 4)
    assert done.exit_code == 0, done.output
    assert "19,136 particles, 4 steps" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("sdf_")] == ["sdf_flow_force"]
    words = arguments.read_text().split()
    assert "regex:^sdf_flow_" in words
    assert words[-1] == "flow:index"
    report = reports("profile", invoke("flow", "--json").stdout)[0]
    assert report["particles"] == 19_136
    assert report["kernels"]["sdf_flow_force"]["sectors_per_request"] == 4
    wrong = invoke("flow:heap")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "use compact, bucket, index" in wrong.stderr


def test_other_kernels_that_are_not_there(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu("==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. sdf_morton\n")
    done = invoke(ball, "-k", "no_such")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no_such" in done.stderr
    assert invoke(ball).exit_code == 4


def test_the_rows_in_a_file(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend, tmp_path: Path) -> None:
    fake_ncu(rows())
    target = tmp_path / "rows.csv"
    assert invoke(ball, "--csv", target).exit_code == 0
    written = target.read_text()
    assert written == "\n".join(rows().splitlines()[1:]) + "\n"
    again = invoke(ball, "--csv", target)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert invoke(ball, "--csv", target, "--force").exit_code == 0
    assert target.read_text() == written


@pytest.mark.parametrize("exit_code", [0, 1])
def test_refused_counters_leave_the_times(
    exit_code: int, bunny: Path, fake_ncu: Callable[..., Path], device: CpuBackend, launches: list[str]
) -> None:
    fake_ncu(f"{REFUSED}==WARNING== No kernels were profiled.\n", exit_code=exit_code)
    done = invoke(bunny, "--skip", 2, "--count", 7, "--points", "grid", "--depth", 8)
    assert done.exit_code == 0, done.output
    [line] = done.stderr.splitlines()
    assert "ERR_NVGPUCTRPERM" in line
    assert "CUDA events" in line
    assert cells(done.stdout, "time, ms") == [["8", "4", "2", "16", "16", "16", "1"]]
    assert cells(done.stdout, "times as fast as Baseline") == [["2.00", "4.00", "0.50", "0.50", "0.50", "8.00"]]
    assert len(cells(done.stdout, "thesis")) == 7
    assert cells(done.stdout, "L1 load requests")[0] == ["960"] * 6 + ["-"]
    assert cells(done.stdout, "L1 load sectors")[0] == ["4,480"] * 6 + ["-"]
    assert cells(done.stdout, "sectors a request")[0] == ["4.667"] * 6 + ["-"]
    assert cells(done.stdout, "active threads a step") == [["22"] * 6 + ["-"]]
    for which, value in {"least": "320", "mean": "480", "most": "640"}.items():
        assert cells(done.stdout, f"requests a warp, {which}") == [[value] * 6 + ["-"]]
    assert "DRAM" not in done.stdout.split("thesis")[0]
    assert launches == ["320 cuda:0 grid 8", "2 + 7"]


def test_no_ncu_leaves_the_times(ball: Path, no_ncu: None, device: CpuBackend, launches: list[str]) -> None:
    done = invoke(ball, "--json")
    assert done.exit_code == 0, done.output
    [line] = done.stderr.splitlines()
    assert "CUDA toolkit" in line
    report = reports("profile", done.stdout)[0]
    assert report["measured_by"] == "events"
    assert [report["variants"][name]["ms"] for name in ("baseline", "soa", "cct", "fast")] == [8, 4, 2, 1]
    assert report["model"]["measured"] == 0


@pytest.mark.parametrize("words", [["-k", "octree"], ["--csv", "rows.csv"]])
def test_what_cannot_be_had_without_counters(
    words: list[str], ball: Path, no_ncu: None, device: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ball.parent)
    done = invoke(ball, *words)
    assert (done.exit_code, done.stdout) == (4, "")
    assert len(done.stderr.splitlines()) == 1
    assert not Path("rows.csv").exists()


@pytest.mark.parametrize("code", [1, 3, 5])
def test_errors_of_the_target(code: int, ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu(f"==ERROR== The application returned an error code ({code}).\n", "sdfcli: too bad\n", 1)
    done = invoke(ball)
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", "sdfcli: too bad\n")


def test_errors_of_ncu(ball: Path, fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    fake_ncu("", "==ERROR== Failed to find metric nonsense\n", 1)
    done = invoke(ball, "--metrics", "nonsense")
    assert (done.exit_code, done.stdout, done.stderr) == (4, "", "sdfcli: ncu: Failed to find metric nonsense\n")


def test_a_dry_run_needs_nothing(no_ncu: None) -> None:
    done = invoke("no such mesh.ply", "--dry-run", "--device", "cuda:77", "-k", "^a|b$", "--count", 3)
    assert done.exit_code == 0, done.output
    [line] = done.stdout.splitlines()
    words = shlex.split(line)
    assert words == ncu.command(
        "ncu", "no such mesh.ply", points="octree", depth=9, device="cuda:77", skip=5, count=3, kernels="^a|b$"
    )


def test_a_dry_run_names_the_ncu_that_would_run(fake_ncu: Callable[..., Path], tmp_path: Path) -> None:
    arguments = fake_ncu()
    assert str(tmp_path / "bin" / "ncu") in shlex.split(invoke("bunny.ply", "--dry-run").stdout)
    assert not arguments.exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--points", "everywhere"], 2, "octree"),
        (["--device", "cpu"], 2, "cuda"),
        (["--device", "auto"], 2, "cuda"),
        (["--depth", "0"], 2, "--depth"),
        (["--depth", "17"], 2, "--depth"),
        (["--count", "0"], 2, "--count"),
        (["--skip", "-1"], 2, "--skip"),
        (["--device", "cuda:77"], 4, "cuda"),
    ],
)
def test_requests_that_make_no_sense(words: list[str], code: int, says: str, ball: Path) -> None:
    done = run("profile", ball, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_mesh_that_is_not_there(fake_ncu: Callable[..., Path], device: CpuBackend) -> None:
    arguments = fake_ncu(rows())
    done = invoke("missing.ply")
    assert done.exit_code == InputError.exit_code
    assert "missing.ply" in done.stderr
    assert not arguments.exists()


def test_loads_on_a_cpu(ball: Path, no_ncu: None) -> None:
    done = run("profile", ball, "--loads", "--device", "cpu", "--depth", 3, "--skip", 0, "--count", 1, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = reports("profile", done.stdout)[0]
    assert (report["measured_by"], report["device"]) == ("events", "cpu")
    variants = report["variants"]
    assert list(variants) == list(ncu.KERNELS)
    assert variants["fast"].pop("ms") > 0
    assert set(variants["fast"].values()) == {None}
    for name, row in variants.items():
        if name == "fast":
            continue
        assert row["sectors_per_request"] == row["load_sectors"] / row["load_requests"]
        assert row["warp_requests_min"] <= row["warp_requests_mean"] <= row["warp_requests_max"]
        assert 1 <= row["active_threads_per_step"] <= 32
    requests = {name: row["load_requests"] for name, row in variants.items()}
    assert requests["components"] > requests["soa"] > requests["cct"]
    assert requests["baseline"] > requests["soa"]
    reduction = 100 * (1 - requests["soa"] / requests["baseline"])
    assert report["reduction_percent"]["soa"]["load_requests"] == pytest.approx(reduction)


@pytest.mark.parametrize("words", [["-k", "octree"], ["--csv", "rows.csv"], ["--metrics", "a.sum"], ["--dry-run"]])
def test_loads_go_with_nothing_of_ncu(words: list[str], ball: Path) -> None:
    done = invoke(ball, "--loads", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--loads" in done.stderr
    assert invoke("flow", "--loads").exit_code == 2


@pytest.mark.gpu
def test_on_a_gpu(ball: Path) -> None:
    done = invoke(ball, "--depth", 5, "--skip", 1, "--count", 2, "--json")
    assert done.exit_code == 0, done.output
    report = reports("profile", done.stdout)[0]
    assert all(figures["ms"] > 0 for figures in report["variants"].values())
    if report["measured_by"] == "ncu":
        assert all(1 <= figures["active_threads"] <= 32 for figures in report["variants"].values())
        assert all(figures["load_requests"] > 0 for figures in report["variants"].values())
