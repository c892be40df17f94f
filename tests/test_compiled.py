"""Compiled kernels that are kept from one process to the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdfcli.stages.chosen import running_sums


@pytest.mark.gpu
def test_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.backend.cuda import CudaBackend

    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))

    def check() -> dict[Path, int]:
        device = CudaBackend(0)
        values = device.from_host(np.ones(2000), np.uint32)
        running_sums(device, values)
        assert device.to_host(values).tolist() == list(range(1, 2001))
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("sdfcli-*")}

    made = check()
    assert made
    assert check() == made
    broken = min(made)
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-100])
    assert check().keys() == made.keys()
    assert len(broken.read_bytes()) == len(whole)
