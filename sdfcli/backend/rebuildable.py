"""Rebuildable: a value that can be freed and built again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rebuildable(Generic[T]):
    """A value built on first use, and again on the first use after `release`.

    make  builds the value; must not refer to anything that should be freed with it
    """

    def __init__(self, make: Callable[[], T], value: T | None = None) -> None:
        """value: the result of `make`, if already known."""
        self._make, self._value = make, value

    def get(self) -> T:
        """The value."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def release(self) -> None:
        """Frees the value."""
        self._value = None
