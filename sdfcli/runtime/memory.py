"""Host memory: free bytes, a limit for this process, and errors in place of the kernel's OOM killer."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import traceback
from pathlib import Path, PurePosixPath

from sdfcli.errors import InputError, OutOfMemoryError, SdfError, UsageError

if sys.platform == "linux":
    import resource

SHARE = 0.95
"""Share of the free memory that `bound` allows; page tables take some of the rest."""

STACK = 8 << 20
"""Bytes of address space of a thread's stack, hardly any of them used."""

CODE = 40 << 20
"""Bytes of address space for the code of libraries that are not loaded yet."""

M_ARENA_MAX = -8
"""Parameter of `mallopt`, GNU C library: the maximum number of heaps."""

LEAST = 48 << 20
"""Minimum free bytes of a command; with less, libraries abort the process."""

PLENTY, PLENTY_PER_BYTE = 256 << 20, 100
"""Maximum memory for reading a file: bytes, plus bytes per byte of the file."""

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
"""Messages of libraries for a failed allocation, where they raise no MemoryError."""


_bound: list[bool] = []


def free_memory() -> int:
    """Bytes that this process can still allocate: the minimum over the machine, its control groups and its limits."""
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
    """Bytes that this process can still allocate within limits of its own; `sys.maxsize` where it has none."""
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
    """The bytes that a control group has left, as a list of one; empty without a limit. Cached pages of files count as
    free unless they are mapped."""
    bounds = [line[0] for name in (limit, used) for line in _words(f"{folder}/{name}")]
    if len(bounds) != 2 or not all(word.isdecimal() for word in bounds):
        return []
    stat = {line[0].removeprefix("total_"): int(line[1]) for line in _words(f"{folder}/memory.stat")}
    mapped = stat.get("file_mapped", stat.get("mapped_file", 0))
    kept = max(0, stat.get("inactive_file", 0) + stat.get("active_file", 0) - mapped)
    return [max(0, int(bounds[0]) - max(0, int(bounds[1]) - kept))]


def used_memory() -> int:
    """Resident bytes of this process; 0 where unknown."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process().memory_info().rss)
    words = _words("/proc/self/statm")
    return int(words[0][1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _mapped() -> tuple[int, int]:
    """Bytes of this process's address space, and of its private data; 0 where unknown."""
    found = {line[0]: 1024 * int(line[1]) for line in _words("/proc/self/status") if line[0] in ("VmSize:", "VmData:")}
    return found.get("VmSize:", 0), found.get("VmData:", 0)


def bound(most: int | None = None) -> None:
    """Limits this process to the free memory, or to `most` bytes in all: larger allocations fail, instead of the OOM
    killer ending the process.

    The limit is permanent, so only sdfcli's own processes set it, at their start; not those that may use a GPU, whose
    driver reserves much address space. With `most` it only lowers a limit that was set. On Linux alone.
    """
    if sys.platform != "linux" or (most is not None and not _bound):
        return
    _bound.append(True)
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)  # else each thread's heap takes 64 MB of addresses
    free = int(SHARE * free_memory())
    if most is not None:
        free = min(free, most - used_memory())
    data = _mapped()[1] + max(0, free) + STACK * (3 + (os.cpu_count() or 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if data < min(most if most != resource.RLIM_INFINITY else data + 1 for most in (soft, hard)):
        resource.setrlimit(resource.RLIMIT_DATA, (data, hard))


def release_freed() -> None:
    """Gives the system back what was allocated and freed in between, which the C library keeps. On Linux alone, where
    that is the GNU one."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def release_frames(error: BaseException | None) -> None:
    """Frees what the calls held that an exception, and those that caused it, have left."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def require(size: int, what: str) -> None:
    """Raises OutOfMemoryError unless `size` bytes are free. what: the purpose, for the message."""
    free = free_memory()
    if size > free:
        raise OutOfMemoryError(f"{what} takes about {size / 1e6:,.0f} MB of memory, and {free / 1e6:,.0f} MB are free")


def is_shortage(error: BaseException | None) -> bool:
    """Whether an exception, or one that caused it, is a failed allocation."""
    while error is not None:
        if isinstance(error, MemoryError | OutOfMemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error).lower() for words in SHORTAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


def as_sdf_error(error: Exception, subject: str = "") -> SdfError:
    """The SdfError for an exception: itself if it is one, OutOfMemoryError for a failed allocation, else SdfError.
    subject: the start of the message, as a mesh's name."""
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
    """The SdfError for an exception while a file was read, with the file's name: of the same type for an SdfError,
    OutOfMemoryError for a failed allocation, else InputError with `what` as the fault. An allocation that fails though
    much memory is free is InputError: the file states an impossible size."""
    if isinstance(error, SdfError):
        return type(error)(f"{path}: {error}")
    if is_shortage(error) and free_memory() < PLENTY + PLENTY_PER_BYTE * _size(path):
        return OutOfMemoryError(f"{path}: does not fit into memory")
    reason = str(error).strip().splitlines()
    return InputError(f"{path}: {what}: {reason[0] if reason else type(error).__name__}")


def unwritable(output: str | Path, error: OSError) -> SdfError:
    """The SdfError for an exception while something was written, with its name: OutOfMemoryError for a failed
    allocation, else UsageError."""
    if is_shortage(error):
        return as_sdf_error(error, str(output))
    return UsageError(f"{output}: cannot be written: {error.strerror or error}")


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _words(path: str) -> list[list[str]]:
    """The words of each line of a small file; empty where it is missing."""
    try:
        return [line.split() for line in Path(path).read_text().splitlines() if line.strip()]
    except OSError:
        return []
