"""The frame of the command line: exit codes, messages, and the commands of plug-ins."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import onnx
import pytest

import ort_py
from core.tests.cli.conftest import Call, Save
from ort_py.discovery import default_catalog
from ort_py.hooks import hookimpl


def test_version(call: Call) -> None:
    """``--version`` prints the version and nothing else."""
    outcome = call("--version")
    assert (outcome.code, outcome.out) == (0, f"ort-py {ort_py.__version__}\n")


def test_help_lists_the_commands(call: Call) -> None:
    outcome = call("--help")
    assert outcome.code == 0
    for name in ("run", "info", "explain", "providers", "cache"):
        assert f"  {name}" in outcome.out


@pytest.mark.parametrize("name", ["run", "info", "explain", "providers", "cache"])
def test_every_command_has_help_and_json(call: Call, name: str) -> None:
    """Each command explains itself, and all of them report as JSON."""
    outcome = call(name, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out


@pytest.mark.parametrize("arguments", [(), ("run",), ("run", "m.onnx", "--bogus"), ("info", "m.onnx", "--limits", "x")])
def test_wrong_command_lines_end_with_2(call: Call, arguments: tuple[str, ...]) -> None:
    """The error is on standard error; standard output stays empty."""
    outcome = call(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "usage: ort-py" in outcome.err


def test_unknown_command_suggests_one(call: Call) -> None:
    """A misspelt command is answered with the right one."""
    outcome = call("expain", "model.onnx")
    assert outcome.code == 2
    assert "there is no command 'expain'. Did you mean 'explain'?" in outcome.err


def test_options_are_not_abbreviated(call: Call, save: Save) -> None:
    """``--prov`` could mean something else tomorrow."""
    assert call("run", save(), "--prov", "CPUExecutionProvider").code == 2


def test_failure_has_four_parts_and_no_traceback(call: Call) -> None:
    """A job that failed ends with 1 and the error's own message."""
    outcome = call("run", "missing.onnx")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("NoSuchFile: Loading the model failed")
    for part in ("where:", "why:", "what to do:"):
        assert part in outcome.err
    assert "Traceback" not in outcome.err


def test_traceback_on_request(call: Call) -> None:
    """``--traceback`` shows where in the code it came from."""
    outcome = call("run", "missing.onnx", "--traceback")
    assert outcome.code == 1
    assert "Traceback (most recent call last)" in outcome.err
    assert "FileNotFoundError" in outcome.err


def test_unexpected_failure_asks_for_a_report(call: Call, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message calls the error unexpected, still without a traceback."""

    def fail(*_arguments: Any, **_named: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(ort_py.InferenceSession, "run", fail)
    outcome = call("run", save())
    assert outcome.code == 1
    assert outcome.err.splitlines()[-2:] == [
        "ZeroDivisionError: a mistake of ours",
        "  what to do: this should not happen; run again with --traceback and report it",
    ]


def test_unwritable_folder_is_a_plain_message(call: Call, save: Save) -> None:
    """Errors of the file system are expected."""
    model = save()
    outcome = call("run", model, "--output", model / "below a file")
    assert outcome.code == 1
    assert outcome.out == ""
    assert "check the path and its permissions" in outcome.err


def test_interrupt_ends_with_130(call: Call, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ort_py.InferenceSession, "run", interrupt)
    outcome = call("run", save(), "--dim", "N=1")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "interrupted\n")


@pytest.mark.filterwarnings("default::ort_py.ProviderFallbackWarning")  # shown, as in a shell, not raised
def test_warnings_are_plain_lines(call: Call, save: Save) -> None:
    """A provider that is skipped is one line on standard error, once."""
    outcome = call("run", save(), "--dim", "N=1", "--providers", "TensorrtExecutionProvider,CPUExecutionProvider")
    assert outcome.code == 0
    (line,) = outcome.err.splitlines()
    assert line.startswith("warning: The provider TensorrtExecutionProvider is not used: it is not installed.")
    assert "fallback: TensorrtExecutionProvider" in outcome.out


def test_names_in_a_model_cannot_steer_the_terminal(call: Call, save: Save) -> None:
    """Control characters in names are shown as escapes, on both streams and in JSON."""
    path = save()
    model = onnx.load(path)
    model.graph.name = "red \x1b[31m graph"
    model.graph.node[0].op_type = "Re\x9b31mlu"
    path.write_bytes(model.SerializeToString())
    for outcome in (call("info", path), call("info", path, "--json"), call("run", path)):
        shown = outcome.out + outcome.err
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "x9b31mlu" in shown or "u009b31mlu" in shown


def test_no_command_needs_onnx_for_its_help() -> None:
    """Help comes without importing the engine."""
    code = "import sys; from ort_py.cli.main import main; main(['run', '--help']); print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("False\n")


def test_closed_pipe_is_no_error(save: Save) -> None:
    """``ort-py info MODEL | head -1`` ends without a complaint."""
    command = [sys.executable, "-m", "ort_py.cli", "info", str(save())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == ""
    assert child.returncode == 0


class Hello:
    """A command that a plug-in contributes."""

    name = "hello"
    help = "say hello"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take a name."""
        parser.add_argument("whom")

    def run(self, arguments: argparse.Namespace) -> int:
        """Say it."""
        if arguments.whom == "nobody":
            raise ort_py.InvalidArgument("There is nobody to greet.", fix="Name somebody.")
        print(f"hello {arguments.whom}")
        return 0 if arguments.whom != "code" else 5


class Unnamed(Hello):
    """A command without a name."""

    name = ""


class Taken(Hello):
    """A command with the name of a built-in one."""

    name = "run"


class Raising(Hello):
    """A command that cannot even say what its arguments are."""

    name = "raising"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Raise."""
        raise RuntimeError("a plug-in's mistake")


Contribute = Callable[..., None]


@pytest.fixture
def contribute() -> Iterator[Contribute]:
    """Register a plug-in with commands for the duration of a test."""

    def add(*commands: Any, error: Exception | None = None) -> None:
        class Plugin:
            @hookimpl
            def ort_py_cli_commands(self) -> Iterable[Any]:
                if error is not None:
                    raise error
                return commands

        default_catalog().hooks.register(Plugin(), "plug-in under test")

    yield add
    default_catalog().hooks.unregister("plug-in under test")


def test_plugin_command_runs(call: Call, contribute: Contribute) -> None:
    """A contributed command gets its arguments and decides the exit code."""
    contribute(Hello())
    assert call("hello", "you").out == "hello you\n"
    assert call("hello", "code").code == 5


def test_plugin_command_is_listed(call: Call, contribute: Contribute) -> None:
    """It stands in the help beside the others."""
    contribute(Hello())
    assert "say hello" in call("--help").out


def test_errors_of_a_plugin_command_are_shown_alike(call: Call, contribute: Contribute) -> None:
    """Typed errors of a plug-in's command have four parts too."""
    contribute(Hello())
    outcome = call("hello", "nobody")
    assert outcome.code == 1
    assert outcome.err == "InvalidArgument: There is nobody to greet.\n  what to do: Name somebody.\n"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Unnamed(), "its command '' is left out: no name"),
        (Taken(), "its command 'run' is left out: the name is already used"),
        (Raising(), "its command 'raising' is left out: RuntimeError: a plug-in's mistake"),
    ],
    ids=["unnamed", "taken", "raising"],
)
def test_broken_command_is_a_warning(call: Call, contribute: Contribute, command: Any, text: str) -> None:
    """A command that cannot be used is warned about; the others work."""
    contribute(command, Hello())
    outcome = call("hello", "you")
    assert (outcome.code, outcome.out) == (0, "hello you\n")
    assert f"warning: plug-in 'plug-in under test': {text}" in outcome.err


def test_broken_hook_is_a_warning(call: Call, contribute: Contribute) -> None:
    """A plug-in that raises when asked for commands is warned about, without a traceback."""
    contribute(error=OSError("libmissing.so"))
    outcome = call("--help")
    assert outcome.code == 0
    assert "Plug-in 'plug-in under test' broke in the hook 'ort_py_cli_commands': OSError: libmissing.so" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_command_of_a_missing_package_names_the_package(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ort-py new`` without the kit is not an unknown command, but one that a package brings."""
    monkeypatch.setattr(default_catalog().hooks, "contributions", lambda _hook: ())
    outcome = call("new", "provider", "acme")
    assert outcome.code == 2
    assert "the command 'new' comes with another package: pip install ort-py-kit" in outcome.err


def test_builtin_commands_do_not_ask_plugins(call: Call, contribute: Contribute, save: Save) -> None:
    """A broken plug-in is none of the business of ``ort-py info``."""
    contribute(error=OSError("libmissing.so"))
    assert call("info", save()).err == ""
