"""``ort-py``: arguments, the commands of plug-ins, and exit codes.

A command's module is imported only when it is the one asked for; plug-ins only where no built-in command is named.
Exit codes: 0 the job is done, 1 it failed and standard error says why, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from errno import EINVAL
from typing import Any, TextIO

from ort_py import __version__
from ort_py.cli.console import tell
from ort_py.errors import OrtPyError
from ort_py.suggestions import did_you_mean

FAILED, USAGE, INTERRUPTED = 1, 2, 130

_COMMANDS = {
    "run": "run a model on files, an image or generated inputs, and show results and times",
    "info": "show the content of a model file: inputs, outputs, operators, weights",
    "explain": "show the provider of each node of a model, and why others refused it",
    "compare": "run a model in two ways and show the first node that computes something else",
    "tune": "measure the best few placements of a model and remember the fastest, or calibrate the providers",
    "compile": "prepare a model for this kind of machine and write it to one file that sessions load quickly",
    "providers": "list the execution providers: installed or not, usable here or not, and why",
    "doctor": "try every installed provider in a process of its own, and explain what to do about failures",
    "cache": "list, prune and check the prepared models and compiled artifacts on disk",
}
_BROUGHT_BY = {"new": "ort-py-kit"}
"""Commands that other distributions of ort-py contribute, for an error that names the one to install."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; those of the process where None.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with _messages_on_stderr():
        try:
            parsed = _parser(given).parse_args(given)
        except SystemExit as stop:  # argparse has printed help, the version or what is wrong
            return stop.code if isinstance(stop.code, int) else USAGE
        try:
            code = int(parsed.command_run(parsed))
            sys.stdout.flush()
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else FAILED
        except KeyboardInterrupt:
            tell("interrupted")
            return INTERRUPTED
        except Exception as error:
            if _has_no_reader(error):  # its reader has closed our output, e.g. `| head`
                # Python would complain again while it exits.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 0
            _show_failure(error, with_traceback=parsed.traceback)
            return FAILED
        return code


def _has_no_reader(error: Exception) -> bool:
    """Whether a pipe that was written to is closed. Windows reports it as an invalid argument, of no file."""
    if isinstance(error, BrokenPipeError):
        return True
    return sys.platform == "win32" and isinstance(error, OSError) and (error.errno, error.filename) == (EINVAL, None)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ort-py", description="Run and examine ONNX models with ort-py.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"ort-py {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    named = next((word for word in given if not word.startswith("-")), None)
    for name, text in _COMMANDS.items():
        command = _add_command(commands, name, text)
        if name == named:
            module = importlib.import_module(f"ort_py.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(command_run=module.run)
    if named not in _COMMANDS and "--version" not in given:
        _add_plugin_commands(commands)
        if named is not None and named not in commands.choices:
            distribution = _BROUGHT_BY.get(named)
            if distribution is not None:
                parser.error(f"the command '{named}' comes with another package: pip install {distribution}")
            hint = did_you_mean(named, commands.choices)
            if hint:
                parser.error(f"there is no command '{named}'. {hint}")
    return parser


def _add_command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    command.add_argument("--traceback", action="store_true", help="show where in the code a failure came from")
    return command


def _add_plugin_commands(commands: Any) -> None:
    """Add what plug-ins contribute; what is wrong with one is a warning and leaves the others alone."""
    try:
        from ort_py.discovery import default_catalog

        catalog = default_catalog()
        catalog.records()  # loads the plug-ins behind providers, which may contribute commands too
        contributions = catalog.hooks.contributions("ort_py_cli_commands")
    except Exception as error:
        _warn(f"the commands of plug-ins could not be read: {type(error).__name__}: {error}")
        return
    taken = set(_COMMANDS)
    for plugin, contributed in contributions:
        name = str(getattr(contributed, "name", "") or "")
        if not name or name in taken:
            _warn(
                f"plug-in '{plugin}': its command '{name}' is left out: "
                f"{'the name is already used' if name else 'no name'}"
            )
            continue
        # Tried on a parser of its own first: a subparser that is half made could not be taken back.
        try:
            text = str(contributed.help)
            contributed.add_arguments(argparse.ArgumentParser(add_help=False))
            command = _add_command(commands, name, text)
            contributed.add_arguments(command)
            command.set_defaults(command_run=contributed.run)
        except (Exception, SystemExit) as error:
            _warn(f"plug-in '{plugin}': its command '{name}' is left out: {type(error).__name__}: {error}")
            continue
        taken.add(name)


def _show_failure(error: Exception, *, with_traceback: bool) -> None:
    if with_traceback:
        traceback.print_exception(error)
    elif isinstance(error, OrtPyError):
        tell(f"{type(error).__name__}: {error}")
    elif isinstance(error, OSError):
        tell(f"{type(error).__name__}: {error}\n  what to do: check the path and its permissions")
    else:
        tell(
            f"{type(error).__name__}: {error}\n"
            "  what to do: this should not happen; run again with --traceback and report it"
        )


class _StderrHandler(logging.Handler):
    """Log records in one line each: tracebacks of plug-ins are for programs that set logging up."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "ort_py.session":
            return  # fallbacks: a warning says them too, and the report of the command lists them
        tell(f"{record.levelname.lower()}: {record.getMessage()}")


@contextlib.contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Show warnings and log records plainly while a command runs."""
    logger = logging.getLogger("ort_py")
    handler = _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(handler)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    # Where in our code a warning was made says nothing to a user at a terminal.
    _warn(str(message))


def _warn(text: str) -> None:
    tell(f"warning: {text}")


if __name__ == "__main__":
    sys.exit(main())
