"""Host memory: free bytes, a limit for this process, and errors instead of the kernel's OOM killer."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from sdfcli.errors import InputError, OutOfMemoryError, SdfError, UsageError

if sys.platform == "linux":
    import resource

SHARE = 0.95
"""Share of free memory that `bound` allows; page tables take some of the rest."""

STACK = 8 << 20
"""Address space of a thread's stack, in bytes; hardly any of it is used."""

CODE = 40 << 20
"""Address space for the code of libraries not loaded yet, in bytes."""

M_ARENA_MAX = -8
"""`mallopt` parameter, GNU C library: maximum heap count."""

LEAST = 48 << 20
"""Minimum free bytes for a command; with less, libraries abort the process."""

PLENTY, PLENTY_PER_BYTE = 256 << 20, 100
"""Maximum memory for reading a file: bytes, plus bytes per file byte."""

SHORTAGES = (
    "can't start new thread",
    "bad_alloc",  # C++
    "cannot allocate memory",
    "cannot apply additional memory protection",
    "error return without exception set",  # NumPy, in iterators
    "failed to map segment",
    "memory allocation failed",
    "not enough memory",
    "out of memory",
    "returned null without setting an exception",  # NumPy, in iterators
    "unable to allocate",
)
"""Messages of failed allocations from libraries that do not raise MemoryError."""


_bound: list[bool] = []


def free_memory() -> int:
    """Bytes this process can still allocate: the minimum over the machine, its control groups and its limits."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.virtual_memory().available)
    free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _words("/proc/meminfo"):
        if line[0] == "MemAvailable:":
            free = [1024 * int(line[1])]
    groups = {parts[1]: parts[2] for parts in (line[0].split(":", 2) for line in _words("/proc/self/cgroup"))}
    for root, group, limit, used in (
        ("/sys/fs/cgroup", groups.get(""), "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", groups.get("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        place = PurePosixPath(group or "/")
        for above in (place, *place.parents):  # a limit holds for all groups below
            free += _left(f"{root}{above}".rstrip("/"), limit, used)
    return min(*free, allowed_memory())


def allowed_memory() -> int:
    """Bytes this process can still allocate within its own limits; `sys.maxsize` without limits."""
    free = [sys.maxsize]
    if sys.platform == "linux":
        limits = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_DATA)[0]
        if limits != (resource.RLIM_INFINITY, resource.RLIM_INFINITY):
            mapped, data = _mapped()
            for most, taken in zip(limits, (mapped + CODE, data), strict=True):
                if most != resource.RLIM_INFINITY:
                    free.append(max(0, most - taken))
    return min(free)


def _left(folder: str, limit: str, used: str) -> list[int]:
    """Bytes left in a control group, as a list of one; empty without a limit. Cached file pages count as free unless
    they are mapped."""
    bounds = [line[0] for name in (limit, used) for line in _words(f"{folder}/{name}")]
    if len(bounds) != 2 or not all(word.isdecimal() for word in bounds):
        return []
    stat = {line[0].removeprefix("total_"): int(line[1]) for line in _words(f"{folder}/memory.stat")}
    mapped = stat.get("file_mapped", stat.get("mapped_file", 0))
    kept = max(0, stat.get("inactive_file", 0) + stat.get("active_file", 0) - mapped)
    return [max(0, int(bounds[0]) - max(0, int(bounds[1]) - kept))]


def used_memory() -> int:
    """Resident bytes of this process; 0 if unknown."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process().memory_info().rss)
    words = _words("/proc/self/statm")
    return int(words[0][1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _mapped() -> tuple[int, int]:
    """This process's address space and private data, in bytes; 0 if unknown."""
    found = {line[0]: 1024 * int(line[1]) for line in _words("/proc/self/status") if line[0] in ("VmSize:", "VmData:")}
    return found.get("VmSize:", 0), found.get("VmData:", 0)


def bound(most: int | None = None) -> None:
    """Limits this process to the free memory, or to `most` bytes in total: larger allocations fail, instead of the OOM
    killer ending the process.

    The limit is permanent, so only sdfcli's own processes set it, at their start, unless they may use a GPU, whose
    driver reserves much address space. `most` only lowers a limit already set. Linux only.
    """
    if sys.platform != "linux" or (most is not None and not _bound):
        return
    _bound.append(True)
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)  # else each thread's heap reserves 64 MB
    free = int(SHARE * free_memory())
    if most is not None:
        free = min(free, most - used_memory())
    data = _mapped()[1] + max(0, free) + STACK * (3 + (os.cpu_count() or 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if data < min(most if most != resource.RLIM_INFINITY else data + 1 for most in (soft, hard)):
        resource.setrlimit(resource.RLIMIT_DATA, (data, hard))


def release_freed() -> None:
    """Returns freed memory, which the C library retains, to the system. Only on Linux with the GNU C library."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def release_frames(error: BaseException | None) -> None:
    """Frees the local variables in the tracebacks of an exception and its causes."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def memory_errors(
    remedies: str = "try a larger --tolerance, a smaller --depth, or more --max-memory",
) -> Iterator[None]:
    """Converts a MemoryError in the context to OutOfMemoryError, with remedies; by default a build's."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; {remedies}") from error


def require(size: int, what: str) -> None:
    """Raises OutOfMemoryError unless `size` bytes are free. what: purpose, for the message."""
    free = free_memory()
    if size > free:
        raise OutOfMemoryError(f"{what} takes about {size / 1e6:,.0f} MB of memory, and {free / 1e6:,.0f} MB are free")


@cache
def require_blas() -> None:
    """Raises OutOfMemoryError unless memory suffices for OpenBLAS's buffer of 32 MB, without which a first product of
    matrices ends the process."""
    require(40_000_000, "linear algebra")


def is_shortage(error: BaseException | None) -> bool:
    """Whether an exception or one of its causes is a failed allocation."""
    while error is not None:
        if isinstance(error, MemoryError | OutOfMemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error).lower() for words in SHORTAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


def as_sdf_error(error: Exception, subject: str = "") -> SdfError:
    """The SdfError for an exception: the exception itself if it is one, OutOfMemoryError for a failed allocation, else
    SdfError. subject: start of the message, such as a mesh's name."""
    if isinstance(error, SdfError):
        return error
    about = f"{subject}: " if subject else ""
    if is_shortage(error):
        return OutOfMemoryError(
            f"{about}out of memory: {error or 'an allocation failed'}; try a smaller input or coarser parameters, or "
            "allow more (--max-memory, ulimit, control group)"
        )
    return SdfError(f"{about}internal error: {type(error).__name__}: {error}")


def unreadable(path: str | Path, what: str, error: Exception) -> SdfError:
    """The SdfError for an exception while reading a file, with the file's name: the same type for an SdfError,
    OutOfMemoryError for a failed allocation, else InputError with the given fault. A failed allocation with much
    memory free is an InputError: the file states an impossible size."""
    if isinstance(error, SdfError):
        return type(error)(f"{path}: {error}")
    if is_shortage(error) and free_memory() < PLENTY + PLENTY_PER_BYTE * _size(path):
        return OutOfMemoryError(f"{path}: does not fit into memory")
    reason = str(error).strip().splitlines()
    return InputError(f"{path}: {what}: {reason[0] if reason else type(error).__name__}")


def unwritable(output: str | Path, error: OSError) -> SdfError:
    """The SdfError for an exception while writing an output, with its name: OutOfMemoryError for a failed allocation,
    else UsageError."""
    if is_shortage(error):
        return as_sdf_error(error, str(output))
    return UsageError(f"{output}: cannot be written: {error.strerror or error}")


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _words(path: str) -> list[list[str]]:
    """Words per line of a small file; empty if it is missing."""
    try:
        return [line.split() for line in Path(path).read_text().splitlines() if line.strip()]
    except OSError:
        return []
