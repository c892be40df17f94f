"""Option values: counts as 1e6, and errors that name the option, the value and what is allowed."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

import typer

from sdfcli.params import UNITS

MOST_DIGITS = 18
"""Maximum digits of a count in scientific notation."""
SUFFIXED = re.compile(rf"[-+]?[\d.]+(?:e[-+]?\d+)?\s*(?:{'|'.join(UNITS)})", re.IGNORECASE)
"""A number with a unit of length."""


UNITLESS = {
    **dict.fromkeys(("LENGTH", "D", "CLEARANCE", "R"), " without a unit; lengths are in the mesh's units"),
    "L": " without a unit, in metres",
    "FACTOR": " without a unit, a factor",
}
"""By metavar: words on a number that was given with a unit."""


class WrongValue(typer.BadParameter):
    """A value of the wrong type, or a number out of range. Its message names the option."""

    def format_message(self) -> str:
        """The message alone, without Click's words before it."""
        return str(self.message)


def check_values(command: Any, hints: dict[str, Any]) -> None:
    """Lets a command's numbers and flags raise WrongValue. hints: its function's types."""
    lengths = any(option.name == "max_error" for option in command.params)
    for option in command.params:
        hint = hints.get(option.name) if option.param_type_name == "option" else None
        kind = next((each for each in (bool, int, float) if each in (hint, *get_args(hint))), None)
        if kind is not None and not option.multiple:
            ranged = option if hasattr(option, "min") else option.type  # the latter in older versions of Typer
            _check(option, kind, getattr(ranged, "min", None), getattr(ranged, "max", None), lengths)


def _check(option: Any, kind: type, low: float | None, high: float | None, lengths: bool) -> None:
    convert = option.process_value

    def process(context: Any, value: Any) -> Any:
        given = _as_whole(value) if kind is int and isinstance(value, str) else value
        try:
            return convert(context, given)
        except typer.BadParameter as error:
            raise WrongValue(_told(option, kind, value, low, high, lengths), context, option) from error

    option.process_value = process


def _as_whole(text: str) -> str:
    """1e6 and the like as digits; other text as it is."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    whole = number.is_finite() and number.adjusted() < MOST_DIGITS and number == number.to_integral_value()
    return str(int(number)) if whole else text


def _told(option: Any, kind: type, value: Any, low: float | None, high: float | None, lengths: bool) -> str:
    """The error's message. lengths: whether the command has --max-error and --unit."""
    allowed = {bool: "1 or 0, true or false", int: "a whole number", float: "a number"}[kind]
    if option.metavar == "SECONDS":
        allowed += " of seconds"
    if low is not None:
        allowed += f", {low:,g} to {high:,g}" if high is not None else f", {low:,g} or more"
    if kind is float and SUFFIXED.fullmatch(str(value).strip()):
        allowed += _unitless(option.metavar, lengths)
    given = str(value) if str(value).strip() else repr(value)
    return f"{max(option.opts, key=len)} {given}: use {allowed}"


def _unitless(metavar: str, lengths: bool) -> str:
    if metavar == "FRACTION":
        words = ", a fraction of the diagonal"
        return f"{words}, or of --unit; for a length use --max-error or --unit" if lengths else words
    return UNITLESS.get(metavar, " without a unit")
