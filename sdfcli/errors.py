"""Exceptions, and exit codes with their meaning."""

from __future__ import annotations

from collections.abc import Iterable


class SdfError(Exception):
    """A failure with a one-line explanation for the user."""

    exit_code = 1


class UsageError(SdfError):
    """Invalid options, or an output that cannot be written: it exists, or the disk is full."""

    exit_code = 2


class InputError(SdfError):
    """Input that cannot be read or used: a mesh, a field, a list of points."""

    exit_code = 3


class DeviceError(SdfError):
    """A missing device, driver or program."""

    exit_code = 4


class OutOfMemoryError(SdfError):
    """The work exceeds host or device memory."""

    exit_code = 5


class CheckFailedError(SdfError):
    """A failed check, for example `verify`."""

    exit_code = 6


class TimeUpError(SdfError):
    """The time limit is exceeded."""

    exit_code = 7


class ReadingNote(UserWarning):
    """One line about file content that was skipped or changed; commands print it as a note."""


class DrawingNote(UserWarning):
    """One line about a picture that differs from the surface; commands print it as a note."""


INTERRUPTED = 130

UNREAD = 141
"""Exit code of a command whose output nobody read to the end, as after SIGPIPE."""

EXIT_CODES = {
    0: "done",
    SdfError.exit_code: "internal error",
    UsageError.exit_code: "usage, or an output that cannot be written",
    InputError.exit_code: "bad input",
    DeviceError.exit_code: "device or program missing",
    OutOfMemoryError.exit_code: "out of memory",
    CheckFailedError.exit_code: "a check failed",
    TimeUpError.exit_code: "time is up",
    INTERRUPTED: "interrupted",
    UNREAD: "nobody read its results",
}

SEVERITY = (
    0,
    CheckFailedError.exit_code,
    TimeUpError.exit_code,
    InputError.exit_code,
    UsageError.exit_code,
    DeviceError.exit_code,
    OutOfMemoryError.exit_code,
    SdfError.exit_code,
)
"""Exit codes from the mildest to the most severe: a failed check comes with an output, a crash says nothing."""


def worst_code(codes: Iterable[int]) -> int:
    """The most severe of several files' exit codes, which their command ends with. Unknown codes exceed all others."""
    return max(codes, key=lambda code: SEVERITY.index(code) if code in SEVERITY else len(SEVERITY))
