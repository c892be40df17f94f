"""`sdfcli build` with many meshes: whatever happens to one of them, the others are built."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import trimesh

import commands
import sdfcli
import shapes
from commands import reports
from sdfcli.backend.select import device_names
from sdfcli.batch import pool
from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Settings, failure
from sdfcli.batch.pool import build_all, plan
from sdfcli.cli.outcomes import Style, _place, _show_line, time_left_of
from sdfcli.errors import DeviceError, InputError, OutOfMemoryError, UsageError
from sdfcli.params import BuildParams
from sdfcli.runtime.hardware import available_threads

QUICK = ["--depth", "5", "--tolerance", "1e-2", "--device", "cpu"]
SLOW = ["--depth", "7", "--tolerance", "2e-4", "--device", "cpu"]  # so that a signal comes before all are built
BAD = {
    "cut.ply": b"ply\nformat ascii 1.0\nelement vertex 3\n",
    "faceless.obj": b"v 0 0 0\n",
    "nan.obj": b"v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n",
}


def command(*words: object, options: list[str] = QUICK) -> list[str]:
    return [sys.executable, "-m", "sdfcli", "build", *map(str, words), *options]


def run(*words: object, said: str = "", options: list[str] = QUICK) -> subprocess.CompletedProcess[str]:
    return commands.run("build", *words, *options, said=said)


def lines(text: str) -> list[dict[str, Any]]:
    return reports("build", text)


def rest_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What has not been read of standard output, and standard error, once the process has ended.

    Not `communicate`, which forgets lines that were read ahead.
    """
    with process:
        assert process.stdout
        assert process.stderr
        return process.stdout.read(), process.stderr.read()


def make_scans(folder: Path, count: int) -> list[Path]:
    """Spheres, each of another size."""
    folder.mkdir(exist_ok=True)
    vertices, faces = shapes.icosphere(3)
    paths = [folder / f"scan{k:02}.ply" for k in range(count)]
    for k, path in enumerate(paths):
        trimesh.Trimesh(vertices * (1 + k), faces, process=False).export(path)
    return paths


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """A folder of five good meshes."""
    make_scans(tmp_path / "scans", 5)
    return tmp_path / "scans"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "fields"


def children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdecimal() and int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(entry))
        except OSError:
            pass
    return found


def ticks(pid: int) -> int:
    """Processor time that a process has taken, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def gone(pids: list[int], seconds: float = 300) -> bool:
    """Whether processes end in that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# ---- What comes of each ----


def test_good_and_bad_meshes(scans: Path, out: Path) -> None:
    for name, content in BAD.items():
        (scans / name).write_bytes(content)
    (scans / "deep").mkdir()
    make_scans(scans / "deep", 2)
    done = run(scans, "-r", "-o", out, "--json", "--jobs", 3, "--keep-going")
    assert done.returncode == 3, done.stderr
    outcomes = {Path(each["input"]).relative_to(scans).as_posix(): each for each in lines(done.stdout)}
    assert len(outcomes) == len(done.stdout.splitlines()) == 10
    for name, each in outcomes.items():
        assert (each["status"], each["exit_code"]) == (("failed", 3) if name in BAD else ("ok", 0))
        assert each["output"] == str((out / name).with_suffix(".h5"))
        assert Path(each["output"]).exists() == (each["status"] == "ok")
        if name in BAD:
            assert name in each["error"]
            assert each["error"] in done.stderr
        else:
            assert sdfcli.load(each["output"]).content_sha256 == each["content_sha256"]
    assert "10 meshes: 7 built, 3 failed" in done.stderr
    assert not list(out.rglob(".*"))


def test_the_bytes_of_a_build_alone(scans: Path, out: Path, tmp_path: Path) -> None:
    assert run(scans, "-o", out, "--jobs", 2).returncode == 0
    for mesh in list(scans.iterdir())[:2]:
        alone = tmp_path / "alone.h5"
        assert run(mesh, "-o", alone, "--force").returncode == 0
        assert alone.read_bytes() == (out / mesh.with_suffix(".h5").name).read_bytes()


def test_fail_fast(scans: Path, out: Path) -> None:
    (scans / "a.obj").write_bytes(BAD["nan.obj"])
    done = run(scans, "-o", out, "--json", "--jobs", 1, "--fail-fast")
    assert done.returncode == 3
    assert [each["status"] for each in lines(done.stdout)] == ["failed"]
    assert "5 not done" in done.stderr
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_a_list_on_standard_input(scans: Path, out: Path, separator: str) -> None:
    names = [str(path) for path in sorted(scans.iterdir())[:2]]
    done = run("-", "-o", out, "--quiet", said=separator.join(names) + separator)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in out.iterdir()) == ["scan00.h5", "scan01.h5"]


def test_nothing_is_begun_where_a_name_clashes(scans: Path, out: Path) -> None:
    (scans / "scan03.obj").write_text("")
    done = run(scans, "-o", out)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("quiet", [True, False])
def test_failures_name_their_meshes(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    """Those, too, whose error does not."""
    head = "sdfcli: " if quiet else "[2/9] FAILED "
    for error in ("the octree does not fit", "scans/a b.ply: the octree does not fit"):
        outcome = failure("scans/a b.ply", "a b.h5", OutOfMemoryError(error))
        _show_line(outcome, "[2/9]", Style(json=False, quiet=quiet, verbose=False))
        assert capsys.readouterr().err == f"{head}scans/a b.ply: the octree does not fit\n"


def test_nothing_is_begun_where_a_file_exists(scans: Path, out: Path) -> None:
    out.mkdir()
    (out / "scan03.h5").write_text("precious")
    done = run(scans, "-o", out)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert [path.read_text() for path in out.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--jobs", "0"], 2),
        (["--timeout", "0"], 2),
        (["--threads", "0"], 2),
        (["--device", "cuda:0,0"], 2),
        (["--device", "cuda:0,77"], 4),
        (["--device", "abacus"], 2),
        (["--previous", "missing.h5"], 3),
        (["--jobs", "2", "--scheduler", "tcp://localhost:1"], 2),
    ],
)
def test_requests_that_make_no_sense(scans: Path, out: Path, words: list[str], code: int) -> None:
    done = run(scans, "-o", out, options=words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


@pytest.mark.gpu
def test_workers_that_share_a_gpu(tmp_path: Path, out: Path) -> None:
    """Each builds one field after the other, while the others hold the GPU up."""
    bunny = Path(__file__).resolve().parents[2] / "sample_meshes" / "bunny.ply"
    (tmp_path / "copies").mkdir()
    for number in range(24):
        shutil.copy(bunny, tmp_path / "copies" / f"{number}.ply")
    done = run(tmp_path / "copies", "-o", out, "--json", "--jobs", 6, options=["--device", "cuda"])
    assert done.returncode == 0, done.stdout
    expected = sdfcli.build(bunny, device="cpu").content_sha256
    assert [each["content_sha256"] for each in lines(done.stdout)] == [expected] * 24


# ---- Workers that are lost ----


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGSEGV, 1, "SIGSEGV"), (signal.SIGKILL, 5, "memory"), (signal.SIGSTOP, 7, "--timeout")],
)
def test_a_worker_that_is_lost(scans: Path, out: Path, number: int, code: int, word: str) -> None:
    # A stopped process is one that hangs: it does not even heed a request to end.
    timeout = 8 if number == signal.SIGSTOP else 600
    words = command(scans, "-o", out, "--json", "--jobs", 1, "--timeout", timeout, options=SLOW)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    first = process.stdout.readline()
    (worker,) = children(process.pid)
    before = ticks(worker)
    while ticks(worker) < before + 10:  # an idle one would be replaced without a word
        time.sleep(0.01)
    os.kill(worker, number)
    rest, said = rest_of(process)
    assert process.returncode == code, said
    outcomes = lines(first + rest)
    assert len(outcomes) == 5
    (lost,) = [each for each in outcomes if each["status"] != "ok"]
    assert (lost["status"], lost["exit_code"]) == ("failed", code)
    assert word in lost["error"]
    assert len(list(out.glob("*.h5"))) == 4
    assert gone([worker])


def test_killed_and_begun_again(tmp_path: Path, out: Path) -> None:
    make_scans(tmp_path / "scans", 6)
    words = [tmp_path / "scans", "-o", out, "--json", "--jobs", 2]
    process = subprocess.Popen(
        command(*words, options=SLOW), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout
    process.stdout.readline()
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    assert gone(workers)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.h5")}
    assert 1 <= len(before) < 6
    done = run(*words, "--skip-existing", options=SLOW)
    assert done.returncode == 0, done.stderr
    status = {Path(each["output"]).name: each["status"] for each in lines(done.stdout)}
    assert len(status) == 6
    for name, what in status.items():
        assert what == ("skipped" if name in before else "ok")
        assert sdfcli.load(out / name)
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("words", [[], ["--scheduler", "local"]])
def test_control_c(words: list[str], tmp_path: Path, out: Path, heeded: None) -> None:
    if words:
        pytest.importorskip("distributed")
    make_scans(tmp_path / "scans", 6)
    process = subprocess.Popen(
        command(tmp_path / "scans", "-o", out, "--json", "--jobs", 2, *words, options=SLOW),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    first = process.stdout.readline()
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    rest, said = rest_of(process)
    assert process.returncode == 130, said
    assert said.endswith("sdfcli: interrupted\n")
    assert "Traceback" not in said
    assert "--skip-existing" in said
    assert gone(workers, 5)
    *found, last = lines(first + rest)
    assert (last["error"], last["exit_code"]) == ("interrupted", 130)
    built = {Path(each["output"]).name for each in found}
    assert 1 <= len(built) < 6
    for name in built:
        sdfcli.load(out / name)
    assert not list(out.glob(".*"))


# ---- What is there already ----


def test_a_field_of_something_else_is_not_skipped(scans: Path, out: Path) -> None:
    names = sorted(scans.iterdir())
    assert run(scans, "-o", out).returncode == 0
    names[1].write_bytes(names[0].read_bytes())
    fields = {name: out / name.with_suffix(".h5").name for name in names}
    fields[names[2]].write_bytes(fields[names[2]].read_bytes()[:-1000])
    older = sdfcli.load(fields[names[3]])
    del older.info["verdict"]
    older.save(fields[names[3]], force=True)
    old = {path: path.read_bytes() for path in out.iterdir()}
    done = run(scans, "-o", out, "--json", "--skip-existing")
    assert done.returncode == 2
    outcomes = {Path(each["input"]): each for each in lines(done.stdout)}
    assert [outcomes[name]["status"] for name in names] == ["skipped", "failed", "failed", "failed", "skipped"]
    assert "another mesh" in outcomes[names[1]]["error"]
    assert "not an intact field" in outcomes[names[2]]["error"]
    assert "another version" in outcomes[names[3]]["error"]
    remedy = "; add --force to rebuild it, while fields that are the same are skipped"
    assert all(outcomes[name]["error"].endswith(remedy) for name in names[1:4])
    assert {path: path.read_bytes() for path in out.iterdir()} == old

    done = run(scans, "-o", out, "--json", "--skip-existing", "--force")
    outcomes = {Path(each["input"]): each for each in lines(done.stdout)}
    assert [outcomes[name]["status"] for name in names] == ["skipped", "ok", "ok", "ok", "skipped"]
    assert fields[names[1]].read_bytes() == fields[names[0]].read_bytes()
    assert fields[names[2]].read_bytes() != old[fields[names[2]]]


def test_other_parameters_are_not_skipped(scans: Path, out: Path) -> None:
    words = [scans / "scan00.ply", "-o", out / "scan00.h5"]
    out.mkdir()
    assert run(*words).returncode == 0
    done = run(*words, "--skip-existing")
    assert done.returncode == 0
    assert "skipped" in done.stdout
    for other, says in (
        (["--sign", "winding"], "sign auto, not winding"),
        (["--tolerance", "2e-2"], "tolerance 0.01, not 0.02"),
        (["--depth", "4"], "depth 5, not 4"),
        (["--nearest"], "without --nearest"),
        (["--why"], "without --why"),
    ):
        done = run(*words, "--skip-existing", options=[*QUICK, *other])
        assert done.returncode == 2
        assert says in done.stderr


# ---- The report ----


class Rows(HTMLParser):
    """The texts of a table's cells, row by row, and all that a page refers to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.references: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_the_report(scans: Path, out: Path, tmp_path: Path) -> None:
    strange = scans / 'a <b>"bold"&amp; mesh.ply'
    (scans / "scan00.ply").rename(strange)
    (scans / "nan.obj").write_bytes(BAD["nan.obj"])
    report = tmp_path / "report.html"
    assert run(scans, "-o", out, "--report", report).returncode == 3
    page = report.read_text()
    table = Rows(page)
    head, *rows = table.rows
    assert len(rows) == 6
    assert all(len(row) == len(head) == 15 for row in rows)
    names = re.findall(r'td:nth-child\((\d+)\) { --name: "(.+)"; }', page)  # on narrow screens, which show no head
    assert [(head[int(k) - 1].strip(), int(k)) for k, _ in names] == [(name, k) for k, (_, name) in enumerate(names, 2)]
    assert len(names) == 14
    assert len(table.references) == 5
    assert all(reference.startswith("data:image/png;base64,") for reference in table.references)
    assert not re.search(r"https?://|@import|url\(", page)
    cells = {row[1].removesuffix(row[1][row[1].rfind(str(out)) :]): row for row in rows}
    assert set(cells) == {str(path) for path in scans.iterdir()}
    assert "not finite" in cells[str(scans / "nan.obj")][2]
    assert cells[str(strange)][2:5] == ["good", "watertight", "1,280"]
    done = run(scans, "-o", out, "--report", report, "--skip-existing")
    assert (done.returncode, report.read_text()) == (2, page)
    assert done.stderr == f"sdfcli: {report}: exists; use --force (in Python force=True) to replace it\n"
    assert run(scans, "-o", out, "--report", report, "--skip-existing", "--force").returncode == 3
    assert "skipped" in report.read_text()


def test_pages_beside_the_fields(scans: Path, out: Path, tmp_path: Path) -> None:
    """The report links to them; they are replaced with --force only, and kept if they are the same."""
    strange = scans / 'a "b" #1 ü%20.ply'
    (scans / "scan00.ply").rename(strange)
    report = tmp_path / "deeper" / "report.html"
    words = (scans, "-o", out, "--pages", "--report", report)
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    fields, pages = (sorted(out.rglob(f"*.{ending}")) for ending in ("h5", "html"))
    assert [path.with_suffix(".html") for path in fields] == pages
    assert sorted(each["page"] for each in lines(done.stdout)) == [str(path) for path in pages]
    for field, path in zip(fields, pages, strict=True):
        assert path.read_text() == sdfcli.load(field).view(name=field.stem).html
    links = [unquote(each) for each in Rows(report.read_text()).references if not each.startswith("data:")]
    assert sorted((report.parent / link).resolve() for link in links) == pages
    report.unlink()
    assert run(*words, "--skip-existing").returncode == 0
    report.unlink()
    pages[0].write_text("mine")
    assert run(*words, "--skip-existing").returncode == 2
    assert pages[0].read_text() == "mine"
    assert run(scans, "-o", tmp_path / "new", "--pages", "--report", tmp_path / "new" / pages[1].name).returncode == 2
    assert not (tmp_path / "new").exists()


# ---- Who does what ----


def test_workers_share_threads_and_gpus() -> None:
    settings = Settings()
    assert [each.threads for each in plan(settings, ["cpu"], 100, 1).settings] == [available_threads()]
    many = plan(settings, ["cpu"], 100, 2 * available_threads())
    assert {each.threads for each in many.settings} == {1}
    assert many.share == 2 * available_threads()
    assert len(plan(settings, ["cpu"], 3, 8).settings) == 3
    assert 1 <= len(plan(settings, ["cpu"], 1000, None).settings) <= available_threads()
    gpus = plan(settings, ["cuda:0", "cuda:1"], 100, None)
    assert Counter(each.device for each in gpus.settings) == {"cuda:0": 2, "cuda:1": 2}
    assert gpus.share == 2
    assert Counter(each.device for each in plan(settings, ["cuda:0", "cuda:1"], 100, 3).settings) == {
        "cuda:0": 2,
        "cuda:1": 1,
    }


def test_the_devices_that_share_meshes(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, device, names in (
        (0, "auto", ["cpu"]),
        (3, "auto", ["cuda:0", "cuda:1", "cuda:2"]),
        (3, "cuda", ["cuda:0", "cuda:1", "cuda:2"]),
        (3, "cuda:1", ["cuda:1"]),
        (3, "cuda:2,0", ["cuda:2", "cuda:0"]),
        (3, "cpu", ["cpu"]),
    ):
        monkeypatch.setattr("sdfcli.startup.driver.device_count", lambda count=count: count)
        monkeypatch.setattr("sdfcli.startup.cupy.device_count", lambda count=count: count)
        assert device_names(device) == names
    for device, error in (
        ("cuda:3", DeviceError),
        ("cuda:1,1", UsageError),
        ("cuda:", UsageError),
        ("gpu", UsageError),
    ):
        with pytest.raises(error):
            device_names(device)


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    jobs = [Job("a.ply", "a.h5"), Job("b.ply", "b.h5")]
    outcomes = list(build_all(jobs, plan(Settings(), ["cpu"], 2, 2), None, False))
    assert sorted(each["input"] for each in outcomes) == ["a.ply", "b.ply"]
    assert all(each["exit_code"] == 1 and "no room" in each["error"] for each in outcomes)


def test_an_unexpected_error_of_a_worker_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(pool, "Worker", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        list(build_all([Job("a.ply", "a.h5"), Job("b.ply", "b.h5")], plan(Settings(), ["cpu"], 2, 2), None, False))


# ---- Dask ----


@pytest.mark.nightly
def test_a_cluster_of_which_a_worker_is_killed(tmp_path: Path, out: Path) -> None:
    distributed = pytest.importorskip("distributed")
    make_scans(tmp_path / "scans", 6)
    (tmp_path / "scans" / "nan.obj").write_bytes(BAD["nan.obj"])
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        assert len(pids) == 3
        words = [tmp_path / "scans", "-o", out, "--json", "--scheduler", cluster.scheduler_address]
        process = subprocess.Popen(
            command(*words, options=SLOW), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout
        first = process.stdout.readline()
        busy = [pid for pid in pids.values() if children(pid)]
        beside = children(busy[0])
        os.kill(busy[0], signal.SIGKILL)
        rest, said = rest_of(process)
        assert gone([busy[0], *beside])
        outcomes = {Path(each["input"]).name: each for each in lines(first + rest)}
        assert process.returncode == 3, said
        assert len(outcomes) == 7
        assert outcomes.pop("nan.obj")["exit_code"] == 3
        assert {each["exit_code"] for each in outcomes.values()} == {0}
        for each in outcomes.values():
            assert sdfcli.load(each["output"]).content_sha256 == each["content_sha256"]
        # What the batch had started beside the workers has ended with it.
        assert gone([child for pid in client.run(os.getpid).values() for child in children(pid)])


def test_a_cluster_on_this_machine(scans: Path, out: Path) -> None:
    pytest.importorskip("distributed")
    done = run(scans, "-o", out, "--json", "--scheduler", "local", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert [each["status"] for each in lines(done.stdout)] == ["ok"] * 5
    assert "Traceback" not in done.stderr


def listening(pids: list[int]) -> list[str]:
    """The sockets of processes to which others can connect, as /proc shows them."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(descriptor))
    found = []
    for table, state, inode in (("tcp", "0A", 9), ("tcp6", "0A", 9), ("unix", "00010000", 6)):
        path = Path(f"/proc/{pids[0]}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:  # a system may have no IPv6
            words = line.split()
            if words[3] == state and f"socket:[{words[inode]}]" in sockets:
                found.append(line)
    return found


def test_nobody_else_reaches_a_cluster_on_this_machine(tmp_path: Path, out: Path) -> None:
    """Whoever reaches a scheduler runs code as the user who started it."""
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)):
        assert len(listening([os.getpid()])) >= 1
    make_scans(tmp_path / "scans", 4)
    process = subprocess.Popen(
        command(tmp_path / "scans", "-o", out, "--json", "--scheduler", "local", "--jobs", 2, options=SLOW),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    first = process.stdout.readline()
    family = [process.pid, *children(process.pid)]
    family += [pid for child in family[1:] for pid in children(child)]
    open_to_others = listening(family)
    rest, said = rest_of(process)
    assert open_to_others == []
    assert process.returncode == 0
    assert len(lines(first + rest)) == len(said.splitlines()) - 1 == 4


def test_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    from sdfcli.batch import cluster

    monkeypatch.setattr(cluster, "PATIENCE", 0.5)

    def clients() -> set[int]:
        return {id(each) for each in gc.get_objects() if type(each) is distributed.Client}

    before = clients()
    for address in ("tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(DeviceError, match="no scheduler answers"):
            list(cluster.build_all([], pool.Plan([Settings()], 1), address, None, False))
        assert clients() <= before  # a finaliser within the start of the next client would wait for ever


def test_a_field_without_a_surface_has_a_row(tmp_path: Path) -> None:
    flat, page = tmp_path / "flat.obj", tmp_path / "page.html"
    flat.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n")
    done = run(flat, "-o", tmp_path / "f.h5", "--sign", "winding", "--report", page)
    assert done.returncode == 0, done.stderr
    assert "flat.obj" in page.read_text()


def test_one_mesh_that_fails_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "nan.obj").write_bytes(BAD["nan.obj"])
    page = tmp_path / "page.html"
    assert run(tmp_path / "nan.obj", "-o", tmp_path / "f.h5", "--report", page).returncode == 3
    assert "nan.obj" in page.read_text()


@pytest.mark.parametrize("page", ["same", "folder/../same", "link/same"])
def test_the_page_does_not_take_the_place_of_a_field(scans: Path, tmp_path: Path, page: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    done = run(scans / "scan00.ply", "-o", tmp_path / "same", "--report", tmp_path / page, "--force")
    assert done.returncode == 2
    assert not (tmp_path / "same").exists()


def test_whoever_reads_may_have_enough(scans: Path, out: Path) -> None:
    with subprocess.Popen(
        command(scans, "-o", out, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.close()
        process.communicate()
    assert process.returncode == 141
    assert len(list(out.iterdir())) == 5


def test_a_list_from_elsewhere(scans: Path, out: Path) -> None:
    names = [str(path) for path in sorted(scans.iterdir())[:2]]
    done = run("-", "-o", out, said="\r\n".join([*names, " ", ""]))
    assert done.returncode == 0, done.stderr
    assert len(list(out.iterdir())) == 2


def test_a_field_that_has_appeared_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another batch in the same folder has written it: it is skipped if it is the same, and an error if not."""
    from sdfcli.batch import job
    from sdfcli.batch.messages import Settings

    mesh, target = tmp_path / "ball.ply", tmp_path / "ball.h5"
    trimesh.Trimesh(*shapes.icosphere(2), process=False).export(mesh)
    make = job.build_field
    other = sdfcli.build(mesh, device="cpu", depth=3, tolerance=1e-2)

    def beside(field: sdfcli.Field | None) -> dict[str, object]:
        def build(*words: Any, **options: Any) -> sdfcli.Field:
            made = make(*words, **options)
            (field or made).save(target, force=True)
            return made

        monkeypatch.setattr(job, "build_field", build)
        target.unlink(missing_ok=True)
        settings = Settings("cpu", params=BuildParams(depth=4, tolerance=1e-2), skip_existing=True)
        return job.outcome_of(str(mesh), str(target), settings)

    assert beside(None)["status"] == "skipped"
    failed = beside(other)
    assert (failed["status"], failed["exit_code"]) == ("failed", 2)


def test_the_fields_of_a_folder_need_a_folder(scans: Path, tmp_path: Path) -> None:
    done = run(scans, "-o", tmp_path / "fields.h5")
    assert (done.returncode, (tmp_path / "fields.h5").exists()) == (2, False)
    assert "fields.h5: the outputs of a folder, or of several meshes, need a folder; end its name with /" in done.stderr


@pytest.mark.parametrize(
    ("skipped", "built", "total", "seconds", "said"),
    [
        (0, 1, 100, 10.0, ""),  # parallel builds end together: too few to tell
        (0, 6, 100, 60.0, ""),
        (0, 7, 100, 70.0, "15 min 30 s left"),
        (0, 96, 100, 192.0, ""),  # 8 s
        (50, 7, 100, 70.0, "7 min 10 s left"),  # skipping takes no time
        (50, 0, 100, 1.0, ""),
        (0, 32, 10_000, 32.0, "2 h 46 min left"),
    ],
)
def test_the_remaining_time(skipped: int, built: int, total: int, seconds: float, said: str) -> None:
    done = [{"status": "skipped"}] * skipped + [{"status": "ok"}] * built
    assert time_left_of(done, total, seconds) == said


@pytest.mark.parametrize(("left", "place"), [("", "[  7/100]"), ("16 s left", "[  7/100, 16 s left]")])
def test_the_remaining_time_is_no_part_of_a_message(left: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = failure("x.ply", "x.h5", InputError("x.ply: vertex 100 is not finite"))
    _show_line(outcome, _place(7, 100, left), Style(json=False, quiet=False, verbose=False))
    assert capsys.readouterr().err == f"{place} FAILED x.ply: vertex 100 is not finite\n"


def test_to_continue_a_batch_with_a_page(scans: Path, out: Path, tmp_path: Path) -> None:
    (scans / "a.obj").write_bytes(BAD["nan.obj"])
    page = ["--report", tmp_path / "page.html"]
    for words, said in (([], "--skip-existing"), (page, "--skip-existing and another --report")):
        done = run(scans, "-o", out, "--jobs", 1, "--fail-fast", *words)
        assert done.stderr.splitlines()[-1] == f"  to continue, repeat the command with {said}"


def test_no_names_on_standard_input() -> None:
    done = run("-")
    assert (done.returncode, done.stderr) == (2, "sdfcli: no names on standard input\n")


def test_lines_say_that_a_tolerance_is_missed(tmp_path: Path) -> None:
    for name in "ab":
        trimesh.Trimesh(*shapes.icosphere(3), process=False).export(tmp_path / f"{name}.ply")
    for octree, missed in (("bvh", " misses the tolerance 3.5e-05, "), ("adaptive", "")):
        tolerance = "1e-5" if missed else "5e-2"
        words = tmp_path, "-o", tmp_path / octree, "--octree", octree
        done = run(*words, options=[*QUICK, "--tolerance", tolerance])
        assert done.returncode == 0
        assert all((missed or "misses") in line for line in done.stderr.splitlines()[:2]) == bool(missed)
