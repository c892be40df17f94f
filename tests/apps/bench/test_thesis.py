"""The thesis's figures are copied without slips: those that follow from others do."""

from __future__ import annotations

import pytest

from sdfcli.apps.bench import thesis

MODELS = ["bunny", "armadillo", "dragon", "buddha"]


def agree(numerator: float, denominator: float, quotient: float, steps: tuple[float, float, float]) -> bool:
    """Whether three printed numbers may be a quotient, each being right to half of its last digit (`steps`)."""
    low = (numerator - steps[0] / 2) / (denominator + steps[1] / 2) - steps[2] / 2
    high = (numerator + steps[0] / 2) / (denominator - steps[1] / 2) + steps[2] / 2
    return low <= quotient <= high


def test_all_tables_have_the_same_models() -> None:
    tables = [thesis.QUERY, thesis.QUERY_SPEEDUP, thesis.BUILD_MS, thesis.BUILD_SPEEDUP]
    assert all(list(table) == MODELS for table in tables)


@pytest.mark.parametrize("model", MODELS)
def test_sectors_per_request(model: str) -> None:
    table = thesis.QUERY[model]
    for sectors, requests, printed in zip(
        table["load_sectors"], table["load_requests"], table["sectors_per_request"], strict=True
    ):
        assert agree(sectors, requests, printed, (1e6 if sectors >= 1e9 else 1e5, 1e5, 0.01)), printed


def test_what_the_text_says_of_the_dragon() -> None:
    """The counts in equations (4.1) and (4.2), which the tables round to a tenth of a million."""
    table = thesis.query("dragon")
    assert table["baseline"]["load_requests"] == round(239_999_420, -5)
    assert table["cct"]["load_requests"] == round(16_838_180, -5)
    assert table["baseline"]["dram_sectors"] == round(83_008_845, -5)
    assert table["cct"]["dram_sectors"] == round(19_680_971, -5)


@pytest.mark.parametrize("model", MODELS)
def test_speedups(model: str) -> None:
    baseline, *others = thesis.QUERY[model]["ms"]
    for variant, ms in zip(thesis.VARIANTS[1:], others, strict=True):
        assert agree(baseline, ms, thesis.QUERY_SPEEDUP[model][variant], (0.01, 0.01, 0.01)), variant
    before, after = (thesis.BUILD_MS[model][variant][0] for variant in ("baseline", "cct"))
    assert agree(before, after, thesis.BUILD_SPEEDUP[model], (0.01, 0.01, 0.01))


@pytest.mark.parametrize(
    ("model", "percent"), [("bunny", 68.0), ("armadillo", 68.2), ("dragon", 86.9), ("buddha", 88.3)]
)
def test_the_query_is_a_part_of_the_build(model: str, percent: float) -> None:
    total, query = thesis.BUILD_MS[model]["baseline"]
    assert agree(query, total, percent / 100, (0.01, 0.01, 0.001))  # a column of Table 2.1
    total, query = thesis.BUILD_MS[model]["cct"]
    assert query < total


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("bunny.ply", "bunny"),
        ("scans/Stanford-Bunny.obj", "bunny"),
        ("bun_zipper.ply", "bunny"),
        ("Armadillo.PLY", "armadillo"),
        ("dragon.ply", "dragon"),
        ("dragon_vrip.ply", "dragon"),
        ("buddha.stl", "buddha"),
        ("happy.ply", "buddha"),
        ("happy_buddha.ply", "buddha"),
        ("Happy Buddha.ply", "buddha"),
        ("bun_zipper_res2.ply", None),
        ("xyzrgb_dragon.ply", None),
        ("dragonfly.ply", None),
        ("knot.ply", None),
        ("bunny/knot.ply", None),
        ("", None),
    ],
)
def test_models_by_their_files(path: str, model: str | None) -> None:
    assert thesis.model_of(path) == model
