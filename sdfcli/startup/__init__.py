"""What a process does to start fast; `SDFCLI_PLAIN=1` does without, to the same bits (docs/internals/startup.md)."""

import os

PLAIN = os.environ.get("SDFCLI_PLAIN") == "1"
"""Nothing ahead, nothing around: CuPy is imported, compiles, sorts and scans as it does itself."""
