"""A sequence's file from a moving mesh's frames: built, stored as parts, and appended in order as they finish."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sdfcli.mesh.arrays import Floats
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.streamed import streamed_hdf5
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.file import SequenceWriter
from sdfcli.sequence.parts import Parts, Row, part_key
from sdfcli.sequence.workers import build_rows


def save_sequence(
    build: SequenceBuild,
    times: Floats,
    path: Path,
    folder: Path,
    force: bool,
    done: Callable[[Row], None],
    jobs: int | None = None,
) -> dict[str, Any]:
    """Writes a sequence's file, whole or not at all. Returns its metadata with `content_sha256`.

    times: (t,), seconds. folder: from `parts_folder`; frames with parts in it are not built again. done: called with
    each frame's row (see `Parts.write`) once it is in the file. jobs: see `build_rows`.

    Raises a build's errors, and UsageError if the file cannot be written.
    """
    parts = Parts(folder, part_key(build))
    with written_whole(path, force) as temporary, streamed_hdf5(temporary) as (file, check):
        writer = SequenceWriter(file, build.domain, times)
        with closing(build_rows(build, parts, jobs)) as rows:
            for row in rows:
                parts.append(row, writer)
                check()
                done(row)
        return writer.finish()
