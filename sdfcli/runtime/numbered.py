"""Numbers for objects, for other libraries' operators, which take numbers but no objects."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sdfcli.errors import InputError

T = TypeVar("T", bound="Numbered")

_OBJECTS: WeakValueDictionary[int, Any] = WeakValueDictionary()
_NUMBERS = count()


class Numbered:
    """An object with its own number in this process; so has each copy.

    number: the number, for `numbered`.
    """

    number: int

    def __new__(cls: type[T], *_: Any, **__: Any) -> T:
        made = super().__new__(cls)
        made.__dict__["number"] = number = next(_NUMBERS)
        _OBJECTS[number] = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "number"}


def numbered(number: int) -> Any:
    """The object with a number. Raises InputError if it no longer exists."""
    try:
        return _OBJECTS[number]
    except KeyError:
        raise InputError("an operator's field or mesh no longer exists; keep a reference to it") from None
