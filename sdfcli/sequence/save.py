"""A sequence's file, from the frames of a moving mesh: built, kept in parts, and appended in order as they are done."""

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
    """Writes the file of a sequence, whole or not at all, and returns its metadata with `content_sha256`.

    times: (t,) in seconds. folder: that of `parts_folder`; frames whose parts are there are not built again. done: gets
    each frame's row (see `Parts.write`) when it is in the file. jobs: see `build_rows`.

    Raises what a build raises, and UsageError where the file cannot be written.
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
