"""The devices that kernel tests run on, as a fixture: `backend = backends.backend` in a test module asks for both."""

from __future__ import annotations

import pytest

from sdfcli.backend import Backend, select_backend, select_backends

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each device in turn; conftest.py skips those that are not there."""
    return select_backend(request.param)


def two_gpus() -> list[Backend]:
    """The first two GPUs; the test is skipped where there are fewer."""
    from sdfcli.backend.cuda import device_count

    if device_count() < 2:
        pytest.skip("this test needs two GPUs")
    return select_backends("cuda:0,1")
