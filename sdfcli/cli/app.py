"""The command `sdfcli`: its subcommands, and the one place where exceptions become exit codes."""

from __future__ import annotations

import gc
import inspect
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sdfcli import __version__, driver, interrupts
from sdfcli.cli import bench, build, check, export, extract, info, profile, query, render, slice, verify
from sdfcli.errors import OutOfMemoryError, SdfError

EXIT_CODES = """Exit codes: 0 done; 1 internal error; 2 usage; 3 bad input; 4 device or program missing;
5 out of memory; 6 a check failed; 7 time is up; 130 interrupted."""


class Commands(TyperGroup):
    """Turns the exceptions of all commands into one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was asked for."""
        try:
            result = super().invoke(ctx)
            interrupts.check()
            return result
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise _interrupted() from None
        except Exception as error:
            if interrupts.seen():  # and something else came of it
                raise _interrupted() from None
            if type(error).__module__.startswith(("click", "typer")) or ctx.params.get("debug"):
                raise
            if isinstance(error, MemoryError):
                error = OutOfMemoryError("out of memory; try a larger --tolerance or a smaller --depth")
            if isinstance(error, SdfError):
                _complain(str(error))
                raise typer.Exit(error.exit_code) from None
            _complain(f"internal error: {type(error).__name__}: {error} (--debug shows where)")
            raise typer.Exit(1) from None


def _interrupted() -> typer.Exit:
    _complain("interrupted")
    return typer.Exit(130)


def _complain(message: str) -> None:
    typer.echo("sdfcli: " + " ".join(message.split()), err=True)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sdfcli {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EXIT_CODES)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Signed distance fields from triangle meshes."""


app.command()(build.build)
app.command()(extract.extract)
app.command()(render.render)
app.command("slice")(slice.slice_plane)
app.command()(export.export)
app.command()(check.check)
app.command()(info.info)
app.command()(query.query)
app.command()(verify.verify)
app.command()(bench.bench)
app.command()(profile.profile)
for _command in app.registered_commands:  # the example comes last, after the options
    _command.help, _, _command.epilog = inspect.cleandoc(_command.callback.__doc__ or "").rpartition("\n\n")


def main() -> None:
    """The entry point of the command line."""
    interrupts.watch()
    driver.without_cub()
    gc.set_threshold(100_000)  # imports make many objects, none of them garbage
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start as many as there are CPUs, for no work
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    try:
        app()
    except SystemExit as end:
        driver.leave(end.code)
        raise
