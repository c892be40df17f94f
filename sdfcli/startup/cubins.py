"""Machine code of GPU modules on disk: compiled with the package, or kept between processes."""

from __future__ import annotations

import functools
import hashlib
import os
from contextlib import suppress
from pathlib import Path

SHIPPED = Path(__file__).resolve().parents[1] / "cubins"
"""One folder per architecture, as `sm_90`; written by tools/cubins.py where a wheel is built."""


@functools.cache
def shipped_name(source: str, options: tuple[str, ...]) -> str:
    """File name of a module's machine code in the package."""
    return hashlib.sha256("\0".join((*options, source)).encode()).hexdigest()[:32] + ".cubin"


def shipped_file(source: str, options: tuple[str, ...], capability: str) -> Path | None:
    """A module's machine code in the package for a compute capability, as "90"; None if the package has none. Machine
    code runs on its architecture and on later ones of the same major version."""
    for minor in range(int(capability[-1]), -1, -1):
        folder = SHIPPED / f"sm_{capability[:-1]}{minor}"
        if folder.is_dir():
            file = folder / shipped_name(source, options)
            return file if file.exists() else None
    return None


def cache_folder() -> Path:
    """CuPy's cache folder. Not by Path.expanduser, which fails for users without a home, as in some containers."""
    return Path(os.path.expanduser(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"))


def cubin_file(*made_for: object) -> Path:
    """The file of a module's machine code. made_for: everything that determines the code: source, options, versions."""
    return cache_folder() / f"sdfcli-{hashlib.sha256(repr(made_for).encode()).hexdigest()}.cubin"


def load_cubin(file: Path) -> bytes:
    """The machine code; empty without a file, or where it does not match its SHA-256."""
    try:
        stored = file.read_bytes()
    except OSError:
        return b""
    return stored[32:] if hashlib.sha256(stored[32:]).digest() == stored[:32] else b""


def save_cubin(file: Path, code: bytes) -> None:
    """Writes the machine code after its SHA-256, whole or not at all; the next process compiles where this fails."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_bytes(hashlib.sha256(code).digest() + code)
        temporary.replace(file)
