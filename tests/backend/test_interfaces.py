"""What a backend must provide, and what it may: interfaces that a reader can hold."""

from __future__ import annotations

import inspect
import re

import pytest

from sdfcli.backend.base import Backend
from sdfcli.backend.interfaces.device import Device

INTERFACES = [each for each in Backend.__mro__ if each not in Backend.__mro__[:1] and issubclass(each, Device)]


def methods(interface: type) -> dict[str, bool]:
    """The public methods of an interface, and whether each is abstract."""
    found = {name: inspect.unwrap(getattr(interface, name)) for name in vars(interface) if not name.startswith("_")}
    return {name: getattr(each, "__isabstractmethod__", False) for name, each in found.items() if callable(each)}


def test_there_are_six() -> None:
    names = ["Arrays", "Transfers", "Kernels", "Algorithms", "Streams", "Device"]
    assert [each.__name__ for each in INTERFACES] == names
    assert not [name for name in vars(Backend) if not name.startswith("_")]


@pytest.mark.parametrize("interface", INTERFACES)
def test_they_are_small_and_say_what_is_optional(interface: type) -> None:
    found, text = methods(interface), inspect.getdoc(interface) or ""
    assert 5 <= len(found) <= 12
    optional = {name for name, abstract in found.items() if not abstract}
    if "All methods are optional." in text:
        assert optional == found.keys()
    else:
        listed = re.search(r"^Optional: ([\w, \n]+)\.$", text, re.MULTILINE)
        assert listed is not None
        assert set(re.split(r",\s+", listed[1])) == optional
