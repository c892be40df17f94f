"""Documentation examples."""

from __future__ import annotations

import linecache
import re
import zlib

from conftest import ROOT

DOCS = ROOT / "docs"
MARKED = re.compile(r"^<!-- (run|run on a GPU|run with \w+|prints) -->\n```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""Blocks under `<!-- run -->` are run, under `<!-- run on a GPU -->` where a GPU exists,
under `<!-- run with torch -->` where it is installed; those under `<!-- prints -->`
are the output of the preceding block."""


def run_python(block: str, names: dict[str, object]) -> None:
    """Runs a block with the names of earlier blocks. Its source stays readable like a file's, as Warp requires."""
    file = f"<example {zlib.crc32(block.encode())}>"
    names["__name__"] = "__main__"
    linecache.cache[file] = len(block), None, block.splitlines(keepends=True), file
    exec(compile(block, file, "exec", dont_inherit=True), names)
