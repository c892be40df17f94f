"""Values that can be freed and made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rebuildable(Generic[T]):
    """A value made on first use; after `release` on its next use again.

    make  what makes it. Keep out of it what should be freed with the value.
    """

    def __init__(self, make: Callable[[], T], value: T | None = None) -> None:
        """value: what `make` would return, where it is there already."""
        self._make, self._value = make, value

    def get(self) -> T:
        """The value."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def release(self) -> None:
        """Frees the value."""
        self._value = None
