"""The example provider goes through the door from its sources, by the class and by the command line.

It is the smallest there is, so it also shows what the kit costs an author who has written two operators.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from ort_py_kit import ProviderSuite
from tests.support.source_tree import ROOT

SOURCES = ROOT / "plugins-example" / "hello-provider" / "src"
NAME, PLUGIN = "HelloExecutionProvider", "ort_py_hello.plugin"


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """Its sources on the path; the suite forgets what it registered."""
    sys.path.insert(0, str(SOURCES))
    yield
    sys.path.remove(str(SOURCES))


class TestHello(ProviderSuite):
    """HelloExecutionProvider; of ONNX's cases only those near its operators."""

    provider = NAME
    plugin = PLUGIN
    cases: ClassVar[tuple[str, ...]] = ("test_relu", "test_add")


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The kit's command line in a folder of its own, where no configuration of this repository counts."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), *filter(None, sys.path)])}
    base = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "ort_py_kit.plugin",
        "-p",
        "no:cacheprovider",
        "--noconftest",
    ]
    return subprocess.run(
        [*base, "--rootdir", str(folder), "--pyargs", "ort_py_kit", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )


@pytest.mark.slow  # the cases are collected
def test_the_command_line_writes_the_support_table(tmp_path: Path) -> None:
    """Chosen cases pass, the report counts them, and the table lists the provider's operators."""
    named = (
        "--provider",
        NAME,
        "--provider-plugin",
        PLUGIN,
        "--support-table",
        "table.md",
        "-k",
        "test_relu or test_add",
    )
    done = command(*named, folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"{NAME}: " in done.stdout
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert f"# Operators of {NAME}" in table
    assert "| Relu | ai.onnx | " in table
    assert "| Add | ai.onnx | " in table


@pytest.mark.nightly  # the cases are collected three times
def test_shards_are_all_of_the_tests(tmp_path: Path) -> None:
    """Each test of the kit is in exactly one shard."""
    named = ("--provider", NAME, "--provider-plugin", PLUGIN, "--collect-only", "-k", "relu or probe or memory")

    def collected(*more: str) -> list[str]:
        done = command(*named, *more, folder=tmp_path)
        return sorted(line for line in done.stdout.splitlines() if "::" in line)

    shards = [collected("--shard", f"{number}/2") for number in (1, 2)]
    assert sorted(shards[0] + shards[1]) == collected()
    assert all(shards)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (("--shard", "3/2"), "--shard 3/2: write I/N"),
        (("--provider-option", "device"), "--provider-option device: write name=value"),
    ],
)
def test_wrong_arguments_are_refused(argument: tuple[str, str], message: str, tmp_path: Path) -> None:
    done = command("--provider", NAME, *argument, "-k", "test_it_is_listed", folder=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr


@pytest.mark.slow  # the cases are collected
def test_a_provider_that_nobody_has_fails_with_what_to_do(tmp_path: Path) -> None:
    """One test fails and says how the provider would be found; the others are not run."""
    done = command("--provider", "NobodysExecutionProvider", "-k", "listed or quick or empty", folder=tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "NobodysExecutionProvider is not found" in done.stdout
    assert "--provider-plugin" in done.stdout
    assert "1 failed" in done.stdout
