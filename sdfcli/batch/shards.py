"""Shards of training samples: tar files as WebDataset reads them, `KEY.json` before `KEY.npz` for each mesh.

Samples are drawn into a folder beside the shard and packed when all of the shard's meshes are done, so an interrupted
batch goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from sdfcli.batch.inputs import Job
from sdfcli.batch.messages import Outcome
from sdfcli.errors import UsageError
from sdfcli.params import NAME
from sdfcli.runtime.files import refuse_existing, written_whole
from sdfcli.runtime.remote import is_remote, shown

PARTS = ".parts"
"""Ending of the folder for a shard's samples until they are packed."""


@dataclass(frozen=True)
class Shard:
    """A shard with its jobs, whose outputs are in a folder beside it; keys: their names in the shard."""

    path: Path
    jobs: list[Job]
    keys: list[str]

    def check(self, force: bool, skip_existing: bool) -> None:
        """Raises UsageError if the shard may not be written: it exists, and with `skip_existing` has other meshes."""
        if force or not (skip_existing and self.path.is_file()):
            refuse_existing(self.path, force)
            return
        try:
            with tarfile.open(self.path, "r:") as shard:
                others = {os.path.splitext(name)[0] for name in shard.getnames()} - set(self.keys)
        except (OSError, tarfile.TarError) as error:
            raise UsageError(f"{self.path}: exists, and is no shard; add --force to replace it") from error
        if others:
            raise UsageError(
                f"{self.path}: exists, and has other meshes, as {min(others)}; use the same meshes and --shard-size, "
                "or --force to replace it"
            )

    def pack(self, kept: Set[str]) -> None:
        """Writes the shard, whole, from its new samples and, for the keys `kept`, from the shard that is there. Without
        new samples, it stays as it is."""
        parts = {key: Path(job.output) for key, job in zip(self.keys, self.jobs, strict=True)}
        if any(part.exists() for part in parts.values()):
            with written_whole(self.path, force=True) as temporary, tarfile.open(temporary, "w") as shard:
                for key, part in parts.items():
                    there = member(self.path, key) if key in kept else None
                    samples = part.read_bytes() if part.exists() else there
                    if samples is not None:
                        _add(shard, f"{key}.json", _info(samples))
                        _add(shard, f"{key}.npz", samples)
        for part in parts.values():
            part.unlink(missing_ok=True)
            for folder in takewhile(lambda each: each != self.path.parent, part.parents):
                with contextlib.suppress(OSError):  # not empty, or gone
                    folder.rmdir()


def shards_of(jobs: list[Job], output: str | None, size: int) -> list[Shard]:
    """Shards of `size` meshes, in order: `OUTPUT/OUTPUT-000000.tar` and so on. output: the outputs' folder.

    Raises UsageError for outputs that are no folder of this machine, and for two meshes with the same key: a name's
    dots become underscores, since WebDataset takes the rest as the ending.
    """
    if output is None or NAME in output or is_remote(output) or output.lower().endswith(".npz"):
        raise UsageError("--shard-size: shards need a folder; use -o FOLDER/")
    folder = Path(output)
    prefix = folder.resolve().name or "samples"
    known: dict[str, str] = {}
    for job in jobs:
        place = Path(job.output).relative_to(folder)
        key = place.with_name(place.stem.replace(".", "_")).as_posix()
        if known.setdefault(key, job.mesh) != job.mesh:
            raise UsageError(f"{known[key]} and {job.mesh} would both be {key} in a shard; rename one of them")
    keys, found = list(known), []
    for number, first in enumerate(range(0, len(jobs), size)):
        path, own = folder / f"{prefix}-{number:06d}.tar", keys[first : first + size]
        placed = [
            Job(job.mesh, str(Path(f"{path}{PARTS}", f"{key}.npz")))
            for job, key in zip(jobs[first : first + size], own, strict=True)
        ]
        found.append(Shard(path, placed, own))
    return found


def packed(outcomes: Iterator[Outcome], shards: list[Shard]) -> Iterator[Outcome]:
    """The outcomes, with shards as outputs; each shard is packed with its last one."""
    place_of = {
        shown(job.output): (shard, key) for shard in shards for job, key in zip(shard.jobs, shard.keys, strict=True)
    }
    left, kept = {shard.path: len(shard.jobs) for shard in shards}, set()
    for outcome in outcomes:
        shard, key = place_of[outcome["output"]]
        left[shard.path] -= 1
        if outcome["status"] == "skipped":
            kept.add(key)
        if not left[shard.path]:
            shard.pack(kept)
        yield {**outcome, "output": str(shard.path)}


def place_in_shard(target: Path) -> tuple[Path, str] | None:
    """The shard and the key for an output in its folder of parts; None for another output."""
    for folder in target.parents:
        if folder.name.endswith(f".tar{PARTS}"):
            key = target.relative_to(folder).with_suffix("").as_posix()
            return Path(str(folder).removesuffix(PARTS)), key
    return None


def member(shard: Path, key: str) -> bytes | None:
    """A mesh's samples in a shard, as a file's bytes; None if they, or the shard, are not there or damaged."""
    try:
        with tarfile.open(shard, "r:") as archive:
            file = archive.extractfile(f"{key}.npz")
            return None if file is None else file.read()
    except (OSError, KeyError, tarfile.TarError):
        return None


def _info(samples: bytes) -> bytes:
    """The `info` of a samples file."""
    with np.load(io.BytesIO(samples), allow_pickle=False) as arrays:
        return json.dumps(json.loads(str(arrays["info"]))).encode()


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # without time and owner: the same samples give the same bytes
    member.size = len(content)
    shard.addfile(member, io.BytesIO(content))
