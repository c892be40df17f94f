"""Compares the fields of two versions bit for bit.

    python tools/same_bits.py write TABLE.csv MESH... [--device cpu] [--threads 1,2,7] [--tolerance 0.001]
    python tools/same_bits.py compare OLD.csv NEW.csv

`write` builds both octrees of each mesh with the installed sdfcli, once per thread count (on a GPU once). The table has
each field's content hash, file hash and verdict, or a refused mesh's exit code. A folder stands for all meshes in it,
recursively.

`compare` lists each (mesh, octree, tolerance) whose rows differ, within or between the tables and for any device and
thread count, or that only one table has; then the exit status is 1. Messages are not compared.
"""

from __future__ import annotations

import argparse
import collections
import csv
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

COLUMNS = (
    "mesh",
    "octree",
    "tolerance",
    "device",
    "threads",
    "result",  # the verdict, or `refused` and the exit code
    "content_sha256",
    "file_sha256",
    "message",
)
KEY, RESULT = COLUMNS[:3], COLUMNS[5:8]
SUFFIXES = {".3mf", ".glb", ".gltf", ".obj", ".off", ".ply", ".stl"}
OCTREES = ("adaptive", "bvh")

Row = dict[str, str]


def main() -> None:
    """Writes a table, or compares two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing, comparing = verbs.add_parser("write"), verbs.add_parser("compare")
    writing.add_argument("table", type=Path)
    writing.add_argument("meshes", type=Path, nargs="+")
    writing.add_argument("--device", default="cpu")
    writing.add_argument("--threads", default="1,2,7")
    writing.add_argument("--tolerance", default="0.001")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.verb == "compare":
        sys.exit(compare(*(list(csv.DictReader(table.open())) for table in (options.old, options.new))))
    threads = options.threads.split(",") if options.device == "cpu" else [""]
    with options.table.open("x", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for name, mesh in found_meshes(options.meshes):
            for octree in OCTREES:
                for number in threads:
                    settings = dict(
                        zip(COLUMNS, (name, octree, options.tolerance, options.device, number), strict=False)
                    )
                    table.writerow({**settings, **built(mesh, settings)})
                    file.flush()


def found_meshes(given: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yields each mesh's table name and path; names do not depend on a folder's location."""
    for each in map(Path.resolve, given):
        for path in sorted(each.rglob("*")) if each.is_dir() else [each]:
            if path == each or path.suffix.lower() in SUFFIXES:
                yield path.relative_to(each.parent).as_posix(), path


def built(mesh: Path, settings: Row) -> Row:
    """One build's result."""
    import sdfcli
    from sdfcli.errors import SdfError

    start = time.perf_counter()
    threads = int(settings["threads"]) if settings["threads"] else None
    options = {"octree": settings["octree"], "tolerance": float(settings["tolerance"])}
    try:
        field = sdfcli.build(mesh, device=settings["device"], threads=threads, **options)
        with tempfile.TemporaryDirectory() as folder:
            content = field.save(Path(folder, "field.h5")).read_bytes()
        hashes = {"content_sha256": field.content_sha256, "file_sha256": hashlib.sha256(content).hexdigest()}
        row = {"result": field.info["verdict"], **hashes}
    except SdfError as error:
        row = {"result": f"refused {error.exit_code}", "message": str(error).replace(str(mesh), mesh.name)}
    taken = time.perf_counter() - start
    print(f"{taken:6.1f} s  {' '.join(settings.values())}  {row['result']}", file=sys.stderr, flush=True)
    return row


def compare(old: list[Row], new: list[Row]) -> int:
    """Lists differences. Returns the exit status."""
    results: dict[tuple[str, ...], list[dict[tuple[str, ...], list[str]]]] = {}
    for side, rows in enumerate((old, new)):
        for row in rows:
            both = results.setdefault(tuple(row[column] for column in KEY), [{}, {}])
            where = f"{row['device']} {row['threads']}".strip()
            both[side].setdefault(tuple(row[column] for column in RESULT), []).append(where)
    counts: collections.Counter[str] = collections.Counter()
    for key, both in results.items():
        if not all(both):
            verdict = "only in NEW" if both[1] else "only in OLD"
        else:
            verdict = "same" if len({*both[0], *both[1]}) == 1 else "different"
        counts[verdict] += 1
        if verdict != "same":
            print(verdict, *key)
        if verdict == "different":
            for side, by_result in zip(("OLD", "NEW"), both, strict=True):
                for result, where in by_result.items():
                    print(f"  {side}  {', '.join(where)}:  {'  '.join(filter(None, result))}")
    print(f"{len(old)} and {len(new)} rows: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0 if counts.keys() <= {"same"} and counts else 1


if __name__ == "__main__":
    main()
