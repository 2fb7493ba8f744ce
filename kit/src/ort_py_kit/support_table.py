"""The support table: which operators a provider ran in ONNX's cases, and how many of them passed; for its docs.

Comes after the tests; knows neither pytest nor a provider.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DEFAULT_DOMAIN = "ai.onnx"


@dataclass(slots=True)
class _Provider:
    cases: int = 0
    ran: int = 0
    failed: int = 0
    not_run: int = 0
    versions: int = 0
    version_cases: int = 0
    version_cases_elsewhere: int = 0
    unreached: list[str] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    passed_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    cases_of: Counter[tuple[str, str]] = field(default_factory=Counter)


class SupportTable:
    """Counts of cases by provider and operator. Filled case by case."""

    def __init__(self) -> None:
        self._providers: dict[str, _Provider] = defaultdict(_Provider)

    @property
    def providers(self) -> Sequence[str]:
        return sorted(self._providers)

    def add(self, record: Mapping[str, Any], *, passed: bool, expected: bool) -> None:
        """Count one case.

        Args:
            record: Its ``provider``, its id ``case``, the (domain, operator) pairs it ``ran`` there, the reason of
                an ``expected_failure``, ``""`` where none is expected, and ``not_run`` where others ran all of it.
        """
        counts = self._providers[record["provider"]]
        operators = [(str(domain), str(name)) for domain, name in record["ran"]]
        counts.cases += 1
        if record.get("not_run"):
            counts.not_run += 1
            return
        counts.ran += bool(operators)
        if expected and not passed:
            counts.expected[record["case"]] = record["expected_failure"]
        elif not passed:
            counts.failed += 1
        counts.cases_of.update(operators)
        if passed and not expected:
            counts.passed_of.update(operators)

    def add_version(self, record: Mapping[str, Any], *, passed: bool) -> None:
        """Count what was run at one version of an operator.

        Args:
            record: Its ``provider``, the name of the ``version``, how many cases it ``ran`` and how many it did
                ``not_run``, and whether the version is ``claimed``.
        """
        if not record["claimed"]:
            return
        counts = self._providers[record["provider"]]
        if not record["ran"]:
            counts.unreached.append(record["version"])
            return
        counts.versions += passed
        counts.version_cases += record["ran"]
        counts.version_cases_elsewhere += record["not_run"]

    def summary(self) -> list[str]:
        """A few lines a provider."""
        return [line for name, one in sorted(self._providers.items()) for line in _summary(name, one)]

    def markdown(self) -> str:
        """The table, with the expected failures below; a section a provider."""
        return "\n".join(line for name in self.providers for line in _section(name, self._providers[name])) + "\n"


def _summary(name: str, counts: _Provider) -> list[str]:
    lines = []
    if counts.cases:
        lines.append(
            f"{name}: {counts.cases} ONNX cases, runs nodes of {counts.ran} ({len(counts.cases_of)} operators); "
            f"{counts.not_run} not run; {counts.failed} fail, {len(counts.expected)} fail as expected"
        )
    if counts.versions:
        lines.append(
            f"{name}: right at {counts.versions} versions of operators, with {counts.version_cases} cases "
            f"({counts.version_cases_elsewhere} more of them ran elsewhere)"
        )
    if counts.unreached:
        lines.append(f"{name}: claimed versions that no case reached: {', '.join(sorted(counts.unreached))}")
    return lines


def _section(name: str, counts: _Provider) -> list[str]:
    lines = [
        f"# Operators of {name}",
        "",
        f"Of {counts.cases} cases of ONNX's backend suite it runs nodes of {counts.ran}; the others are run by other "
        f"providers. It was right at {counts.versions} versions of operators. "
        "Made by `pytest --pyargs ort_py_kit --support-table`.",
        "",
        "| operator | domain | cases with nodes that it runs | passed |",
        "|---|---|---|---|",
    ]
    for domain, operator in sorted(counts.cases_of, key=lambda key: (key[0], key[1])):
        total, passed = counts.cases_of[domain, operator], counts.passed_of[domain, operator]
        lines.append(f"| {operator} | {domain or _DEFAULT_DOMAIN} | {total} | {passed} |")
    if counts.expected:
        lines += ["", "Known failures:", ""]
        lines += [f"- `{case}`: {reason}" for case, reason in sorted(counts.expected.items())]
    return [*lines, ""]
