"""What stands under an output's name, whatever happens to the process that writes it: all of it, or what was there.

SDFCLI_KILLS is the number of commands that are killed; the default is small, since each starts Python anew.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import oracle
import sdfcli
import shapes
from commands import run
from sdfcli.cli.app import app
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.runtime.files import written_whole

KILLS = int(os.environ.get("SDFCLI_KILLS", "12"))
FORKED_KILLS = 150
QUICK = ["--depth", "6", "--tolerance", "5e-3", "--device", "cpu", "--threads", "1"]


def command(mesh: Path, target: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "sdfcli", "build", str(mesh), "-o", str(target), *QUICK, *words]


def build(mesh: Path, target: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return run("build", mesh, "-o", target, *QUICK, *words, **options)


def check_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line on standard error, and the exit code of a file that cannot be written."""
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("sdfcli: ")
    for word in words:
        assert word in done.stderr


@pytest.fixture
def ball(tmp_path: Path) -> Path:
    path = tmp_path / "meshes" / "ball.ply"
    path.parent.mkdir()
    trimesh.Trimesh(*shapes.icosphere(3), process=False).export(path)
    return path


@pytest.fixture
def old() -> Field:
    return oracle.random_field(np.random.default_rng(1), 30)


@pytest.fixture
def folder(tmp_path: Path, old: Field) -> Path:
    """A folder with an older output in it."""
    path = tmp_path / "out"
    path.mkdir()
    old.save(path / "field.h5")
    return path


def others(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != "field.h5")


# ---- Killed ----


def test_killed_commands(ball: Path, folder: Path, old: Field) -> None:
    target = folder / "field.h5"
    new = sdfcli.build(ball, device="cpu", depth=6, tolerance=5e-3).content_sha256
    start = time.monotonic()
    subprocess.run(command(ball, target, "--force"), check=True, capture_output=True)
    whole = time.monotonic() - start
    assert sdfcli.load(target).content_sha256 == new
    rng = random.Random(1)
    for _ in range(KILLS):
        old.save(target, force=True)
        process = subprocess.Popen(command(ball, target, "--force"), stdout=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0, 1.1 * whole))
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        found = sdfcli.load(target).content_sha256
        assert found in (old.content_sha256, new)
        assert code != 0 or found == new


def forked(work: Callable[[], object]) -> int:
    """A process that does some work, and ends."""
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            work()
        except BaseException as error:  # nothing of the tests may go on in the child
            os._exit(77 if isinstance(error, KeyboardInterrupt) else 1)
        os._exit(0)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def interrupted(child: int, seconds: float = 60) -> int:
    """The exit code of a process that is interrupted, and once more if it has not ended by then: rarely, an interrupt
    that meets the start or the end of one of Python's threads leaves the process waiting for that thread."""
    os.kill(child, signal.SIGINT)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGINT)
    return ended(child)


@pytest.mark.nightly
def test_processes_killed_while_they_write(folder: Path, old: Field) -> None:
    # No build before the file, so that most kills come while it is written.
    target = folder / "field.h5"
    new = oracle.random_field(np.random.default_rng(2), 1500)
    start = time.monotonic()
    assert ended(forked(lambda: new.save(target, force=True))) == 0
    whole = time.monotonic() - start
    rng = random.Random(2)
    seen = set()
    for _ in range(FORKED_KILLS):
        old.save(target, force=True)
        child = forked(lambda: new.save(target, force=True))
        time.sleep(rng.uniform(0, 1.2 * whole))
        os.kill(child, signal.SIGKILL)
        code = ended(child)
        found = sdfcli.load(target).content_sha256
        assert found in (old.content_sha256, new.content_sha256)
        assert code != 0 or found == new.content_sha256
        seen.add(found)
        for name in others(folder):
            assert name.startswith(".")
            assert name.endswith(".tmp")
            (folder / name).unlink()
    assert len(seen) == 2


def has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (OSError, AttributeError):
        return False
    return True


def test_what_is_killed_leaves_nothing(tmp_path: Path) -> None:
    if not has_nameless_files(tmp_path):
        pytest.skip("the file system has no files without names")

    def work() -> None:
        with written_whole(tmp_path / "a", force=False) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert ended(forked(work)) == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


# ---- Interrupted ----


def cpu_seconds(pid: int) -> float:
    """What a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts(ball: Path, folder: Path, old: Field, heeded: None, number: signal.Signals) -> None:
    target = folder / "field.h5"
    slow = ["-q", "--depth", "14", "--tolerance", "1e-5", "--max-memory", "8G", "--force"]  # many seconds anywhere
    rng = random.Random(3)
    for _ in range(2):
        process = subprocess.Popen(
            command(ball, target, *slow),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while cpu_seconds(process.pid) < 1.5:  # by then it has started, however busy the machine is
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 2.0))
        process.send_signal(number)
        said = process.communicate()[1]
        assert process.returncode == 130, said
        *progress, last = said.splitlines()
        assert last == "sdfcli: interrupted"
        assert all(re.fullmatch(r".*, \d+ s", line) for line in progress)  # of a slow machine
        assert others(folder) == []
        assert sdfcli.load(target).content_sha256 == old.content_sha256


IMPORTED = """
import os, signal, sys

class Interrupt:
    @staticmethod
    def find_spec(name, *others):
        if name == sys.argv[-1]:
            sys.argv.pop()
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from sdfcli.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["sdfcli.cli.app", "typer", "typer.core", "sdfcli.cli.check", "numpy"])
def test_an_interrupt_while_modules_are_imported(module: str, ball: Path, heeded: None) -> None:
    words = [sys.executable, "-c", IMPORTED, "check", str(ball), module]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sdfcli: interrupted\n")


def test_an_interrupt_while_the_command_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.core.TyperGroup.parse_args", interrupted)
    done = CliRunner().invoke(app, ["info", "x.h5"])
    assert (done.exit_code, done.stderr) == (130, "sdfcli: interrupted\n")


SWALLOWED = """
import os, signal, sys
from sdfcli.mesh.formats import readers
from sdfcli.__main__ import main

def read(path, real=readers.read_obj):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        if "raise" in os.environ:
            raise ValueError("something else")
    return real(path)

readers.READERS[".obj"] = read
main()
"""


@pytest.mark.parametrize("wish", ["raise", "go on"])
@pytest.mark.parametrize("command", ["build", "check"])
def test_an_interrupt_that_a_library_swallows(command: str, wish: str, tmp_path: Path, heeded: None) -> None:
    mesh = Path(__file__).resolve().parents[2] / "sample_meshes" / "torus.obj"
    words = [sys.executable, "-c", SWALLOWED, command, mesh, "--device", "cpu"]
    environment = {**os.environ, wish: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (130, "sdfcli: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_file_is_written(folder: Path, old: Field) -> None:
    target = folder / "field.h5"
    new = oracle.random_field(np.random.default_rng(2), 1500)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            new.save(target, force=True)
        except KeyboardInterrupt:
            os._exit(77)

    start = time.monotonic()
    assert ended(forked(work)) == 0
    whole = time.monotonic() - start
    rng, codes = random.Random(4), set()
    for _ in range(60):
        old.save(target, force=True)
        child = forked(work)
        time.sleep(rng.uniform(0.2, 1.0) * whole)
        code = interrupted(child)
        codes.add(code)
        assert others(folder) == [] or code == -signal.SIGINT
        assert sdfcli.load(target).content_sha256 in (old.content_sha256, new.content_sha256)
    assert codes <= {0, 77, -signal.SIGINT}


# ---- No room, no right ----


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """mounted(options) is a small file system of its own. The test is skipped where that is not allowed."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        words = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("no right to mount a file system")
        return place

    try:
        yield mount
    finally:
        subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("room", [0, 4, 8])
def test_a_full_disk(mounted: Callable[[str], Path], ball: Path, room: int) -> None:
    folder = mounted(f"size={room + 40}k")
    old = oracle.random_field(np.random.default_rng(1), 5)
    target = old.save(folder / "field.h5")
    (folder / "ballast").write_bytes(bytes(max(0, os.statvfs(folder).f_bavail * 4096 - 1024 * room)))
    done = build(ball, target, "--force")
    check_refused(done, "field.h5", "No space left")
    assert others(folder) == ["ballast"]
    assert sdfcli.load(target).content_sha256 == old.content_sha256


@pytest.mark.parametrize("size", [0, 100, 2_000, 8_000])
def test_files_may_not_grow(ball: Path, folder: Path, old: Field, size: int) -> None:
    done = build(ball, folder / "field.h5", "--force", most=size)
    check_refused(done, "field.h5")
    assert others(folder) == []
    assert sdfcli.load(folder / "field.h5").content_sha256 == old.content_sha256


def test_a_read_only_folder(mounted: Callable[[str], Path], ball: Path) -> None:
    folder = mounted("size=1m")
    old = oracle.random_field(np.random.default_rng(1), 5)
    target = old.save(folder / "field.h5")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    for words, path in ((["--force"], target), ([], folder / "new.h5")):
        done = build(ball, path, *words)
        check_refused(done, path.name, "cannot be written")
    assert os.listdir(folder) == ["field.h5"]
    assert sdfcli.load(target).content_sha256 == old.content_sha256


@pytest.mark.parametrize(
    "words",
    [
        "extract nothing.h5 -o missing/a.ply",
        "render nothing.h5 -o missing/a.png",
        "slice nothing.h5 -o missing/a.png",
        "export nothing.h5 missing/a.npz",
        "query nothing.h5 - -o missing/a.npy",
        "build nothing.ply --report missing/a.html",
        "bench nothing.ply --device cpu --csv missing/a.csv",
        "profile nothing.ply --csv missing/a.csv",
    ],
)
def test_a_file_for_a_folder_is_noticed_before_the_work(
    words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "missing").touch()
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.output) == (2, "sdfcli: missing: cannot be used: that is not a folder\n")
    (folder / "missing").unlink()
    CliRunner().invoke(app, words.split())
    assert (folder / "missing").exists() == ("--report" in words)  # folders are created with their first file


def test_missing_folders_are_created(ball: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    field, points = "new/fields/ball.h5", folder / "points.txt"
    points.write_text("0 0 0\n")
    commands = [
        f"build {ball} -o {field} --report new/pages/all.html {' '.join(QUICK)}",
        f"extract {field} -o new/a/x.ply",
        f"render {field} -o new/b/x.png --size 32x32",
        f"slice {field} -o new/c/x.png --size 64",
        f"export {field} new/d/x.raw --resolution 4",
        f"query {field} {points} -o new/e/x.npy",
        f"sequence {ball} {ball} -o new/f/x.h5 {' '.join(QUICK)}",
        f"collide {field} {ball} --contacts new/g/x.csv",
    ]
    for words in commands:
        done = CliRunner().invoke(app, words.split())
        assert done.exit_code == 0, (words, done.output)
    assert {path.parent.name for path in (folder / "new").rglob("x.*")} == set("abcdefg")


def test_what_is_no_file_is_not_replaced(ball: Path, folder: Path, old: Field) -> None:
    """Those who may write to /dev would have no /dev/null any more."""
    os.mkfifo(folder / "pipe.h5")
    (folder / "folder.h5").mkdir()
    for path in (folder / "pipe.h5", folder / "folder.h5"):
        with pytest.raises(UsageError, match="cannot be written: that is"):
            old.save(path, force=True)
    done = build(ball, folder / "pipe.h5", "--force")
    check_refused(done, "pipe.h5", "that is not a regular file")
    assert (folder / "pipe.h5").is_fifo()
    (folder / "folder.h5").rmdir()
    assert others(folder) == ["pipe.h5"]


def test_links_are_not_replaced(ball: Path, folder: Path, old: Field) -> None:
    """Neither what they lead to: that may lie anywhere."""
    (folder / "field.h5").rename(folder / "real.h5")
    for place, target in (("field.h5", "real.h5"), ("out.h5", "/dev/fd/1"), ("new.h5", "nothing.h5")):
        (folder / place).symlink_to(target)
        with pytest.raises(UsageError, match="that is a link; name the file"):
            old.save(folder / place, force=True)
        for words in ([], ["--force"]):
            done = build(ball, folder / place, *words)
            check_refused(done, place, "that is a link")
        assert os.readlink(folder / place) == target
    assert sdfcli.load(folder / "real.h5").content_sha256 == old.content_sha256
    assert others(folder) == ["new.h5", "out.h5", "real.h5"]


def test_a_link_to_a_field_is_left_alone(ball: Path, folder: Path) -> None:
    assert build(ball, folder / "real.h5").returncode == 0
    (folder / "link.h5").symlink_to("real.h5")
    done = build(ball, folder / "link.h5", "--skip-existing")
    assert (done.returncode, "skipped" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        "build IN -o SAME.h5",
        "build IN -o SAME.h5 --skip-existing",
        "build IN IN2 --report SAME",
        "build IN2 -o SAME.h5 --previous IN",
        "extract IN -o SAME.ply",
        "render IN -o SAME.png",
        "slice IN -o SAME.png",
        "export IN SAME.npz",
        "query IN IN2 -o SAME.csv",
        "query IN2 IN -o SAME.csv",
        "query IN2 - -o SAME.csv",
        "bench IN --csv SAME --device cpu",
        "profile IN --csv SAME",
    ],
)
def test_an_input_is_not_replaced(words: str, folder: Path, old: Field) -> None:
    """Not even with --force, and under another name neither."""
    given = folder / "field.h5"
    same = next(word for word in words.split() if word.startswith("SAME"))
    os.link(given, folder / same)
    (folder / "IN2").write_bytes(b"")
    filled = [sys.executable, "-m", "sdfcli", *re.sub(r"\bIN\b", str(given), words).split(), "--force"]
    before = given.read_bytes()
    with open(given, "rb") as stdin:
        done = subprocess.run(filled, cwd=folder, stdin=stdin, capture_output=True, text=True, check=False)
    check_refused(done, f"{same}: cannot be written: that is an input")
    assert (folder / same).read_bytes() == given.read_bytes() == before


def test_permissions(folder: Path, old: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """New files have what everyone's have, replaced ones what they had: on every kind of file system."""
    before = os.umask(0o027)
    try:
        for place in ("one.h5", "two.h5"):
            old.save(folder / place)
            assert (folder / place).stat().st_mode & 0o777 == 0o640
            for mode in (0o600, 0o444, 0o604):
                (folder / place).chmod(mode)
                old.save(folder / place, force=True)
                assert (folder / place).stat().st_mode & 0o777 == mode
            monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    finally:
        os.umask(before)


def test_no_output_runs_with_the_rights_of_its_owner(folder: Path, old: Field) -> None:
    """Whoever else may write to the folder could have put such a file there, to be filled by the superuser."""
    (folder / "field.h5").chmod(0o6755)
    old.save(folder / "field.h5", force=True)
    assert (folder / "field.h5").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", ["x" * 300 + ".h5", "field.h5/below.h5"])
def test_names_that_cannot_be(ball: Path, folder: Path, name: str) -> None:
    done = build(ball, folder / name)
    check_refused(done, "cannot be written: ")


def test_a_closed_folder(ball: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the superuser none is closed."""
    (folder / "closed").mkdir()

    def closed(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def refuse(path: Any, *words: Any, **options: Any) -> os.stat_result:
            if "closed/" in str(path):
                raise PermissionError(errno.EACCES, "Permission denied")
            return look(path, *words, **options)

        return refuse

    with monkeypatch.context() as patches:
        patches.setattr(os, "lstat", closed(os.lstat))
        patches.setattr(os, "stat", closed(os.stat))
        done = CliRunner().invoke(app, ["build", str(ball), "-o", f"{folder}/closed/", *QUICK])
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output
    assert "closed/ball.h5: cannot be written: Permission denied" in done.output


@pytest.mark.parametrize(
    "words",
    [
        "build NAME",
        "build NAME NAME2 -o out/",
        "check NAME",
        "info NAME",
        "query NAME points.txt",
        "query field.h5 NAME",
        "extract NAME",
        "render NAME",
        "slice NAME",
        "export NAME a.npz",
        "verify NAME --mesh NAME",
        "verify field.h5 --mesh NAME",
        "bench NAME --device cpu",
    ],
)
def test_inputs_whose_names_are_too_long(words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, words.replace("NAME", "x" * 300 + ".npy").split())
    assert done.exit_code in (2, 3), done.output
    assert "internal error" not in done.output


# ---- Two at once ----


@pytest.mark.parametrize("nameless", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_of_two_writers_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool, links: bool
) -> None:
    """Whatever the file system offers."""

    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", link)
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target = tmp_path / "a"

    def write(text: str, force: bool = False, meanwhile: Callable[[], None] = lambda: None) -> None:
        with written_whole(target, force) as temporary:
            temporary.write_text(text)
            meanwhile()

    with pytest.raises(UsageError, match="a: exists; use --force"):
        write("first", meanwhile=lambda: write("second"))
    assert target.read_text() == "second"
    write("third", force=True)
    assert (target.read_text(), os.listdir(tmp_path)) == ("third", ["a"])


@pytest.mark.parametrize("force", [False, True])
def test_two_builds_of_one_output(tmp_path: Path, ball: Path, force: bool) -> None:
    torus = tmp_path / "meshes" / "torus.ply"
    trimesh.Trimesh(*shapes.torus(40, 20), process=False).export(torus)
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "field.h5"
    whole = {sdfcli.build(mesh, device="cpu", depth=6, tolerance=5e-3).content_sha256 for mesh in (ball, torus)}
    for _ in range(2):
        target.unlink(missing_ok=True)
        words = ["--force"] if force else []
        both: list[Any] = [
            subprocess.Popen(
                command(mesh, target, *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            for mesh in (ball, torus, ball)
        ]
        said = [process.communicate()[1] for process in both]
        codes = sorted(process.returncode for process in both)
        assert codes == ([0, 0, 0] if force else [0, 2, 2]), said
        assert sdfcli.load(target).content_sha256 in whole
        assert others(folder) == []


def test_an_interrupt_in_a_destructor_is_remembered_and_not_told_of() -> None:
    program = """
import os, signal
from sdfcli.runtime import interrupts
interrupts.watch(signal.SIGTERM)
class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        list(map(str, range(1000)))
Thing()
assert interrupts.seen()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
