"""Signatures with a dataclass's fields in place of `**parameters`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(parameters: type) -> Callable[[Function], Function]:
    """Decorator for a function with `**parameters`: `inspect.signature`, `help` and editors show the dataclass's fields
    instead, as keywords with defaults."""

    def spelled_out(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind != inspect.Parameter.VAR_KEYWORD]
        fields = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in inspect.signature(parameters).parameters.values()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
        return function

    return spelled_out
