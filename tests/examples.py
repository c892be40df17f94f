"""The examples of the documentation, as its pages have them."""

from __future__ import annotations

import linecache
import re
import zlib

from conftest import ROOT

DOCS = ROOT / "docs"
MARKED = re.compile(r"^<!-- (run|run on a GPU|prints) -->\n```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""Blocks under `<!-- run -->` are run, under `<!-- run on a GPU -->` where there is one; those under `<!-- prints -->`
are what the block before them prints."""


def run_python(block: str, names: dict[str, object]) -> None:
    """Runs a block with the names of those before it. Its text can be read again, as Warp does, like a file's."""
    file = f"<example {zlib.crc32(block.encode())}>"
    names["__name__"] = "__main__"
    linecache.cache[file] = len(block), None, block.splitlines(keepends=True), file
    exec(compile(block, file, "exec", dont_inherit=True), names)
