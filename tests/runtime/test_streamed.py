"""HDF5 files that grow on the disk: whole, or an error in place of an aborted process."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from sdfcli.runtime.streamed import METADATA, streamed_hdf5

ROWS = np.random.default_rng(1).random((5000, 3))

GROW = """
import sys
import numpy as np
from pathlib import Path
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.streamed import streamed_hdf5

rounds = 0
try:
    with written_whole(Path(sys.argv[1]), False) as temporary, streamed_hdf5(temporary) as (file, check):
        rows = np.random.default_rng(1).random((50_000, 3))
        data = file.create_dataset("x", (0, 3), "f8", maxshape=(None, 3), chunks=(5000, 3), compression="gzip")
        for rounds in range(100):
            data.resize(len(data) + len(rows), axis=0)
            data[-len(rows) :] = rows
            check()
except BaseException as error:
    print(rounds, type(error).__name__, error)
"""

INTERRUPTED = """
import random, signal, sys
from pathlib import Path
import numpy as np
from sdfcli.runtime import interrupts
from sdfcli.runtime.streamed import streamed_hdf5

interrupts.watch(signal.SIGALRM)
rows, over = np.random.default_rng(1).random((1 << 15, 3)), 0
for k in range(100):
    interrupts._seen.clear()
    try:
        with streamed_hdf5(Path(sys.argv[1])) as (file, check):
            signal.setitimer(signal.ITIMER_REAL, 1e-3 * random.random() + 1e-6)
            while len(file) < 100:
                data = file.create_dataset(str(len(file)), data=rows)
                check()
    except KeyboardInterrupt:
        over += 1
print(over)
"""


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with streamed_hdf5(tmp_path / "a.h5") as (file, check):
        file["x"] = ROWS
        check()
        assert np.array_equal(file["x"][7:9], ROWS[7:9])
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["x"], ROWS)


@pytest.mark.parametrize("limit", [0, 3000, 1_000_000])
def test_a_full_disk_is_an_error(limit: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROW, tmp_path / "a.h5"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rounds, error = done.stdout.split(maxsplit=1)
    assert error.startswith("UsageError")
    assert "File too large" in error
    assert int(rounds) < 20  # more than HDF5 buffers: it ends when the disk is full
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_caller_is_that_error(tmp_path: Path) -> None:
    def fail() -> None:
        with streamed_hdf5(tmp_path / "a.h5") as (file, _):
            file["x"] = ROWS
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()


def test_interrupts_are_no_errors_of_hdf5(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "a.h5"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\n", "")


def test_the_cache_of_metadata_does_not_grow(tmp_path: Path) -> None:
    with streamed_hdf5(tmp_path / "a.h5") as (file, _):
        for number in range(400):
            group = file.create_group(f"{number}")
            group.attrs["text"] = np.bytes_(b"x" * 2000)
            group["x"] = np.arange(9)
        _, _, held, _ = file.id.get_mdc_size()
        assert held <= 2 * METADATA
