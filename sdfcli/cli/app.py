"""The `sdfcli` command: subcommands, and the only place where exceptions become exit codes."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sdfcli import __version__, startup
from sdfcli.cli import help as layout
from sdfcli.cli import settings
from sdfcli.cli.output import (
    error_line,
    lost_output,
    print_error,
    print_json,
    print_traceback,
    printed,
    say,
    standard_output,
)
from sdfcli.cli.registry import BUILT_IN, COMMANDS, Entry, plugins, sub_commands
from sdfcli.cli.values import check_values
from sdfcli.errors import (
    EXIT_CODES,
    INTERRUPTED,
    CheckFailedError,
    DeviceError,
    DrawingNote,
    ReadingNote,
    SdfError,
    UsageError,
)
from sdfcli.runtime import interrupts, memory
from sdfcli.startup import driver

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": layout.WIDTH}

RECORDS = "sdfcli.records"
"""Key in a context's `meta`, if the command prints JSON, or before its options are parsed, if the words have --json:
record count before it."""

REPORT = "doctor"
"""The command that reports faults of settings, whatever they are."""

NUMBERS = re.compile(r"-\.?\d[^,\s]*(,[^,\s]+)+")
"""An argument such as -1,0,0, which is no option."""

ONCE = ("at", "frame", "frames", "iso", "mesh", "output", "time")
"""Options that name what to show, and where to write it: a second one reads as one more, not as a correction."""

_quiet: list[bool] = []
"""Value of the command's --quiet, once parsed."""


class Command(TyperCommand):
    """A command whose help output may fail: closed stream, full disk, broken pipe. Arguments may begin with a minus if
    they are NUMBERS."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words; NUMBERS that are no option's value get a leading space, so that they are arguments."""
        end = args.index("--") if "--" in args else len(args)
        valued = {name for each in self.params if not getattr(each, "is_flag", False) for name in each.opts}
        for place, (before, word) in enumerate(zip(["", *args], args[:end], strict=False)):
            if NUMBERS.fullmatch(word) and before not in valued:
                args = [*args[:place], f" {word}", *args[place + 1 :]]
        if not ctx.resilient_parsing:
            self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        """Raises UsageError for one of ONCE given twice. Of other options the last value counts, so that a script or
        an alias may be overridden."""
        *_, order = self.make_parser(ctx).parse_args([*args])
        for option, count in Counter(each for each in order if not each.multiple).items():
            if count > 1 and option.name in ONCE and option.param_type_name == "option":
                raise UsageError(f"--{settings.long_name(option)}: given {count} times; use it once")

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parses the options; prints the help."""
        with standard_output():
            return super().make_context(*args, **kwargs)
        raise typer.Exit

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Usage after the command's name."""
        return layout.usage(self, ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options."""
        layout.write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the example on one line, to be copied."""
        if self.epilog:
            formatter.write(f"\n  {self.epilog}\n")

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. With --json, stores the record count before it, for errors."""
        if ctx.params.get("json"):
            ctx.meta[RECORDS] = printed()
        return super().invoke(ctx)


class Lazy(Command):
    """A command imported when its options are parsed; its help line is known without the import."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.line, rich_help_panel=entry.panel)
        self.entry = entry

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parses the options, with defaults from the environment and the settings file.

        Warns of unknown variables with the command's name. Raises `command_of`'s and `settings.file_defaults`'
        exceptions, except during shell completion; REPORT runs without a faulty file's defaults.
        """
        completes = kwargs.get("resilient_parsing")
        try:
            command = command_of(self.entry)
        except SdfError:
            if not completes:
                raise
            return super().make_context(*args, **kwargs)
        options = settings.options_of(command)
        for name, option in options.items():
            given = option.envvar or []  # a plugin's own
            own = settings.variables(self.entry.name, name)
            option.envvar = [*([given] if isinstance(given, str) else given), *own]
            option.show_envvar = bool(given)
        if not completes and self.entry.name != REPORT and (fault := settings.threads_fault()):
            raise UsageError(fault)
        path = None if completes else settings.config_file(kwargs["parent"].params.get("config"))
        if path is not None:
            try:
                kwargs["default_map"] = settings.file_defaults(path, command, self.entry.name)
            except UsageError:
                if self.entry.name != REPORT:
                    raise
        if not completes:
            kwargs["default_map"] = {**kwargs.get("default_map", {}), **settings.negated(command, self.entry.name)}
        context = command.make_context(*args, **kwargs)
        if not context.params.get("json"):
            context.meta.pop(RECORDS, None)
        origins = {name: settings.origin(context, option, path) for name, option in options.items()}
        context.meta[settings.ORIGINS] = {name: place for name, place in origins.items() if place}
        if not completes and self.entry.name != REPORT:
            for line in settings.unknown_variables(self.entry.name, command):
                _complain(f"warning: {line}")
        _quiet[:] = [bool(context.params.get("quiet"))]
        return context


def command_of(entry: Entry) -> Any:
    """Imports a command. Raises DeviceError if a plugin package's cannot be imported or is not a command."""
    try:
        return _made(entry.name, entry.load())
    except (Exception, SystemExit) as error:
        if entry.package is None:
            raise
        fault = f"{type(error).__name__}: {error}"
        raise DeviceError(f"{entry.name}: the package {entry.package} cannot be used: {fault}") from error


def _made(name: str, target: Any) -> Any:
    """Makes a command from a function or a Typer app."""
    if isinstance(target, typer.Typer):
        made: Any = typer.main.get_command(target)
        made.name = name
        made.params = [each for each in made.params if each.name not in ("install_completion", "show_completion")]
        return made
    if not callable(target):
        raise TypeError(f"{target!r} is neither a function nor a Typer app")
    text = inspect.cleandoc(target.__doc__ or "")
    words, _, last = text.rpartition("\n\n")
    text, example = (words, last) if last.startswith("Example:") else (text, None)  # printed after the options
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, cls=Command, help=text, epilog=example, context_settings=HELP)(target)
    made = typer.main.get_command(alone)
    hints = get_type_hints(inspect.unwrap(target))
    check_values(made, hints)
    for each in made.params:
        if each.param_type_name == "option":
            each.metavar = each.metavar or layout.value_name(hints.get(each.name)) or None
    return made


class Commands(TyperGroup):
    """Command group that turns all exceptions into one line on stderr and an exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in COMMANDS:
            self.add_command(Lazy(BUILT_IN[name]))
        self._refused: list[str] | None = None

    def _add_plugins(self) -> None:
        """Adds other packages' commands, once."""
        if self._refused is None:
            found, self._refused = plugins()
            for entry in found:
                self.add_command(Lazy(entry))

    def list_commands(self, ctx: Any) -> list[str]:
        """All command names."""
        self._add_plugins()
        return list(self.commands)

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command or sub-command, not yet imported; None if unknown: Typer then suggests similar names."""
        if name in BUILT_IN:
            return self.commands.get(name) or Lazy(BUILT_IN[name])
        self._add_plugins()
        return self.commands.get(name)

    def _author(self, name: str | None) -> str:
        """The package that adds a command; empty if built in."""
        command = self.commands.get(name or "")
        return (command.entry.package or "") if isinstance(command, Lazy) else ""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes options, then commands under their headings, with their whole descriptions."""
        layout.write_options(self, ctx, formatter)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panels.setdefault(command.rich_help_panel or "Commands", []).append((name, command.help or ""))
        for title, rows in panels.items():
            layout.write_section(formatter, title, rows)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help, and other packages' refused commands on standard error."""
        super().format_help(ctx, formatter)
        for line in self._refused or ():
            _complain(line, "note")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The first word's command, or its sub-command, which may follow options."""
        command, *words = args
        names = sub_commands(command)
        if set(names) & set(words):
            place = self._first_argument(ctx, [command, *(f"{command} {name}" for name in names)], words)
            if words[place : place + 1] and words[place] in names:
                args = [f"{command} {words[place]}", *words[:place], *words[place + 1 :]]
        return super().resolve_command(ctx, args)

    def _first_argument(self, ctx: Any, commands: list[str], words: list[str]) -> int:
        """Index of the first word that is neither one of these commands' options nor an option's value."""
        options = [each for name in commands for each in command_of(BUILT_IN[name]).params]
        valued = {name for each in options if not getattr(each, "is_flag", True) for name in each.opts}
        place = 0
        while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "--"):
            place += 1 + (words[place] in valued)
        return place

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parses the command line; Typer's imports for this take 0.1 s."""
        words = [*kwargs["args"]] if "args" in kwargs else [*args[1]]
        try:
            with standard_output():
                return super().make_context(*args, **kwargs)
        except KeyboardInterrupt:
            raise _interrupted(_wants_json(words)) from None
        except SdfError as error:  # the help cannot be written
            raise typer.Exit(print_error(error)) from None
        raise typer.Exit

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accepts --debug after the command, too. With --json, stores the record count, for errors."""
        if _wants_json(args):
            ctx.meta[RECORDS] = printed()
        end = args.index("--") if "--" in args else len(args)
        front = sorted(args[:end], key=lambda word: word != "--debug")
        return super().parse_args(ctx, front + args[end:])

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Runs the command line and ends the process. Option errors are one line, like all others."""
        if not options.get("standalone_mode", True):
            return super().main(*arguments, **options)
        try:
            code = super().main(*arguments, **{**options, "standalone_mode": False})
        except Exception as error:
            fault: Any = error  # from Click, or Typer's copy of it
            if not hasattr(fault, "format_message"):
                raise
            if type(fault).__name__ == "NoArgsIsHelpError":
                fault.show()
            else:
                message = fault.format_message()
                command = getattr(getattr(fault, "ctx", None), "command_path", "sdfcli")
                if getattr(fault, "option_name", None) == "--config":
                    message += "; it goes before the command, as in `sdfcli --config FILE build`"
                said = f"{message[:1].lower()}{message[1:].rstrip('.')}{_set_by(fault)} (see {command} --help)"
                words = [*(options.get("args") or (arguments or [sys.argv])[0])]
                _fail(UsageError(said), _wants_json(words))
            code = fault.exit_code
        sys.exit(code or lost_output())

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            super().invoke(ctx)  # its return value is dropped: it would become the exit code
            interrupts.check()
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise _interrupted(RECORDS in ctx.meta) from None
        except Exception as error:
            if interrupts.seen():  # the error is a consequence of the interrupt
                raise _interrupted(RECORDS in ctx.meta) from None
            if hasattr(error, "format_message"):  # Click's, of options
                raise
            if ctx.params.get("debug"):
                sys.excepthook = print_traceback
                raise
            memory.release_frames(error)
            known = memory.as_sdf_error(error, self._author(ctx.invoked_subcommand))
            if isinstance(known, UsageError):
                known = _with_origins(known, ctx.meta.get(settings.ORIGINS, {}))
            if known is not error and type(known) is SdfError:
                known = SdfError(f"{known} (--debug shows where)")
            told = isinstance(known, CheckFailedError) and printed() > ctx.meta.get(RECORDS, 0)  # by its results
            raise typer.Exit(_fail(known, RECORDS in ctx.meta and not told)) from None


def _fail(error: SdfError, json: bool) -> int:
    """Reports a command's error on standard error, and with --json on standard output; returns the exit
    code."""
    code = print_error(error)
    if json:
        _print_failure(error_line(error), code)
    return code


def _print_failure(error: str, code: int) -> None:
    from sdfcli.cli.records import Failed

    with contextlib.suppress(SdfError):  # standard output fails, too
        print_json(Failed(error=error, exit_code=code))


def _wants_json(words: list[str]) -> bool:
    """Whether --json is among the words, before options are parsed."""
    return "--json" in words[: words.index("--") if "--" in words else None]


def _set_by(fault: Any) -> str:
    """Names the variable or file that a wrong option value is from."""
    context, option = getattr(fault, "ctx", None), getattr(fault, "param", None)
    if context is None or not hasattr(option, "envvar") or context.parent is None:
        return ""
    place = settings.origin(context, option, settings.config_file(context.parent.params.get("config")))
    return f", set by {place}" if place else ""


def _with_origins(error: UsageError, origins: dict[str, str]) -> UsageError:
    """An error whose message also says which options are not from the command line."""
    named = [f"--{name} is set by {place}" for name, place in origins.items() if re.search(rf"--{name}\b", str(error))]
    return UsageError(f"{error} ({', '.join(named)})") if named else error


def _interrupted(json: bool) -> typer.Exit:
    """Reports an interrupt as `_fail` reports an error."""
    _complain("interrupted")
    if json:
        _print_failure("interrupted", INTERRUPTED)
    return typer.Exit(INTERRUPTED)


def _complain(message: str, head: str = "sdfcli") -> None:
    with contextlib.suppress(OSError):  # a closed stream: the exit code is enough
        say(f"{head}: {' '.join(message.split())}")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sdfcli {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}.",
    context_settings=HELP,
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print a traceback on errors; also accepted after the command.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar=settings.VARIABLE,
            help="TOML file with defaults of options; the user's config.toml by default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Signed distance fields from triangle meshes."""
    memory.require(memory.LEAST, "any command")


def _open_streams() -> None:
    """Replaces closed standard streams: files opened later would otherwise get their descriptors.

    Standard input is empty, standard error discards, and writes to standard output fail.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, mode), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def _show_notes() -> None:
    """Prints notes of mesh readers, their libraries, and pictures on standard error, unless -q is given."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        from sdfcli.mesh.formats.notes import file_that_is_read, keep
        from sdfcli.runtime.remote import known_as

        read = file_that_is_read()
        if not issubclass(category, ReadingNote | DrawingNote):
            if read is None:
                return shown(message, category, *place, **more)
            keep(str(message))
            message = f"{known_as(read)}: {message}"
        if not any(_quiet):
            from sdfcli.cli.output import say

            say(f"note: {message}")

    warnings.simplefilter("always", ReadingNote)
    warnings.showwarning = show


def _mend_zsh() -> None:
    """Makes zsh complete at the first tab key: Typer's script, loaded by that key, only defines the function that the
    next one calls."""
    from typer import _completion_shared

    scripts = getattr(_completion_shared, "_completion_scripts", {})
    if "zsh" in scripts:
        scripts["zsh"] += '\n\n[[ -z ${compstate[context]} ]] || %(complete_func)s "$@"\n'


def main() -> None:
    """Runs the command line and ends the process (see __main__.py)."""
    if not driver.present():
        memory.bound()
    _open_streams()
    _show_notes()
    if {"--install-completion", "--show-completion"} & set(sys.argv):
        _mend_zsh()
    startup.collect_less()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names may be any bytes
    try:
        app()
    except SystemExit as end:
        driver.exit_fast(end.code)
        raise
