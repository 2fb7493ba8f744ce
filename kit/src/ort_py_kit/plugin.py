"""The pytest plug-in of the kit: which provider is tested, which share of the tests, the report and the support table.

`pytest_entry` loads it where ``ort_py_kit`` is named on the command line; an author's ``conftest.py`` does with
``pytest_plugins = ["ort_py_kit.plugin"]``. It does not depend on checks: it reads what `suites.results` left with each
case.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ort_py_kit.support_table import SupportTable

COMMAND_LINE = pytest.StashKey["tuple[str, str, dict[str, str], str | None]"]()
"""Provider, plug-in module, options and file of expected failures, as the command line gives them."""

_TABLE = pytest.StashKey[SupportTable]()
# `suites.results.CASE_PROPERTY` and `suites.versions.VERSION_PROPERTY`: the suites are loaded when they are used
_CASE_PROPERTY, _VERSION_PROPERTY = "ort_py_case", "ort_py_version"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ort-py", "conformance of ort-py's plug-ins")
    group.addoption("--provider", default="", metavar="NAME", help="execution provider that `ort_py_kit` tests")
    group.addoption(
        "--provider-plugin", default="", metavar="MODULE", help="module that registers it, where it is not installed"
    )
    group.addoption(
        "--provider-option", action="append", default=[], metavar="K=V", help="option of the provider; repeat for more"
    )
    group.addoption(
        "--expected-failures", default=None, metavar="FILE", help="cases known to fail: `case id: reason` a line"
    )
    group.addoption("--shard", default="", metavar="I/N", help="run the I-th of N shares of the kit's tests")
    group.addoption("--support-table", default=None, metavar="FILE.md", help="write the operators that it runs")


def pytest_configure(config: pytest.Config) -> None:
    """Read and check the options."""
    options = {}
    for text in config.getoption("--provider-option"):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise pytest.UsageError(f"--provider-option {text}: write name=value, e.g. --provider-option device=0")
        options[name] = value
    config.stash[COMMAND_LINE] = (
        config.getoption("--provider"),
        config.getoption("--provider-plugin"),
        options,
        config.getoption("--expected-failures"),
    )
    _share(config)
    config.stash[_TABLE] = SupportTable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other shards' tests of the kit; tests that are not the kit's stay in each."""
    share = _share(config)
    if share is None:
        return
    index, count = share
    tests = sorted((item for item in items if _is_of_the_kit(item)), key=lambda item: item.nodeid)
    left_out = {item for place, item in enumerate(tests) if place % count != index - 1}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect what cases leave, on the process that reports."""
    if not hasattr(session.config, "workerinput"):  # a worker of pytest-xdist sends its reports on
        session.config.pluginmanager.register(_Collector(session.config.stash[_TABLE]), "ort-py-support-table")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A line for each provider, and the table where it was asked for."""
    table = config.stash[_TABLE]
    for line in table.summary():
        terminalreporter.write_line(line)
    file = config.getoption("--support-table")
    if file is None:
        return
    if table.providers:
        Path(file).write_text(table.markdown(), encoding="utf-8")
        terminalreporter.write_line(f"The support table is in {file}.")
    else:
        terminalreporter.write_line(f"No case was run: {file} is not written.")


class _Collector:
    """Puts the records of finished cases into the table."""

    def __init__(self, table: SupportTable) -> None:
        self._table = table

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Each test reports three times; the call is what counts.

        A case that was skipped because a package is missing is left out; one that the provider did not run is counted.
        """
        if report.when != "call":
            return
        expected = hasattr(report, "wasxfail")
        for name, record in report.user_properties:
            if not isinstance(record, dict):
                continue
            if name == _CASE_PROPERTY and (not report.skipped or expected or record.get("not_run")):
                self._table.add(record, passed=report.passed, expected=expected)
            elif name == _VERSION_PROPERTY:
                self._table.add_version(record, passed=report.passed)


def _is_of_the_kit(item: pytest.Item) -> bool:
    suite = getattr(item, "cls", None)
    return suite is not None and any(base.__module__.startswith("ort_py_kit.suites.") for base in suite.__mro__)


def _share(config: pytest.Config) -> Sequence[int] | None:
    text = config.getoption("--shard")
    if not text:
        return None
    first, _, last = text.partition("/")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)):
        raise pytest.UsageError(f"--shard {text}: write I/N with I from 1 to N, e.g. --shard 2/4")
    return int(first), int(last)
