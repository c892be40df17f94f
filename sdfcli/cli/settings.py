"""Option defaults: environment variables, and a TOML file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import typer

from sdfcli.cli.registry import COMMANDS, NAMES, plugins, sub_commands
from sdfcli.errors import SdfError, UsageError

VARIABLE = "SDFCLI_CONFIG"
"""Environment variable with the settings file's path."""
PREFIX = "SDFCLI_"
"""Prefix of sdfcli's environment variables."""
EVERYWHERE = ("device", "quiet")
"""Options that can be set for all commands at once: `SDFCLI_DEVICE`, or above the file's tables."""
THREADS = "SDFCLI_THREADS"
"""Environment variable with the maximum CPU threads of a process."""
OTHERS = (
    VARIABLE,
    THREADS,
    "SDFCLI_KERNEL_LIBRARY",
    "SDFCLI_MPS_CLIENTS",
    "SDFCLI_PLAIN",
    "SDFCLI_CHECK",
)
"""Environment variables without an option."""
TESTS = ("SDFCLI_MESHES", "SDFCLI_REQUIRE_GPU")
"""Environment variables that only the tests read."""
ORIGINS = "sdfcli.origins"
"""Key of `Context.meta`: where each option got its value, by name, unless from the command line."""
TRUE, FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")
"""Values of a flag's variable, in any case, as Click reads them."""
WIDTH = 60
"""Characters of a wrong value that an error shows."""
NEEDED = {"gap": {"sign": "flood"}, "angle": {"schema": "dora"}}
"""Options of builds and samples that are valid with another one, with a value of it."""


def long_name(option: Any) -> str:
    """An option's name as on the command line, without its dashes."""
    return str(max(option.opts, key=len)).lstrip("-")


def options_of(command: Any) -> dict[str, Any]:
    """A command's options by `long_name`."""
    return {long_name(each): each for each in command.params if each.param_type_name == "option"}


def negations_of(command: Any) -> dict[str, Any]:
    """Flags by the name that turns them off, without its dashes, as `keep-going`."""
    flags = (each for each in command.params if each.param_type_name == "option")
    return {name.lstrip("-"): each for each in flags for name in each.secondary_opts}


def variables(command: str, option: str) -> list[str]:
    """Environment variables with an option's default, the first one first. command: a name as in `registry`."""
    own = [f"{PREFIX}{command}_{option}"] + ([f"{PREFIX}{option}"] if option in EVERYWHERE else [])
    return [name.upper().replace("-", "_").replace(" ", "_") for name in own]


def negated(command: Any, name: str) -> dict[str, bool]:
    """A command's flags that are set by a variable with their other name, as SDFCLI_BUILD_KEEP_GOING, by parameter
    name. Raises UsageError for a value that is neither true nor false, and for variables of both names."""
    found = {}
    for word, option in negations_of(command).items():
        variable = negation_set(name, word)
        if variable is None:
            continue
        others = [each for each in variables(name, long_name(option)) if os.environ.get(each)]
        if others:
            raise UsageError(f"{variable}: {others[0]} is the same option; use one of them")
        value = os.environ[variable].lower()
        if value not in TRUE + FALSE:
            raise UsageError(f"{variable}: {value[:WIDTH]}: use 1 or 0, true or false")
        found[option.name] = value in FALSE
    return found


def negation_set(name: str, word: str) -> str | None:
    """The variable of a flag's other name, if it is set."""
    return next((each for each in variables(name, word) if os.environ.get(each)), None)


def config_file(given: Path | str | None) -> Path | None:
    """The settings file: the given one, or the user's, `config.toml` in Typer's application folder; None if that does
    not exist. Never a file in the current folder, which may belong to somebody else. given: a name in versions of Typer
    that convert parameters later."""
    if given is not None:
        return Path(given)
    own = Path(typer.get_app_dir("sdfcli"), "config.toml")
    return own if own.is_absolute() and own.is_file() else None


def read_config(path: Path) -> dict[str, Any]:
    """A settings file's tables. Raises UsageError for an unreadable file, a table without a command, or an option
    outside a table that is not one of EVERYWHERE."""
    found = _tables(path)
    for fault in _table_faults(path, found):
        raise fault
    return found


def _tables(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: is not a TOML file: {error}") from error
    return found


def _table_faults(path: Path, tables: dict[str, Any]) -> Iterator[UsageError]:
    for name, value in tables.items():
        if not isinstance(value, dict):
            if name not in EVERYWHERE:
                allowed = " and ".join(EVERYWHERE)
                yield UsageError(f"{path}: {name}: goes into a command's table, as [build]; only {allowed} go above")
        elif name not in COMMANDS and name not in (names := [*COMMANDS, *(each.name for each in plugins()[0])]):
            yield UsageError(f"{path}: [{name}]: no such command{similar(name, names)}")


def file_defaults(path: Path, command: Any, name: str) -> dict[str, Any]:
    """A command's defaults in a settings file, by parameter name. Raises `read_config`'s errors, and UsageError for an
    unknown option, a value of the wrong type, or a flag set by both of its names."""
    found, faults = _defaults(path, read_config(path), command, name)
    for fault in faults:
        raise fault
    return found


def file_faults(path: Path, commands: dict[str, Any]) -> list[str]:
    """All faults of a settings file's syntax, tables, keys and values, for these commands by name."""
    try:
        tables = _tables(path)
    except UsageError as error:
        return [str(error)]
    faults = [*_table_faults(path, tables)]
    for name, command in commands.items():
        faults += _defaults(path, tables, command, name, convert=True)[1]
    return [*dict.fromkeys(map(str, faults))]  # options of all commands are faulty in each


def _defaults(
    path: Path, tables: dict[str, Any], command: Any, name: str, convert: bool = False
) -> tuple[dict[str, Any], list[UsageError]]:
    """A command's defaults by parameter name, and faults of its table. convert: also report values that the command
    would refuse."""
    options, negations, nested = options_of(command), negations_of(command), sub_commands(name)
    found: dict[str, Any] = {}
    faults = []
    table = reduce(lambda outer, word: outer.get(word, {}) if isinstance(outer, dict) else {}, name.split(), tables)
    everywhere = {option: tables[option] for option in EVERYWHERE if option in tables and option in options}
    own = table if isinstance(table, dict) else {}
    for place, values in ((f"{path}: ", everywhere), (f"{path}: [{'.'.join(name.split())}] ", own)):
        given: dict[str, str] = {}
        for key, value in values.items():
            option = options.get(key) or negations.get(key)
            if isinstance(value, dict) and key in nested:
                continue
            if option is None:
                known = [*options, *negations]
                faults.append(UsageError(f"{place}{key}: no such option{similar(key, known)}"))
            elif option.name in given:
                faults.append(UsageError(f"{place}{key}: {given[option.name]} is the same option; use one of them"))
            else:
                given[option.name] = key
                try:
                    default = _as_given(f"{place}{key}", option, value)
                except UsageError as error:
                    faults.append(error)
                else:
                    found[option.name] = not default if key in negations else default
                    fault = value_fault(command, option, default) if convert else None
                    if fault:
                        faults.append(UsageError(f"{place}{key} = {str(value)[:WIDTH]}: {fault}"))
    return found, faults


def _as_given(place: str, option: Any, value: Any) -> Any:
    """A value in the form that the command line gives: text, a list of texts if repeatable, a flag's truth value.

    Raises UsageError, which begins with `place`, for a value of the wrong type.
    """
    if getattr(option, "is_flag", False):
        fits, kind = isinstance(value, bool), "true or false"
    elif option.multiple:
        fits, kind = isinstance(value, list) and all(map(_is_text, value)), "a list"
    else:
        fits, kind = _is_text(value), "a text or a number"
    if not fits:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        raise UsageError(f"{place} = {text[:WIDTH]}: use {kind}")
    if isinstance(value, list):
        return list(map(str, value))
    return value if isinstance(value, bool) else str(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def value_fault(command: Any, option: Any, value: Any) -> str | None:
    """Tells what to use in place of a value that the command would refuse by itself; None for a valid one.

    value: as the command line gives it.
    """
    from sdfcli.backend.select import device_names
    from sdfcli.cli.build_options import check_require
    from sdfcli.params import BuildKeywords, BuildParams, SampleKeywords, SampleParams, check_tolerance, parse_size

    checks: dict[str, Callable[[Any], object]] = {
        "device": device_names,
        "require": check_require,
        "max_memory": parse_size,
    }
    names = {each.name for each in command.params}
    if {"tolerance", "band", "thin"} <= names:
        checks |= {each: partial(_keyword, BuildParams.of, each) for each in BuildKeywords.__annotations__}
    elif {"uniform", "sigma"} <= names:
        checks |= {each: partial(_keyword, SampleParams.of, each) for each in SampleKeywords.__annotations__}
    elif "tolerance" in names:
        checks["tolerance"] = check_tolerance
    try:
        given = option.process_value(typer.Context(command), value)
        checks.get(option.name, lambda _: None)(given)
    except typer.BadParameter as error:
        message = str(error.message)
    except SdfError as error:
        message = str(error)
    else:
        return None
    _, separator, remedy = message.partition(": use ")
    return f"use {remedy}" if separator else message


def _keyword(made: Callable[..., object], name: str, value: Any) -> None:
    made(**{**NEEDED.get(name, {}), name: value})


def variable_faults(name: str, command: Any, given: dict[str, str]) -> Iterator[str]:
    """Faults of the variables' values of a command. given: environment variables."""
    try:
        negated(command, name)
    except UsageError as error:
        yield str(error)
    for word, option in options_of(command).items():
        for variable in variables(name, word):
            text = given.get(variable)
            if text and (fault := value_fault(command, option, text.split() if option.multiple else text)):
                yield f"{variable}: {text[:WIDTH]}: {fault}"


def threads_fault() -> str | None:
    """Fault of THREADS, if it is set to something other than a count above 0."""
    asked = os.environ.get(THREADS, "")
    if not asked or (asked.isdecimal() and int(asked) > 0):
        return None
    return f"{THREADS}: {asked[:WIDTH]}: use a whole number, 1 or more"


def variables_of(name: str, command: Any) -> set[str]:
    """All environment variables of a command's options, a plugin's own included."""
    found = {each for option in [*options_of(command), *negations_of(command)] for each in variables(name, option)}
    for each in command.params:
        own = each.envvar or []
        found |= {own} if isinstance(own, str) else {*own}
    return found


def head_of(name: str) -> str:
    """First letters of a command's variables, as `SDFCLI_BENCH_SCAN_`."""
    return variables(name, "")[0]


def unknown_variables(name: str, command: Any) -> list[str]:
    """A message per environment variable with a command's `head_of` that is not one of its options'. None for a group
    of commands, whose options are not known here."""
    head = head_of(name)
    given = {each for each, value in os.environ.items() if value and each.startswith(head)}
    known = variables_of(name, command)
    unknown = given - known - {*OTHERS, *TESTS}
    if not unknown or hasattr(command, "commands"):
        return []
    heads = {head_of(each) for each in (*NAMES, *(entry.name for entry in plugins()[0]))}
    longer = tuple(each for each in heads if each.startswith(head) and each != head)
    return [no_such_variable(each, sorted(known)) for each in sorted(unknown) if not each.startswith(longer)]


def no_such_variable(name: str, known: Iterable[str]) -> str:
    """Message about an unknown environment variable. Suggests a similar one, or the same with a command."""
    ending = name.removeprefix(PREFIX.rstrip("_"))
    commands = [each for each in known if each.endswith(ending)]
    return f"{name}: no such variable{similar(name, [min(commands, key=len)] if commands else known)}"


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
    if source != "DEFAULT_MAP":
        return None
    others = (negation_set(context.command.name, word.lstrip("-")) for word in option.secondary_opts)
    return next(filter(None, others), None) or str(path)
