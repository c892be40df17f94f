"""`sdfcli bench`: its tables, JSON, CSV and exit codes, and the points it asks at."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import trimesh

import backends
import oracle
import sdfcli
import shapes
from commands import run
from sdfcli.apps.bench.points import OCTREES, POINTS, make_octree
from sdfcli.apps.bench.trees import BUILDERS
from sdfcli.apps.bench.workload import VARIANTS, Workload
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.cells import leaves_of
from sdfcli.params import QUERIES
from sdfcli.spatial.morton import morton_order

backend = backends.backend
warps = backends.warps

QUICK = ["--depth", "5", "--repeat", "1", "--device", "cpu"]
STAGES = ["morton", "sort", "tree", "refit", "octree", "query", "sign"]


@pytest.fixture
def dragon(tmp_path: Path) -> Path:
    """A small mesh with the name of a large one."""
    path = tmp_path / "dragon.ply"
    trimesh.creation.icosphere(subdivisions=3).export(path)
    return path


def test_tables(dragon: Path) -> None:
    done = run("bench", dragon, *QUICK)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for word in (
        *STAGES,
        "total",
        *VARIANTS.values(),
        "tree: radix",
        "SAH cost",
        "boxes/point",
        "Table 2.1",
        "Table 4.5",
        "Table 4.6",
        "(26.79)",
        "(5.90x)",
    ):
        assert word in done.stdout, word
    assert "\\n" not in done.stdout
    assert "\n\nTable 4.5" in done.stdout


def test_json_and_csv(dragon: Path, tmp_path: Path) -> None:
    table = tmp_path / "figures.csv"
    done = run("bench", dragon, dragon, "--json", "--csv", table, *QUICK)
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 2
    for report in reports:
        assert report["triangles"] == 1280
        stages = report["stages_ms"]
        assert list(stages) == [*STAGES, "total"]
        assert stages["total"] == pytest.approx(sum(stages[name] for name in STAGES))
        queries = report["queries"]
        assert list(queries) == list(VARIANTS)
        for row in queries.values():
            assert row["ratio"] == pytest.approx(queries["baseline"]["ms"] / row["ms"])
            assert row["million_per_second"] == pytest.approx(report["count"] / row["ms"] / 1e3)
        for other in ("soa", "vectors", "components"):
            assert [queries[other][key] for key in ("boxes", "tests")] == [
                queries["baseline"][key] for key in ("boxes", "tests")
            ]
        assert queries["baseline"]["boxes"] > queries["deferred"]["boxes"] > queries["cct"]["boxes"]
        assert queries["deferred"]["tests"] > queries["baseline"]["tests"] > queries["cct"]["tests"] >= 1
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["query"] for row in rows] == [*reports[0]["queries"], *reports[1]["queries"]]
    first = reports[0]["queries"]["baseline"]
    assert (float(rows[0]["ms"]), float(rows[0]["tests"])) == (first["ms"], first["tests"])
    assert int(rows[0]["triangles"]) == 1280
    again = run("bench", dragon, "--csv", table, *QUICK)
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_another_tree(dragon: Path) -> None:
    reports = {name: json.loads(run("bench", dragon, "--builder", name, "--json", *QUICK).stdout) for name in BUILDERS}
    for name, report in reports.items():
        assert report["builder"] == name
        assert min(report["tree"].values()) > 0
        assert report["queries"]["baseline"]["boxes"] == report["queries"]["soa"]["boxes"]
    assert reports["ploc"]["tree"]["sah"] < reports["radix"]["tree"]["sah"]
    assert reports["ploc"]["queries"]["cct"]["boxes"] != reports["radix"]["queries"]["cct"]["boxes"]


def test_scan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from sdfcli.apps.bench import scan
    from sdfcli.cli.app import app

    monkeypatch.setattr(scan, "ON_DEVICES_CPU", (5000,))
    with pytest.raises(SystemExit) as ended:
        app(["bench", "scan", "--device", "cpu", "--repeat", "1"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    for word in ("scan", "library", "copy", "host to host", "on devices", "2,097,152", "20,971,520", "34.24", "5,000"):
        assert word in printed


def test_uniform_grids(dragon: Path) -> None:
    words = ["bench", dragon, "--uniform", "--depth", "4", "--repeat", "1", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    methods = ["adaptive octree", "bvh octree", "uniform, exact", "uniform, JFA", "uniform, JFA+1"]
    for word in (*methods, "4,913", "1/16"):
        assert word in done.stdout
    report = json.loads(run(*words, "--json").stdout)
    assert [row["method"] for row in report["methods"]] == methods
    assert report["methods"][2]["node_max"] == 0
    assert run(*words, "--fail-below", "2").returncode == 2


def test_sequences(dragon: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from sdfcli.apps.bench import sequence
    from sdfcli.cli.app import app

    asked = []

    def compare(mesh: Mesh, frames: int, depth: int, **options: object) -> list[sequence.Row]:
        asked.append((len(mesh.faces), frames, depth, options["repeat"]))
        each = sequence.Row("build, a process each", "bvh", True, 3, 6.0, 0.5, None)
        return [each, sequence.Row("sequence --cold", "adaptive", False, frames, 2.0, 3.5, 4.25)]

    monkeypatch.setattr(sequence, "compare", compare)
    for words in ([str(dragon), "--frames", "7", "--depth", "5"], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            app(["bench", "sequence", *words, "--device", "cpu"])
        assert ended.value.code == 0
    assert asked == [(1280, 7, 5, 1), (69_696, 16, 7, 1)]
    table, _, last = capsys.readouterr().out.rpartition("\n{")
    for word in ("sequence --cold, no file", "1,280 triangles", "depth 5", "0.50", "4.25", "8.30 ms", "20 frames/s"):
        assert word in table
    report = json.loads("{" + last)
    assert (report["input"], report["device"], report["depth"], len(report["rows"])) == ("torus", "cpu", 7, 2)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        *((["MESH"], option) for option in ("--frames 2", "-k 8", "--block 512", "--scale 2", "--steps 2")),
        *((["scan"], option) for option in ("--uniform", "--depth 4", "--query cct", "--csv x.csv")),
        *((["sequence"], option) for option in ("--points near", "--steps 2")),
        *((["knn", "MESH"], option) for option in ("--seeds knn", "--coherence", "--depth 4")),
        *((["scale", "MESH"], option) for option in ("--frames 2", "--repeat 2")),
        *((["flow"], option) for option in ("--depth 4", "-k 8")),
    ],
)
def test_options_of_other_sub_commands(dragon: Path, words: list[str], option: str) -> None:
    """One line names the option, and the help of the sub-command."""
    done = run("bench", *(dragon if word == "MESH" else word for word in words), *option.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    command = "bench" if words == ["MESH"] else f"bench {words[0]}"
    assert line.startswith(f"sdfcli: no such option: {option.split(maxsplit=1)[0]}")
    assert line.endswith(f"(see sdfcli {command} --help)")


@pytest.mark.parametrize("words", [["--steps", "0", "flow"], ["--steps=0", "--json", "flow"], ["flow", "--steps", "0"]])
def test_a_sub_command_behind_options(words: list[str]) -> None:
    done = run("bench", "--device", "cpu", *words)
    assert (done.returncode, done.stderr) == (2, "sdfcli: --steps 0: use 1 or more\n")


@pytest.mark.parametrize("words", [["./flow"], ["--", "flow"], ["none.ply", "flow"], ["--csv", "flow", "none.ply"]])
def test_meshes_with_the_name_of_a_sub_command(words: list[str]) -> None:
    done = run("bench", "--device", "cpu", *words)
    assert done.returncode == 3
    assert done.stderr.endswith(": no such file\n")


@pytest.mark.nightly
def test_coherence(dragon: Path) -> None:
    words = ["bench", dragon, "--coherence", "--depth", "4", "--repeat", "1", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    for word in ("turn 0.1 %", "bend 1 %", "inflation 5 %", *QUERIES, "earlier ms", "exact boxes/point"):
        assert word in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Closer-child traversal's lead over baseline ")
    report = json.loads(run(*words, "--json").stdout)
    assert (report["triangles"], report["depth"], report["device"]) == (1280, 4, "cpu")
    assert len(report["rows"]) == 10 * 4 * 3
    assert [row["amount"] for row in report["lead"]] == [0, 0.001, 0.01, 0.05]
    for others in (["--uniform"], ["--fail-below", "2"], ["--csv", "x.csv"], ["--builder", "ploc"]):
        assert run(*words, *others).returncode == 2


@pytest.fixture
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SIZES_CPU", (64, 4096)), ("RECALL_QUERIES_CPU", 64), ("ABLATED_CPU", 64)):
        monkeypatch.setattr(f"sdfcli.apps.bench.knn.{name}", value)


def test_neighbours(dragon: Path, few_queries: None, capsys: pytest.CaptureFixture[str]) -> None:
    from sdfcli.apps.bench.knn import SORTS
    from sdfcli.cli.app import app

    printed = []
    for words in ([], ["-k", "4", "--block", "512"], ["-k", "2", "--json"]):
        with pytest.raises(SystemExit) as ended:
            app(["bench", "knn", str(dragon), *words, "--repeat", "1", "--device", "cpu"])
        assert ended.value.code == 0
        printed.append(capsys.readouterr().out)
    plain, blocks, last = printed
    for word in (
        "k = 8, cpu",
        "Table 4, 6-D: 1,280 boxes, ms",
        "Table 4, 3-D: 642 vertices, ms",
        "Table 5: 6-D by 3-D",
        "Recall, %, by number of shifts",
        "vertices, rand",
        "Variants: 64 queries",
        "(uint4)",
        "minmax is a problem in 4-D",
        "RTX 2080 Ti",
        "ms (inferred)",
    ):
        assert word in plain, word
    (row,) = (line.split() for line in plain.splitlines() if line.startswith("4,096") and "66.00" in line)
    assert (row[3], row[5]) == ("5.00", "66.00")
    assert "--block" not in plain
    assert "--block 512 is of no effect: a CPU has no blocks of threads." in blocks
    assert "66.00" not in blocks  # the paper has no figures for four neighbours
    report = json.loads(last)
    assert (report["triangles"], report["vertices"], report["device"], report["k"]) == (1280, 642, "cpu", 2)
    assert report["block"] is None
    assert [(row["queries"], row["form"]) for row in report["sizes"]] == [
        (n, form) for n in (64, 4096) for form in SORTS
    ]
    assert len(report["quality"]) == 2 * 4 * 10
    assert {row["points"] for row in report["ablation"]} == {"near", "rand"}


@pytest.mark.gpu
def test_neighbours_by_blocks(dragon: Path) -> None:
    done = run("bench", "knn", dragon, "--block", "512", "--repeat", "1", "--device", "cuda", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["block"] == 512
    assert all(row["milliseconds"] for row in report["ablation"] if row["variant"] == "2 k lanes a query")


def test_seeds(dragon: Path) -> None:
    words = ["bench", dragon, "--seeds", "knn", "--depth", "4", "--repeat", "1", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    for word in ("1,280 triangles", "depth 4", "2 candidates of ball", "5 shifts, given", "exact", *QUERIES):
        assert word in done.stdout
    assert done.stdout.splitlines()[-1].startswith("A first bound by kANN, its own time included, ")
    report = json.loads(run(*words, "--json").stdout)
    assert (report["triangles"], report["depth"], report["device"]) == (1280, 4, "cpu")
    assert len(report["rows"]) == 4 * 6
    for others in (["--uniform"], ["--coherence"], ["--fail-below", "2"], ["--csv", "x.csv"]):
        assert run(*words, *others).returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["knn"], "missing argument 'MESH...' (see sdfcli bench knn --help)"),
        (["knn", "MESH", "-k", "33"], "-k 33: use 1 to 32"),
        (["knn", "MESH", "--block", "100"], "--block 100: use a multiple of 32 up to 1024"),
        (["MESH", "--seeds", "bfs"], "--seeds bfs: use knn"),
    ],
)
def test_what_neighbours_do_not_take(dragon: Path, words: list[str], message: str) -> None:
    done = run("bench", *(dragon if word == "MESH" else word for word in words), "--device", "cpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize("ratio", ["nan", "-1", "0"])
def test_a_threshold_that_is_none(dragon: Path, ratio: str) -> None:
    done = run("bench", dragon, f"--fail-below={ratio}", *QUICK)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"sdfcli: --fail-below {ratio}: use a ratio above 0\n"


@pytest.mark.parametrize("points", ["near", "rand"])
def test_visits_are_counted_in_the_order_of_the_query(backend: Backend, points: str) -> None:
    """Points that do not lie together share no way down the tree."""
    workload = Workload(make_mesh(*shapes.icosphere(4)), backend, points)
    workload.points = workload.points[:20_000]
    (fast, _), (cct, _) = (workload.visits(query) for query in ("fast", "cct"))
    assert fast < 2 * cct


@pytest.mark.parametrize(("ratio", "code"), [("1e-9", 0), ("1e9", 6)])
def test_a_threshold(dragon: Path, ratio: str, code: int) -> None:
    done = run("bench", dragon, "--fail-below", ratio, "--query", "cct", *QUICK)
    assert done.returncode == code
    assert ("dragon" in done.stderr) == (code == 6)


@pytest.mark.parametrize(
    "words",
    [
        ["--points", "everywhere"],
        ["--query", "bfs"],
        ["--builder", "sah"],
        ["--depth", "0"],
        ["--depth", "17"],
        ["--repeat", "0"],
    ],
)
def test_bad_words(dragon: Path, words: list[str]) -> None:
    done = run("bench", dragon, "--device", "cpu", *words)
    assert done.returncode == 2
    assert words[0] in done.stderr


@pytest.mark.parametrize("kind", POINTS)
def test_points(backend: Backend, kind: str) -> None:
    mesh = make_mesh(*shapes.torus(24, 12))
    workload = Workload(mesh, backend, kind, depth=4)
    at = backend.to_host(workload.points).astype(np.float64)
    assert len(at) > 100
    if kind in OCTREES:
        assert len(np.unique(at, axis=0)) == len(at)
        assert np.array_equal(at * 16, np.rint(at * 16))
    workload.query("fast")
    workload.query("cct")
    distance = sdfcli.MeshDistance(mesh, device=backend.name).distance(
        mesh.domain.origin + at[:: len(at) // 100] * mesh.domain.length
    )
    if kind == "near":
        assert np.std(distance) < 0.01 * mesh.diagonal
        assert distance.max() < 0.05 * mesh.diagonal
    else:
        assert distance.max() > 0.1 * mesh.diagonal


@pytest.mark.parametrize("shape", ["star", "one", "cube"])
def test_octree_wherever_a_cell_meets_a_box(backend: Backend, shape: str) -> None:
    depth, mesh = 4, make_mesh(*shapes.ANY[shape](np.random.default_rng(1)))
    corner = mesh.unit_triangles.reshape(-1, 3, 3).astype(np.float32)
    order = morton_order(backend, mesh.unit_triangles)
    found = make_octree(backend, order, "octree", depth)
    key, level, _ = map(backend.to_host, leaves_of(backend, found.cell))
    leaves = {(*low, at) for low, at in zip(oracle.lattice(key), level, strict=True)}
    expected = set()

    def visit(level: int, at: tuple[int, int, int]) -> None:
        low = np.array(at) / 2**level
        high = low + 0.5**level
        meets = np.all((corner.max(axis=1) >= low) & (corner.min(axis=1) < high), axis=1).any()
        if level == depth or not meets:
            expected.add((*(c << (20 - level) for c in at), level))
            return
        for c in range(8):
            visit(level + 1, (2 * at[0] + (c & 1), 2 * at[1] + (c >> 1 & 1), 2 * at[2] + (c >> 2)))

    visit(0, (0, 0, 0))
    assert {tuple(map(int, leaf)) for leaf in leaves} == expected


def test_the_pipeline_of_a_workload_by_warps(warps: Backend) -> None:
    """Open, so that its holes are closed by caps."""
    vertices, faces = shapes.torus(24, 12)
    mesh = make_mesh(vertices, faces[10:])
    for points in ("bvh", "octree"):
        seconds = Workload(mesh, warps, points, depth=4).stages()
        assert list(seconds) == STAGES
        assert min(seconds.values()) > 0


def test_the_pipeline_of_a_workload(backend: Backend) -> None:
    workload = Workload(make_mesh(*shapes.star(np.random.default_rng(1), 3)), backend, depth=5)
    for query in QUERIES:
        seconds = workload.stages(query)
        assert list(seconds) == STAGES
        assert min(seconds.values()) > 0
    found = workload.query_seconds(("cct", "soa"), 2)
    assert set(found) == {"cct", "soa"}
    assert min(found.values()) > 0


@pytest.mark.nightly
def test_layouts_of_particles() -> None:
    words = ["bench", "flow", "--steps", "1", "--device", "cpu"]
    done = run(*words, "--block", "64,128")
    assert done.returncode == 0, done.stderr
    for word in (
        "from 1, cpu",
        "19,136",
        "shuffled",
        "index",
        "bucket",
        "compact, lists",
        "Milliseconds a step",
        "(vi, vii)",
        "no effect",
    ):
        assert word in done.stdout
    report = json.loads(run(*words, "--json").stdout)
    assert report["steps"] == 1
    assert {row["layout"] for row in report["rows"]} == {"index", "bucket", "compact", "compact, lists"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flow", "--block", "64,33"], "--block 33: use a multiple of 32 up to 1024"),
        (["flow", "--block", "many"], "--block many: use whole numbers between commas"),
        (["flow", "--scale", "0"], "--scale 0: use 1 to 10,000"),
        (["flow", "--scale", "1;2"], "--scale 1;2: use comma-separated numbers"),
        (["flow", "--steps", "0"], "--steps 0: use 1 or more"),
        (["scale", "MESH", "--scale", "1.5"], "--scale 1.5: use whole numbers from 1"),
        (["scale", "MESH", "--scale", "4,0"], "--scale 0: use whole numbers from 1"),
        (["scale", "MESH", "--scale", "10000000"], "triangles are too many"),
        (["scale"], "missing argument 'MESH...' (see sdfcli bench scale --help)"),
        (["knn", "MESH", "--block", "64,128"], "--block 64,128: use a whole number"),
        (["sequence", "--depth", "0"], "--depth 0: use 1 to 16"),
        (["scale", "MESH", "--depth", "17"], "sdfcli: --depth 17: use 1 to 16"),
    ],
)
def test_what_particles_do_not_take(dragon: Path, words: list[str], message: str) -> None:
    done = run("bench", *(dragon if word == "MESH" else word for word in words), "--device", "cpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
