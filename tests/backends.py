"""The devices that kernel tests run on, as a fixture: `backend = backends.backend` in a test module asks for both."""

from __future__ import annotations

from typing import Any

import pytest

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import DeviceError

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each device in turn; a GPU that is not there skips the test."""
    return open_backend(request.param)


def open_backend(device: Any) -> Backend:
    """The backend of a device's name. Skips the test where there is no such device."""
    try:
        return select_backend(device)
    except DeviceError as error:
        pytest.skip(str(error))
