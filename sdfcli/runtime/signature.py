"""Signatures with a TypedDict's keys in place of `**parameters`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(keywords: type, defaults: type) -> Callable[[Function], Function]:
    """Decorator for a function with `**parameters: Unpack[keywords]`: `inspect.signature`, `help` and editors show the
    TypedDict's keys instead, as keywords. Other keywords raise TypeError, as Python's own, with the nearest name.
    defaults: dataclass with the keys' defaults; None for keys that it lacks."""

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
        known = [*own, *more]
        names = [each.name for each in known]

        @functools.wraps(function)
        def checked(*values: Any, **named: Any) -> Any:
            for name in [each for each in named if each not in names]:
                import difflib

                near = [each for each in names if each.startswith(name)] or difflib.get_close_matches(name, names)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}")
            return function(*values, **named)

        checked.__signature__ = signature.replace(parameters=known)  # type: ignore[attr-defined]
        return cast(Function, checked)

    return spelled_out
