"""The kit as a plug-in of ort-py: contributes ``ort-py new``.

The entry point names this module, so every process that loads plug-ins imports it: it imports nothing but the hooks.
The command's own module is imported when the command line needs its arguments.
"""

from __future__ import annotations

from typing import Any

from ort_py.hooks import CliCommand, hookimpl


class _New:
    name = "new"
    help = "begin a plug-in: a package with a provider, a kernel, an operator or a rule, and its tests"

    def add_arguments(self, parser: Any) -> None:
        from ort_py_kit.cli.new import add_arguments

        add_arguments(parser)

    def run(self, arguments: Any) -> int:
        from ort_py_kit.cli.new import run

        return run(arguments)


@hookimpl
def ort_py_cli_commands() -> list[CliCommand]:
    return [_New()]
