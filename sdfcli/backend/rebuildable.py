"""Rebuildable: a value that can be freed and made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rebuildable(Generic[T]):
    """A value made on first use, and again on the first use after `release`.

    make  makes the value; it must not refer to what should be freed with the value.
    """

    def __init__(self, make: Callable[[], T], value: T | None = None) -> None:
        """value: the result of `make`, where it is known already."""
        self._make, self._value = make, value

    def get(self) -> T:
        """The value."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def release(self) -> None:
        """Frees the value."""
        self._value = None
