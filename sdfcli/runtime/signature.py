"""Signatures with a TypedDict's keys in place of `**parameters`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(keywords: type, defaults: type) -> Callable[[Function], Function]:
    """Decorator for a function with `**parameters: Unpack[keywords]`: `inspect.signature`, `help` and editors show the
    TypedDict's keys instead, as keywords. defaults: dataclass with their defaults; None for keys that it lacks."""

    def spelled_out(function: Function) -> Function:
        signature = inspect.signature(function)
        *own, rest = signature.parameters.values()
        kinds = get_type_hints(keywords)
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name, None), annotation=kind
            )
            for name, kind in kinds.items()
        ]
        del function.__annotations__[rest.name]  # `get_type_hints` works without typing_extensions
        function.__annotations__.update(kinds)
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return spelled_out
