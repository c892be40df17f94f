"""A sequence's file from a moving mesh's frames: built, stored as parts, and appended in order as they finish; or from
another sequence's fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from sdfcli.field.field import Field
from sdfcli.field.store import pack
from sdfcli.mesh.arrays import Floats
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.streamed import streamed_hdf5
from sdfcli.runtime.threads import executor
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.field_sequence import FieldSequence
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


def rewrite_sequence(sequence: FieldSequence, fields: Iterable[Field], path: Path) -> dict[str, Any]:
    """Writes a sequence in the newest version, not atomically. fields: all of its frames', in order; memory holds one.

    Returns frame, leaf and corner counts, and the file's `content_sha256`. Raises OSError if it cannot be written.
    """
    leaves = corners = 0
    with executor(available_threads()) as helpers, streamed_hdf5(path) as (file, check):
        writer = SequenceWriter(file, sequence.domain, sequence.times, sequence.info)
        for field, motion in zip(fields, sequence.motion.tolist(), strict=True):
            writer.add(pack(field, helpers, as_frame=True), motion)
            leaves, corners = leaves + field.leaves, corners + field.corners
            check()
        content = writer.finish()["content_sha256"]
    return {"frames": len(sequence), "leaves": leaves, "corners": corners, "content_sha256": content}
