"""Headless Chromium with a software renderer, driven by its ChromeDriver over HTTP; it reaches no network."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --use-angle=swiftshader --enable-unsafe-swiftshader --disable-quic
--no-first-run --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars
--disable-dev-shm-usage --proxy-server=127.0.0.1:9"""
ALONE = "--proxy-bypass-list=<-loopback>"
"""Keeps a browser from servers of this machine."""
LIMIT = 60
"""Seconds for a picture."""


def program() -> str | None:
    """Chromium: SDFCLI_CHROMIUM, or one on the path."""
    return os.environ.get("SDFCLI_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A window. `size` in CSS pixels; a phone has a touch screen. served: reaches servers of this machine, and does not
    wait until a page has arrived."""

    def __init__(self, port: int, folder: str, size: tuple[int, int], phone: bool, served: bool) -> None:
        self._root = f"http://127.0.0.1:{port}"
        flags = FLAGS.split() if served else [*FLAGS.split(), ALONE]
        options: dict[str, Any] = {
            "binary": program(),
            "args": [*flags, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"],
        }
        metrics = {"width": size[0], "height": size[1], "pixelRatio": 1.0, "touch": phone}
        options["mobileEmulation"] = {"deviceMetrics": metrics}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        wanted |= {"pageLoadStrategy": "none" if served else "normal"}
        self._session = self._call("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]

    def _call(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self._root + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LIMIT) as answer:
            return json.load(answer)["value"]

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        return self._call(method, f"/session/{self._session}{path}", **body)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return self._ask("POST", "/execute/sync", script=script, args=list(arguments))

    def open(self, page: Path, view: str = "", wanted: tuple[str, ...] = ("still",)) -> None:
        """Opens a page and waits for its picture. Fails if the page says why there is none."""
        self.visit(page, view)
        self.wait(*wanted)

    def visit(self, page: Path, view: str = "") -> None:
        """Opens a page."""
        self._ask("POST", "/url", url="about:blank")
        self._ask("POST", "/url", url=f"{page.as_uri()}#{view}")

    def go(self, address: str) -> None:
        """Goes to an address."""
        self._ask("POST", "/url", url=address)

    def wait(self, *wanted: str) -> None:
        """Waits for a page's picture: `drawn` with a ray per pixel, `still` when it is finished."""
        end = time.monotonic() + LIMIT
        while (state := self.run("return document.documentElement.dataset.state")) not in wanted:
            assert state != "failed", self.text("message")
            assert time.monotonic() < end, "no picture"
            time.sleep(0.05)

    def text(self, name: str) -> str:
        """An element's text."""
        return str(self.run("return document.getElementById(arguments[0]).textContent", name))

    def scheme(self, dark: bool) -> None:
        """Sets the colour scheme that the user prefers."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("POST", "/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": features})

    def act(self, *actions: dict[str, Any], kind: str = "mouse") -> None:
        """Moves and presses a pointer."""
        source = {"type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": list(actions)}
        self._ask("POST", "/actions", actions=[source])

    def picture(self) -> npt.NDArray[np.uint8]:
        """A screenshot (h, w, 3)."""
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(self._ask("GET", "/screenshot")))).convert("RGB"))

    def faults(self) -> list[str]:
        """Errors since the last call."""
        return [each["message"] for each in self._ask("POST", "/se/log", type="browser") if each["level"] == "SEVERE"]

    def close(self) -> None:
        """Ends the browser."""
        self._ask("DELETE", "")


@contextmanager
def opened(size: tuple[int, int], phone: bool = False, served: bool = False) -> Iterator[Browser]:
    """A browser with one window. Skips the test if Chromium or ChromeDriver is missing."""
    driver = shutil.which("chromedriver")
    if program() is None or driver is None:
        pytest.skip("no Chromium with ChromeDriver: install chromium and chromium-driver, or set SDFCLI_CHROMIUM")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _answers(port)
            browser = Browser(port, folder, size, phone, served)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
            process.wait()


def _answers(port: int) -> None:
    """Waits for the driver."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, "ChromeDriver does not answer"
            time.sleep(0.02)
