"""Nsight Compute's command line, its CSV and its failures, and what the thesis derives from its counters."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdfcli.apps.bench import ncu
from sdfcli.errors import DeviceError, InputError, OutOfMemoryError, SdfError, UsageError
from sdfcli.runtime import processes

# The columns as the thesis lists them (section 4.2.2).
COLUMNS = [
    *("Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"),
    *("Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"),
]


def table(rows: Iterable[dict[str, object]], columns: list[str] = COLUMNS) -> str:
    """Rows as ncu prints them: every field in quotes. What a row does not name is filled in."""
    usual = {"Process ID": 4242, "Process Name": "python3", "Host Name": "127.0.0.1", "Block Size": "(128, 1, 1)"}
    usual |= {"Grid Size": "(28238, 1, 1)", "Device": 0, "CC": "9.0", "Invocations": 10, "Metric Unit": ""}
    usual |= {"Section Name": "Command line profiler metrics", "Minimum": 0, "Maximum": 0}
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**usual, **row} for row in rows)
    return text.getvalue()


def row(kernel: str, metric: str, average: object, unit: str = "", **others: object) -> dict[str, object]:
    return {"Kernel Name": kernel, "Metric Name": metric, "Average": average, "Metric Unit": unit} | {
        name.replace("_", " "): value for name, value in others.items()
    }


def measured(text: str) -> dict[str, ncu.Measured]:
    return ncu.by_kernel(ncu.parse(ncu.csv_lines(text)))


DRAGON = table(
    [
        row("sdf_distance_baseline", ncu.TIME, "29,920,000.00", "ns", Minimum="29,500,000.00", Maximum="31,000,000.00"),
        row("sdf_distance_baseline", ncu.DRAM_SECTORS, "83,008,845", "sector"),
        row("sdf_distance_baseline", ncu.LOAD_REQUESTS, "239,999,420", "request"),
        row("sdf_distance_baseline", ncu.LOAD_SECTORS, "3,390,000,000", "sector"),
        row("sdf_distance_baseline", ncu.ACTIVE_THREADS, "10.90"),
        row("sdf_distance_soa", ncu.TIME, "20.40", "ms"),
        row("sdf_distance_soa", ncu.LOAD_REQUESTS, "190.2", "Mrequest"),
        row("sdf_distance_cct(sdf_distance_cct_args)", ncu.TIME, "0.00507", "second"),
        row("sdf_distance_cct(sdf_distance_cct_args)", ncu.DRAM_SECTORS, "19,680,971", "sector"),
        row("sdf_distance_cct(sdf_distance_cct_args)", ncu.LOAD_REQUESTS, "16,838,180", "request"),
    ]
)


def test_figures_of_the_dragon() -> None:
    kernels = measured(DRAGON)
    assert list(kernels) == ["sdf_distance_baseline", "sdf_distance_soa", "sdf_distance_cct"]
    assert kernels["sdf_distance_cct"].launches == 10
    figures = ncu.figures(kernels["sdf_distance_baseline"])
    assert figures["ms"] == pytest.approx(29.92)
    assert (figures["ms_min"], figures["ms_max"]) == (pytest.approx(29.5), pytest.approx(31))
    assert figures["dram_sectors"] == 83_008_845
    assert figures["load_requests"] == 239_999_420
    assert figures["sectors_per_request"] == pytest.approx(14.13, abs=0.005)
    assert figures["active_threads"] == 10.9
    soa = ncu.figures(kernels["sdf_distance_soa"])
    assert soa["ms"] == pytest.approx(20.4)
    assert soa["load_requests"] == pytest.approx(190.2e6)
    assert soa["dram_sectors"] is soa["load_sectors"] is soa["sectors_per_request"] is soa["active_threads"] is None
    assert set(ncu.figures(None).values()) == {None}


def test_reductions_of_the_dragon() -> None:
    """The thesis's equations (4.1) and (4.2) have these numbers, and 93.0 % and 76.3 %."""
    kernels = measured(DRAGON)
    variants = {name: ncu.figures(ncu.measured(name, kernels)) for name in ncu.KERNELS}
    found = ncu.compare(variants)
    assert found["reduction_percent"]["cct"]["load_requests"] == pytest.approx(93.0, abs=0.05)
    assert found["reduction_percent"]["cct"]["dram_sectors"] == pytest.approx(76.3, abs=0.05)
    assert found["speedup"]["cct"] == pytest.approx(5.90, abs=0.005)
    assert found["reduction_percent"]["soa"]["dram_sectors"] is None
    assert found["speedup"]["fast"] is None
    # (32 - 26 p) / (32 - 24 p) = 190.2 / 240.0
    assert found["model"]["at_p_1"] == 25
    assert found["model"]["measured"] == pytest.approx(20.75, abs=0.005)
    assert found["model"]["p"] == pytest.approx(0.9513, abs=0.0005)


def test_columns_in_another_order() -> None:
    swapped = [*COLUMNS]
    block, grid = swapped.index("Block Size"), swapped.index("Grid Size")
    swapped[block], swapped[grid] = swapped[grid], swapped[block]
    swapped = ["Context", *reversed(swapped)]
    rows = [row("k", ncu.LOAD_SECTORS, "1,234.5", "sector", Context=1)]
    assert measured(table(rows, swapped)) == {
        "k": ncu.Measured(10, {ncu.LOAD_SECTORS: 1234.5}, {ncu.LOAD_SECTORS: (0, 0)})
    }


def test_the_csv_among_other_lines() -> None:
    header, *lines = DRAGON.splitlines()
    around = [
        "==PROF== Connected to process 4242 (/usr/bin/python3.12)",
        '"a line of the target", in quotes',
        '==PROF== Profiling "sdf_distance_cct" - 0: 0%....50%....100% - 3 passes',
        header,
        "==PROF== Disconnected from process 4242",
        *lines[:4],
        "",
        "something, that, the, target, prints",
        '"an open quote, and a comma',
        header,
        *lines[4:],
        "==WARNING== nothing",
    ]
    assert ncu.csv_lines("\n".join(around)) == [header, *lines]
    assert ncu.csv_lines("\r\n".join(around)) == [header, *lines]


@pytest.mark.parametrize("text", ["", "==WARNING== No kernels were profiled.\n", '"a","b"\n"1","2"\n'])
def test_no_csv(text: str) -> None:
    assert ncu.csv_lines(text) == []
    assert measured(text) == {}


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        *(("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1)),
        *(("nsecond", 1e-9), ("usecond", 1e-6), ("msecond", 1e-3), ("second", 1)),
        *(("sector", 1), ("Ksector", 1e3), ("Msector", 1e6), ("Gsector", 1e9)),
        *(("request", 1), ("Krequest", 1e3), ("", 1), ("%", 1), ("Kinst", 1e3), ("inst/cycle", 1)),
    ],
)
def test_units(unit: str, factor: float) -> None:
    assert measured(table([row("k", "m", "2.5", unit)]))["k"].metrics["m"] == pytest.approx(2.5 * factor)


@pytest.mark.parametrize("text", ["n/a", "", " ", "nan", "inf", "(!) 3", "65,77", "27.595.520", "1,23", "1e", "-"])
def test_what_is_no_number_is_missing(text: str) -> None:
    assert measured(table([row("k", "m", text), row("k", "other", 1)]))["k"].metrics == {"other": 1}


@given(st.floats(-1e15, 1e15), st.booleans(), st.integers(0, 6))
def test_numbers(value: float, separated: bool, digits: int) -> None:
    text = f"{value:,.{digits}f}" if separated else f"{value:.{digits}f}"
    [found] = ncu.parse(ncu.csv_lines(table([row("k", "m", text)])))
    assert found.value == float(text.replace(",", ""))


@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.integers(0, 10**9)), min_size=1, max_size=6, unique_by=lambda shape: shape[0]
    )
)
def test_shapes_count_by_their_launches(shapes: list[tuple[int, int]]) -> None:
    """What was counted in all launches, by their number, whatever the shapes that ncu made groups of."""
    rows = [
        row("k", "m", f"{value:,}", Grid_Size=f"({launches}, 1, 1)", Invocations=launches) for launches, value in shapes
    ]
    launches = sum(count for count, _ in shapes)
    found = measured(table(rows))["k"]
    assert found.launches == launches
    assert found.metrics["m"] == pytest.approx(sum(count * value for count, value in shapes) / launches)


def test_a_metric_that_one_shape_lacks_is_missing() -> None:
    rows = [
        row("k", "a", 1, Grid_Size="(1, 1, 1)"),
        row("k", "a", 3, Grid_Size="(2, 1, 1)"),
        row("k", "b", 1, Grid_Size="(1, 1, 1)"),
        row("k", "b", "n/a", Grid_Size="(2, 1, 1)"),
        row("k", "c", 1, Grid_Size="(1, 1, 1)"),
    ]
    assert measured(table(rows)) == {"k": ncu.Measured(20, {"a": 2}, {"a": (0, 0)})}


def test_blocks_make_shapes_too() -> None:
    rows = [row("k", "m", 1, Block_Size="(32, 1, 1)"), row("k", "m", 4, Block_Size="(64, 1, 1)", Invocations=20)]
    assert measured(table(rows)) == {"k": ncu.Measured(30, {"m": 3}, {"m": (0, 0)})}


@given(st.floats(0, 1))
def test_the_model_and_its_inverse(p: float) -> None:
    percent = ncu.modelled_reduction(p)
    assert 0 <= percent <= 25
    assert percent == pytest.approx((1 - (32 - 26 * p) / (32 - 24 * p)) * 100)
    assert ncu.implied_p(percent) == pytest.approx(p)


def test_transactions() -> None:
    assert (ncu.transactions(32, 1), ncu.transactions(24, 1)) == (8, 6)
    assert ncu.transactions(32, 0) == ncu.transactions(24, 0) == 32


@pytest.mark.parametrize("percent", [-0.1, 25.1, 93.0, None])
def test_reductions_that_no_p_gives(percent: float | None) -> None:
    assert ncu.implied_p(percent) is None


@pytest.mark.parametrize(
    ("before", "after", "percent"), [(200, 50, 75), (50, 200, -300), (5, 0, 100), (0, 5, None), (None, 5, None)]
)
def test_reduction(before: float | None, after: float | None, percent: float | None) -> None:
    assert ncu.reduction(before, after) == percent


def command(**changes: object) -> list[str]:
    options: dict[str, object] = {"points": "octree", "depth": 9, "device": "cuda:1", "skip": 5, "count": 180}
    return ncu.command("/opt/ncu", "a b.ply", **{**options, **changes})  # type: ignore[arg-type]


def test_the_command_line() -> None:
    words = command()
    assert words[0] == "/opt/ncu"
    value = {word: words[i + 1] for i, word in enumerate(words[:-1])}
    assert value["--print-summary"] == "per-kernel"
    assert value["--page"] == "details"
    assert value["--clock-control"] == "none"
    assert value["--profile-from-start"] == "off"
    assert value["--target-processes"] == "all"
    assert "--csv" in words
    assert value["--metrics"].split(",") == list(ncu.METRICS)
    target = words[words.index(sys.executable) :]
    assert target[: len(processes.python(""))] == processes.python("sdfcli.apps.bench.target")
    assert target[-2:] == ["--", "a b.ply"]
    assert (value["--device"], value["--skip"], value["--count"], value["--depth"]) == ("cuda:1", "5", "180", "9")
    assert "--whole" not in target


def test_the_kernels_of_the_command_line() -> None:
    word = command()[command().index("-k") + 1]
    assert word.startswith("regex:")
    pattern = re.compile(word.removeprefix("regex:"))
    assert all(pattern.search(kernel) for kernels in ncu.KERNELS.values() for kernel in kernels)
    assert not pattern.search("sdf_distance_cct_args")
    assert not pattern.search("sdf_distance_wide")
    other = command(kernels="octree|sort")
    assert other[other.index("-k") + 1] == "regex:octree|sort"
    assert "--whole" in other[other.index(sys.executable) :]


def test_more_metrics() -> None:
    words = command(metrics=["lts__t_sectors.sum", ncu.TIME, "lts__t_sectors.sum"])
    assert words[words.index("--metrics") + 1].split(",") == [*ncu.METRICS, "lts__t_sectors.sum"]


REFUSED = (
    "==PROF== Connected to process 4242 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
    "==PROF== Disconnected from process 4242\n"
    "==WARNING== No kernels were profiled.\n"
)


@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize("on_stdout", [True, False])
def test_refused_counters(exit_code: int, on_stdout: bool) -> None:
    error = ncu.failure(REFUSED if on_stdout else "", "" if on_stdout else REFUSED, exit_code)
    assert isinstance(error, ncu.NoCountersError)
    assert "ERR_NVGPUCTRPERM" in str(error)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n",
        "==ERROR== An error was reported by the driver\n"
        "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool is running.\n",
    ],
)
def test_other_ways_of_having_no_counters(said: str) -> None:
    assert isinstance(ncu.failure("", said, 1), ncu.NoCountersError)


@pytest.mark.parametrize(
    ("code", "kind"), [(1, SdfError), (2, UsageError), (3, InputError), (4, DeviceError), (5, OutOfMemoryError)]
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_the_target_failed(code: int, kind: type[SdfError], exit_code: int) -> None:
    stdout = f"==PROF== Disconnected from process 1\n==ERROR== The application returned an error code ({code}).\n"
    error = ncu.failure(stdout, "==PROF== a line\na warning\nsdfcli: what went wrong\n\n", exit_code)
    assert type(error) is kind
    assert str(error) == "what went wrong"
    assert error.exit_code == code


def test_the_target_failed_without_a_word() -> None:
    error = ncu.failure("==ERROR== The application returned an error code (139).\n", "", 1)
    assert type(error) is SdfError
    assert "139" in str(error)


def test_ncu_failed() -> None:
    said = "==ERROR== Failed to find metric x.sum\n==ERROR== Failed to find metric x.sum\n==ERROR== Use --help.\n"
    error = ncu.failure(said, "", 1)
    assert type(error) is DeviceError
    assert str(error) == "ncu: Failed to find metric x.sum; Use --help."
    silent = ncu.failure("", "", 9)
    assert type(silent) is DeviceError
    assert "9" in str(silent)


def test_nothing_failed() -> None:
    assert ncu.failure(DRAGON, "==PROF== Disconnected from process 1\na warning\n", 0) is None


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_where_ncu_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(ncu, "PLACES", (f"{tmp_path}/cuda*/bin/ncu", f"{tmp_path}/compute/*/ncu"))
    assert ncu.find() is None
    program(tmp_path / "cuda-9.2" / "bin" / "ncu")
    newer = program(tmp_path / "cuda-13.0" / "bin" / "ncu")
    program(tmp_path / "cuda-14.0" / "bin" / "ncu", 0o644)
    assert ncu.find() == str(newer)
    program(tmp_path / "compute" / "2025.3.1" / "ncu")
    newest = program(tmp_path / "compute" / "2025.10.0" / "ncu")
    assert ncu.find() == str(newest)
    on_path = program(tmp_path / "bin" / "ncu")
    assert ncu.find() == str(on_path)
