"""Memory of the host: how much is free, and an error where there is too little, before the system ends the process."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
from pathlib import Path, PurePosixPath

from sdfcli.errors import InputError, OutOfMemoryError, SdfError

SHARE = 0.95
"""Of the free memory that `bound` allows: the system's own tables for a process take some, too."""

STACK = 8 << 20
"""Bytes of address space for each thread, of which hardly any are used."""

CODE = 40 << 20
"""Bytes of address space that the code of libraries takes which are loaded later."""

M_ARENA_MAX = -8
"""What `mallopt` of the GNU C library calls the number of its heaps."""

LEAST = 48 << 20
"""Bytes without which no command gets far: libraries end the process where they find less."""

PLENTY, PLENTY_PER_BYTE = 256 << 20, 100
"""Reading a file never takes more than so many bytes, and so many for each of its own."""

SHORTAGES = (
    "can't start new thread",
    "cannot allocate memory",
    "cannot apply additional memory protection",
    "failed to map segment",
    "memory allocation failed",
    "not enough memory",
    "out of memory",
    "unable to allocate",
    "unknown error (<string>, line 0)",  # lxml
)
"""How libraries say that an allocation failed, where they raise no MemoryError."""


_bound: list[bool] = []


def free_memory() -> int:
    """The bytes of memory that this process can still get: of this machine, its control groups, and its limits."""
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
    mapped, data = _mapped()
    for which, taken in ((resource.RLIMIT_AS, mapped + CODE), (resource.RLIMIT_DATA, data)):
        most = resource.getrlimit(which)[0]
        if most != resource.RLIM_INFINITY:
            free.append(max(0, most - taken))
    return min(free)


def _left(folder: str, limit: str, used: str) -> list[int]:
    """What a control group allows to be used beside what is; nothing where it has no limit. The system takes back what
    it keeps of files, unless they are mapped."""
    bounds = [line[0] for name in (limit, used) for line in _words(f"{folder}/{name}")]
    if len(bounds) != 2 or not all(word.isdecimal() for word in bounds):
        return []
    stat = {line[0].removeprefix("total_"): int(line[1]) for line in _words(f"{folder}/memory.stat")}
    mapped = stat.get("file_mapped", stat.get("mapped_file", 0))
    kept = max(0, stat.get("inactive_file", 0) + stat.get("active_file", 0) - mapped)
    return [max(0, int(bounds[0]) - max(0, int(bounds[1]) - kept))]


def used_memory() -> int:
    """The bytes of memory that this process has; 0 where the system does not tell."""
    words = _words("/proc/self/statm")
    return int(words[0][1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _mapped() -> tuple[int, int]:
    """The bytes of this process's address space, and those of them that are its own data; 0 where nobody tells."""
    found = {line[0]: 1024 * int(line[1]) for line in _words("/proc/self/status") if line[0] in ("VmSize:", "VmData:")}
    return found.get("VmSize:", 0), found.get("VmData:", 0)


def bound(most: int | None = None) -> None:
    """From now on allocations fail that would need more than what is free, or than `most` bytes for this process.

    Else the system would end it without a word. The limit stays, so a process of our own calls this when it begins,
    unless it may use a GPU, whose driver takes much address space; `most` is for such a process alone.
    """
    if most is not None and not _bound:
        return
    _bound.append(True)
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        with contextlib.suppress(AttributeError):  # of another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)  # else each thread's heap takes 64 MB of addresses
    free = int(SHARE * free_memory())
    if most is not None:
        free = min(free, most - used_memory())
    data = _mapped()[1] + max(0, free) + STACK * (3 + (os.cpu_count() or 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if data < min(most if most != resource.RLIM_INFINITY else data + 1 for most in (soft, hard)):
        resource.setrlimit(resource.RLIMIT_DATA, (data, hard))


def require(size: int, what: str) -> None:
    """Raises OutOfMemoryError unless so many bytes are free for what is named."""
    free = free_memory()
    if size > free:
        raise OutOfMemoryError(f"{what} takes about {size / 1e6:,.0f} MB of memory, and {free / 1e6:,.0f} MB are free")


def is_shortage(error: BaseException | None) -> bool:
    """Whether an error came of an allocation that failed."""
    while error is not None:
        if isinstance(error, MemoryError | OutOfMemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error).lower() for words in SHORTAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


def as_sdf_error(error: Exception, subject: str = "") -> SdfError:
    """The error that users see. An SdfError stays as it is; a failed allocation is an OutOfMemoryError, any other
    exception an SdfError, with `subject`, as a mesh's name, in front."""
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
    """What an exception while a file was read becomes: our own the same with the file's name; a library's InputError,
    `what` being what was wrong then, or OutOfMemoryError where an allocation failed; but where there is plenty, the
    file asked for what cannot be."""
    if isinstance(error, SdfError):
        return type(error)(f"{path}: {error}")
    if is_shortage(error) and free_memory() < PLENTY + PLENTY_PER_BYTE * _size(path):
        return OutOfMemoryError(f"{path}: does not fit into memory")
    reason = str(error).strip().splitlines()
    return InputError(f"{path}: {what}: {reason[0] if reason else type(error).__name__}")


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _words(path: str) -> list[list[str]]:
    """The words of each line of a small file that may not be there."""
    try:
        return [line.split() for line in Path(path).read_text().splitlines() if line.strip()]
    except OSError:
        return []
