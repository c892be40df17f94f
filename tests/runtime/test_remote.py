"""Meshes and fields elsewhere: a web server and S3 of this machine, and archives."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.http import HTTPFileSystem
from typer.testing import CliRunner

import sdfcli
from commands import run, server
from conftest import ROOT
from sdfcli.cli.app import app
from sdfcli.errors import DeviceError, InputError, UsageError
from sdfcli.runtime import remote

TORUS = ROOT / "sample_meshes" / "torus.obj"
BRACKET = ROOT / "sample_meshes" / "bracket.stl"
QUICK = ("--device", "cpu", "--depth", "3")
PASSWORD = "secret-word"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is left in the folder of temporary files, and nothing says a password."""
    server()  # whose own folder is not the test's
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    yield
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of a server with torus.obj, which asks for a password below /closed, and cuts /cut short."""
    content = TORUS.read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, allowed = self.path.partition("?")[0], f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"
            code = 200 if name.endswith("torus.obj") else 404
            if name.startswith("/closed") and self.headers.get("Authorization") != allowed:
                code = 401
            self.send_response(code)
            self.send_header("Content-Length", str(len(content) if code == 200 else 0))
            self.end_headers()
            if code == 200 and self.command == "GET":
                self.wfile.write(content[: len(content) // 2] if name.startswith("/cut") else content)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 of this machine."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A new bucket, `meshes`, with torus.obj."""
    import s3fs

    for name, value in (("ENDPOINT_URL", endpoint), ("ACCESS_KEY_ID", "me"), ("SECRET_ACCESS_KEY", PASSWORD)):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    if system.exists("meshes"):
        system.rm("meshes", recursive=True)
    system.mkdir("meshes")
    system.put_file(str(TORUS), "meshes/torus.obj")
    return system


def built(*words: object) -> tuple[int, list[dict[str, Any]], str]:
    done = run("build", *words, "--json", *QUICK)
    assert PASSWORD not in done.stdout + done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def expected() -> str:
    return sdfcli.build(TORUS, device="cpu", depth=3).content_sha256


def test_from_the_web(web: str, expected: str) -> None:
    code, (report,), _ = built(f"http://{web}/a/torus.obj")
    assert (code, report["input"], report["output"]) == (0, f"http://{web}/a/torus.obj", "torus.h5")
    assert report["content_sha256"] == expected == sdfcli.load("torus.h5").content_sha256


def test_passwords_are_not_shown(web: str) -> None:
    """Those of the user's name, and of signed queries."""
    code, (report,), said = built(f"http://me:{PASSWORD}@{web}/closed/torus.obj?signature={PASSWORD}", "-o", "a.h5")
    assert (code, report["input"]) == (0, f"http://{web}/closed/torus.obj"), said
    for address in (f"http://me:{PASSWORD}x@{web}/closed/torus.obj", f"http://{web}/none.ply?key={PASSWORD}"):
        for words in (
            ("build", address, "-o", "b.h5"),
            ("check", address),
            ("build", address, BRACKET, "-o", f"{len(address)}/", *QUICK),
        ):
            done = run(*words)
            assert done.returncode == 3, done.stderr
            assert PASSWORD not in done.stdout + done.stderr
            assert web in done.stderr
    assert not Path("b.h5").exists()


@pytest.mark.parametrize("scheme", ["http", "HTTPS", "s3", "ftp"])
@pytest.mark.parametrize(
    "words",
    [
        ("info",),
        ("info", "--json"),
        ("check", "--json"),
        ("check", "--debug"),
        ("build", "--debug", "-o", "a.h5"),
        ("build", "--json", "-o"),
        ("build", TORUS, "-o"),
        ("query", "--debug"),
        ("extract", "-o", "a.ply"),
        ("slice", "-o"),
        ("verify", "a.h5", "--mesh"),
        ("collide", "--json", TORUS),
        ("render", "--unknown"),
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_no_command_says_a_password(words: tuple[str, ...], scheme: str) -> None:
    """Whatever the command makes of the name: a path, a mesh, or nothing."""
    command, *more = map(str, words)
    name = f"{scheme}://me:{PASSWORD}@127.0.0.1:9/x.ply?key={PASSWORD}"
    done = CliRunner().invoke(app, [command, *more, name])
    assert done.exit_code != 0
    assert PASSWORD not in done.output


def test_a_traceback_says_no_password() -> None:
    done = run("query", f"http://me:{PASSWORD}@127.0.0.1:9/x.ply?key={PASSWORD}", "-", "--debug")
    assert "Traceback" in done.stderr
    assert PASSWORD not in done.stderr


def test_names_without_a_file(web: str) -> None:
    for name in (f"http://{web}/.", f"http://{web}/..", f"http://{web}/a/", f"http://{web}", "zip://::a.zip"):
        code, found, said = built(name)
        assert (code, len(said.splitlines())) == (2, 1), name
        assert "names no file" in said
        assert [each["exit_code"] for each in found] == [2]


def test_every_link_of_a_chain_is_checked(tmp_path: Path) -> None:
    os.mkfifo("pipe")
    for archive in ("pipe", "/dev/zero", "none.zip", "."):
        code, _, said = built(f"zip://a.obj::{archive}", "-o", "a.h5")
        assert (code, len(said.splitlines())) == (3, 1), archive
    for chain in ("zip://a::ftp://host/a.zip", "zip://a::file:///a.zip", "zip://a::simplecache::https://host/a.zip"):
        code, _, said = built(chain, "-o", "a.h5")
        assert (code, len(said.splitlines())) == (2, 1), chain
    code, _, said = built("https://host/a.zip::b.zip", "-o", "a.h5")
    assert code == 2


def test_only_silence_ends_a_download(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it may take any time, also that of an archive."""
    made: list[Any] = []
    whole = HTTPFileSystem.__init__
    monkeypatch.setattr(HTTPFileSystem, "__init__", lambda self, *a, **k: (made.append(k), whole(self, *a, **k))[1])
    for name in (f"HTTP://{web}/torus.obj", f"zip://torus.obj::http://{web}/torus.obj"):
        made.clear()
        HTTPFileSystem.clear_instance_cache()
        with contextlib.suppress(InputError), remote.local_input(name):
            pass
        assert made
        for each in made:
            timeout = each["client_kwargs"]["timeout"]
            assert (timeout.total, timeout.sock_read) == (None, remote.SILENCE)


@pytest.mark.parametrize("place", ["none.ply", "closed/torus.obj", "cut/torus.obj"])
def test_what_cannot_be_fetched(web: str, place: str) -> None:
    code, (report,), said = built(f"http://{web}/{place}", "-o", "a.h5")
    assert (code, report["status"], len(said.splitlines())) == (3, "failed", 1)
    assert report["error"].startswith(f"http://{web}/{place}: ")
    assert not Path("a.h5").exists()


def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, _, said = built(f"http://127.0.0.1:{port}/a.ply")
    assert (code, len(said.splitlines())) == (3, 1)


def test_members_of_archives(expected: str) -> None:
    with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(TORUS, "deep/torus.obj")
    code, (report,), _ = built("zip://deep/torus.obj::a.zip")
    assert (code, report["output"], report["content_sha256"]) == (0, "torus.h5", expected)
    code, (report,), said = built("zip://deep/none.obj::a.zip", "-o", "b.h5")
    assert (code, len(said.splitlines())) == (3, 1)
    Path("b.zip").write_bytes(Path("a.zip").read_bytes()[:-100])
    assert built("zip://deep/torus.obj::b.zip", "-o", "b.h5")[0] == 3


def test_errors_name_the_remote_file() -> None:
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("bad.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n")
    _, (report,), _ = built("zip://bad.obj::a.zip")
    assert report["error"] == "zip://bad.obj::a.zip: line 4: names vertex 4, but there are 3"


def test_into_s3(bucket: Any, expected: str) -> None:
    code, (report,), said = built("s3://meshes/torus.obj", "-o", "s3://meshes/fields/torus.h5")
    assert (code, report["output"], report["content_sha256"]) == (0, "s3://meshes/fields/torus.h5", expected), said
    bucket.get_file("meshes/fields/torus.h5", "back.h5")
    assert sdfcli.load("back.h5").content_sha256 == expected
    assert Path("back.h5").stat().st_size == report["bytes"]
    # What is there stays, whatever is said.
    for more in ((), ("--force",), ("--skip-existing",)):
        before = bucket.info("meshes/fields/torus.h5")["LastModified"]
        code, found, said = built(TORUS, "-o", "s3://meshes/fields/torus.h5", *more)
        assert (code, len(said.splitlines())) == (2, 1)
        assert [each["exit_code"] for each in found] == [2]
        assert bucket.info("meshes/fields/torus.h5")["LastModified"] == before


def test_several_into_s3(bucket: Any) -> None:
    """By worker processes; one that fails leaves nothing."""
    Path("bad.obj").write_text("v 0 0 0\n")
    code, found, _ = built("s3://meshes/torus.obj", "bad.obj", "-o", "s3://meshes/many/")
    assert code == 3
    assert {each["output"]: each["status"] for each in found} == {
        "s3://meshes/many/torus.h5": "ok",
        "s3://meshes/many/bad.h5": "failed",
    }
    assert bucket.ls("meshes/many", refresh=True) == ["meshes/many/torus.h5"]


def test_a_race_is_lost(bucket: Any) -> None:
    """An object that comes while the field is built stays."""

    def race() -> None:
        with remote.local_output("s3://meshes/late.h5") as path:
            Path(path).write_bytes(b"ours")
            bucket.pipe_file("meshes/late.h5", b"theirs")

    with pytest.raises(UsageError, match="exists; what is elsewhere is never replaced"):
        race()
    assert bucket.cat_file("meshes/late.h5") == b"theirs"


def test_an_error_sends_nothing(bucket: Any) -> None:
    def fail() -> None:
        with remote.local_output("s3://meshes/new.h5") as path:
            Path(path).write_bytes(b"half")
            raise InputError("stop")

    with pytest.raises(InputError):
        fail()
    assert not bucket.exists("meshes/new.h5")


def test_places_that_are_not_there(bucket: Any) -> None:
    code, _, said = built("s3://nowhere/a.ply")
    assert (code, len(said.splitlines())) == (3, 1)
    code, _, said = built(TORUS, "-o", "s3://nowhere/a.h5")
    assert (code, len(said.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    "words", [("ftp://host/a.ply",), (TORUS, "-o", "https://host/a.h5"), (TORUS, "-o", "file:///a.h5")]
)
def test_other_protocols(words: tuple[object, ...]) -> None:
    code, _, said = built(*words)
    assert (code, len(said.splitlines())) == (2, 1)
    assert "://, " in said or "s3://" in said


def test_no_room(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SPARE", 1 << 60)
    with (
        pytest.raises(InputError, match=r"MB do not fit into .*: set TMPDIR"),
        remote.local_input(f"http://{web}/torus.obj"),
    ):
        pass


def test_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(DeviceError, match=r"pip install 'sdfcli\[remote\]'"), remote.local_input("https://host/a.ply"):
        pass


def test_commands_that_need_none_import_none() -> None:
    script = "import sys; from sdfcli.batch import job; print('fsspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("https://a:b@host/x.ply?k=1", "https://host/x.ply"),
        ("s3://bucket/x.ply", "s3://bucket/x.ply"),
        ("zip://x.ply::https://a:b@host/y.zip?k=1", "zip://x.ply::https://host/y.zip"),
        ("got https://h/x?k=1: no, and https://u:p@q@h/y", "got https://h/x: no, and https://h/y"),
        ("a/b.ply?x", "a/b.ply?x"),
        ("HTTPS://a:b@host/x.ply?k=1", "HTTPS://host/x.ply"),
        ("https://a:b/c@host/x.ply", "https://host/x.ply"),
        ("https://host:80/x@2.ply", "https://host:80/x@2.ply"),
        ("https://host/x.ply?k=a::b: no", "https://host/x.ply: no"),
        ("https://host/x.ply#k=1", "https://host/x.ply"),
        ("zip://x.ply::https://h/y.zip?k=a::b", "zip://x.ply::https://h/y.zip"),
        ("https:/a:b@host/x.ply?k=1: no such file", "https:/host/x.ply: no such file"),
    ],
)
def test_shown(name: str, words: str) -> None:
    assert remote.shown(name) == words


def test_file_names() -> None:
    names = ("https://h/a/x.ply?k=/y.obj", "zip://d/x.ply::a.zip", "s3://b/x.ply")
    assert [remote.file_name(name) for name in names] == ["x.ply"] * 3
    assert [remote.is_remote(name) for name in (*names, "x.ply", "/a/x.ply", "C:\\x.ply")] == [True] * 3 + [False] * 3
