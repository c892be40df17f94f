"""A web server of this machine that sends parts of files, and counts its bytes."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Site:
    """A file on a server.

    content  its bytes.
    ranges   whether the server sends parts of it.
    short    number of bytes that lack at the end of each answer.
    sent     the first byte and the end of each answer.
    """

    address: str
    content: bytes = b""
    ranges: bool = True
    short: int = 0
    sent: list[tuple[int, int]] = field(default_factory=list)

    @property
    def bytes_sent(self) -> int:
        """Number of bytes sent."""
        return sum(end - first for first, end in self.sent)


@contextmanager
def serving() -> Iterator[Site]:
    """A server of one file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            size, wanted = len(site.content), self.headers.get("Range")
            partial = site.ranges and wanted is not None
            first, last = (int(x) for x in str(wanted).removeprefix("bytes=").split("-")) if partial else (0, size - 1)
            end = max(first, min(last + 1, size) - site.short)
            self.send_response(206 if partial else 200)
            if site.ranges:
                self.send_header("Accept-Ranges", "bytes")
            if partial:
                self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
            self.send_header("Content-Length", str(end - first))
            self.end_headers()
            if self.command == "GET":
                site.sent.append((first, end))
                self.wfile.write(site.content[first:end])

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Whoever has read enough may leave."""

    with Server(("127.0.0.1", 0), Handler) as server:
        site = Site(f"http://127.0.0.1:{server.server_port}/field.h5")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield site
        server.shutdown()
