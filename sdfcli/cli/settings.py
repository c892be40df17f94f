"""Option defaults: environment variables, and a TOML file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sdfcli.cli.registry import COMMANDS, plugins, sub_commands
from sdfcli.errors import InputError, UsageError

VARIABLE = "SDFCLI_CONFIG"
"""Environment variable with the settings file's path."""
EVERYWHERE = ("device", "quiet")
"""Options that can be set for all commands at once: `SDFCLI_DEVICE`, or above the file's tables."""
ORIGINS = "sdfcli.origins"
"""Key of `Context.meta`: where each option got its value, by name, unless from the command line."""
WIDTH = 60
"""Characters of a wrong value that an error shows."""


def long_name(option: Any) -> str:
    """An option's name as on the command line, without its dashes."""
    return str(max(option.opts, key=len)).lstrip("-")


def options_of(command: Any) -> dict[str, Any]:
    """A command's options by `long_name`."""
    return {long_name(each): each for each in command.params if each.param_type_name == "option"}


def variables(command: str, option: str) -> list[str]:
    """Environment variables with an option's default, the first one first. command: a name as in `registry`."""
    own = [f"SDFCLI_{command}_{option}"] + ([f"SDFCLI_{option}"] if option in EVERYWHERE else [])
    return [name.upper().replace("-", "_").replace(" ", "_") for name in own]


def config_file(given: Path | None) -> Path | None:
    """The settings file: the given one, or the user's, `config.toml` in Typer's application folder; None if that does
    not exist. Never a file in the current folder, which may belong to somebody else."""
    if given is not None:
        return given
    import typer

    own = Path(typer.get_app_dir("sdfcli"), "config.toml")
    return own if own.is_absolute() and own.is_file() else None


def read_config(path: Path) -> dict[str, Any]:
    """A settings file's tables. Raises InputError for an unreadable file, UsageError for a table without a command, or
    an option outside a table that is not one of EVERYWHERE."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise InputError(f"{path}: is not a TOML file: {error}") from error
    for name, value in found.items():
        if not isinstance(value, dict):
            if name not in EVERYWHERE:
                allowed = " and ".join(EVERYWHERE)
                raise UsageError(f"{path}: {name}: goes into a command's table, as [build]; only {allowed} go above")
        elif name not in COMMANDS and name not in (names := [*COMMANDS, *(each.name for each in plugins()[0])]):
            raise UsageError(f"{path}: [{name}]: no such command{similar(name, names)}")
    return found


def file_defaults(path: Path, command: Any, name: str) -> dict[str, Any]:
    """A command's defaults in a settings file, by parameter name. Raises `read_config`'s errors, and UsageError for an
    unknown option, or a value of the wrong type."""
    table = read_config(path)
    options = options_of(command)
    found = {option: table[option] for option in EVERYWHERE if option in table and option in options}
    for word in name.split():
        table = table.get(word, {})
    nested = sub_commands(name)
    for option, value in table.items():
        if isinstance(value, dict) and option in nested:
            continue
        if option not in options:
            raise UsageError(f"{path}: [{name}] {option}: no such option{similar(option, options)}")
        found[option] = value
    return {options[option].name: _as_given(path, options[option], value) for option, value in found.items()}


def _as_given(path: Path, option: Any, value: Any) -> Any:
    """A value in the form that the command line gives: text, a list of texts if repeatable, a flag's truth value."""
    if getattr(option, "is_flag", False):
        fits, kind = isinstance(value, bool), "true or false"
    elif option.multiple:
        fits, kind = isinstance(value, list) and all(map(_is_text, value)), "a list"
    else:
        fits, kind = _is_text(value), "a text or a number"
    if not fits:
        raise UsageError(f"{path}: {long_name(option)} = {str(value)[:WIDTH]}: use {kind}")
    if isinstance(value, list):
        return list(map(str, value))
    return value if isinstance(value, bool) else str(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def similar(name: str, names: Iterable[str]) -> str:
    """A suggestion at the end of an error about an unknown name; empty if none is near."""
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def origin(context: Any, option: Any, path: Path | None) -> str | None:
    """Where an option's value is from: a variable, or the settings file; None for the command line and defaults."""
    source = getattr(context.get_parameter_source(option.name), "name", "")
    if source == "ENVIRONMENT":
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
        return next((name for name in names if os.environ.get(name)), None)
    return str(path) if source == "DEFAULT_MAP" else None
