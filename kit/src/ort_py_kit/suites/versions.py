"""Results at every version: each operator at each version of its schema that the provider claims gets cases there.

A case counts only where the session's placement shows that the provider ran the operator; one that ran elsewhere is
reported as not run, with the provider's own refusal. A version that a kernel claims and no case reaches is a failure,
so that every supported version has been tested. For regions the provider is asked case by case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ort_py.contracts import IExecutionProvider
from ort_py.errors import KernelNotFoundError, OrtPyError
from ort_py.errors import NotImplemented as NotSupported
from ort_py_kit.backend_cases import SuiteCase, compare
from ort_py_kit.expected_failures import reason_for
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import ProviderChecks, fail, first_lines
from ort_py_kit.versions.cases import cases_at, cases_of_operators, thinned
from ort_py_kit.versions.history import OperatorVersion, operator_versions

VERSION_PROPERTY = "ort_py_version"
"""Name of the property in which a test keeps which cases of an operator's version the provider ran."""

_PREFIX = "version/"


class VersionChecks(ProviderChecks):
    """Results are right at every version of an operator that the provider claims.

    Attributes:
        every_case: Whether all cases are run at each version; a few that differ in attributes, inputs and types are,
            where not.
    """

    every_case: ClassVar[bool] = False

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each version of each operator."""
        if "operator_version" in metafunc.fixturenames:
            chosen = self.chosen_versions()
            metafunc.parametrize("operator_version", chosen, ids=[version_id(one) for one in chosen])
        super().pytest_generate_tests(metafunc)

    @classmethod
    def chosen_versions(cls) -> Sequence[OperatorVersion]:
        """The versions that are looked at: those of operators with a case that `cases` names."""
        if cls.cases is False:
            return ()
        words = () if cls.cases is True else tuple(cls.cases)
        return [
            OperatorVersion(domain, op_type, version)
            for (domain, op_type), versions in operator_versions().items()
            if not words or _named(cases_of_operators().get((domain, op_type), ()), words)
            for version in versions
        ]

    def test_operator_version(
        self,
        operator_version: OperatorVersion,
        usable: Subject,
        known_failures: Mapping[str, str],
        request: pytest.FixtureRequest,
    ) -> None:
        """Cases at this version give what the specification says, and the provider itself ran them.

        Skipped, with the provider's refusal, where it claims this version in no case.
        """
        title = version_id(operator_version)
        reason = reason_for(known_failures, title) or ""
        if reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        cases = cases_at(operator_version)
        chosen = cases if self.every_case else thinned(cases)
        outcomes = [
            _outcome(usable, case, operator_version, both=self.every_case or not place)
            for place, case in enumerate(chosen)
        ]
        claimed = operator_version in _claimed_by_kernels(usable)
        record = _record(usable, title, outcomes, claimed=claimed, expected=reason)
        request.node.user_properties.append((VERSION_PROPERTY, record))
        wrong = [f"{one.case}: {one.problem}" for one in outcomes if one.problem]
        if wrong:
            fail(
                f"{title}: {usable.name} does not give what this version of the operator has to give.",
                wrong[:8],
                fix="correct the operator at this version, or refuse such nodes: a kernel narrows `since` and `until`, "
                "get_capability leaves the node out. `ort_py_kit.versions.cases.cases_at` has the cases.",
            )
        if any(one.ran for one in outcomes):
            return
        refusals = list(dict.fromkeys(one.refusal for one in outcomes if one.refusal))
        if claimed:
            fail(
                f"{title}: a kernel of {usable.name} claims this version, and no case reached it.",
                refusals[:8] or ["the kit has no case of this operator at this version"],
                fix="narrow the kernel's versions, correct what keeps the provider from the cases, or list "
                f"`{title}: reason` in the file of expected failures.",
            )
        pytest.skip(f"not run by {usable.name}: {refusals[0] if refusals else 'the kit has no case at this version'}")

    def test_other_operators_are_listed(self, usable: Subject, known_failures: Mapping[str, str]) -> None:
        """Kernels of operators that ONNX does not define have a sample that runs them, or a line in the file.

        The file may name all operators of a domain, ``version/com.example.*``; a line that fits nothing is a mistake.
        """
        others = {kernel for kernel in _claimed_by_kernels(usable) if kernel[:2] not in operator_versions()}
        seen = _operators_of_samples(usable, self.samples()) if others else frozenset()
        missing = {version_id(one) for one in others if one[:2] not in seen}
        unlisted = sorted(title for title in missing if reason_for(known_failures, title) is None)
        if unlisted:
            fail(
                f"{usable.name} has kernels of operators that ONNX does not define, and nothing here runs them.",
                unlisted[:12],
                fix="override `samples` with models of them, or list them in the file of expected failures, with the "
                "tests that compare them: `version/com.example.*: reason` for a whole domain.",
            )


@dataclass(slots=True)
class _Outcome:
    """The outcome of one case.

    Attributes:
        ran: Whether the provider ran the operator.
        problem: Fault of the results; ``""`` where there was none.
        refusal: Why the provider did not run it.
    """

    case: str
    ran: bool = False
    problem: str = ""
    refusal: str = ""


def version_id(operator: OperatorVersion) -> str:
    """The name of a version in reports and in files of expected failures, e.g. ``version/MaxPool-8``."""
    return f"{_PREFIX}{operator}"


def version_ids() -> frozenset[str]:
    """The names of all versions that ONNX defines."""
    return frozenset(
        version_id(OperatorVersion(*operator, version))
        for operator, versions in operator_versions().items()
        for version in versions
    )


def _named(cases: Sequence[SuiteCase], words: Sequence[str]) -> bool:
    return any(word in f"{case.kind}/{case.name}" for case in cases for word in words)


def _outcome(subject: Subject, case: SuiteCase, operator: OperatorVersion, *, both: bool) -> _Outcome:
    """Run a case as it is written and, on request or where that ran elsewhere, with all inputs but the first constant.

    Models have both forms. A provider may run one of them only; the case counts as run then.
    """
    outcome = _tried(subject, case, operator)
    weighted = None if outcome.problem or (outcome.ran and not both) else _with_constants(case)
    if weighted is None:
        return outcome
    again = _tried(subject, weighted, operator)
    again.case += " with constants"
    return again if again.problem or not outcome.ran else outcome


def _tried(subject: Subject, case: SuiteCase, operator: OperatorVersion) -> _Outcome:
    outcome = _Outcome(case.name)
    try:
        with np.errstate(all="ignore"), subject.session(case.model, optimise=False) as session:
            outcome.refusal = _refusal(subject, session, operator)
            outcome.ran = not outcome.refusal
            if not outcome.ran:
                return outcome
            with subject.declined_runs() as declined:
                for feeds, expected in case.data_sets():
                    for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                        compare(actual, wanted, case)
            if declined:
                outcome.ran, outcome.refusal = False, f"its region declined the run: {declined[0]}"
            if session.fallback_report:
                outcome.problem = "; ".join(str(entry) for entry in session.fallback_report)
    except (AssertionError, OrtPyError) as error:
        if isinstance(error, NotSupported) and isinstance(error.__cause__, ImportError):
            return _Outcome(case.name, refusal=f"{error.what} {error.fix}")
        if isinstance(error, KernelNotFoundError) and not outcome.ran:  # no provider runs it, including this one
            return _Outcome(case.name, refusal=first_lines(error))
        outcome.problem = first_lines(error)
    return outcome


def _refusal(subject: Subject, session: Any, operator: OperatorVersion) -> str:
    """Explain why the operator runs elsewhere; ``""`` if the provider runs it."""
    found = [one for one in session.placement.nodes if (one.domain, one.op_type) == operator[:2] and not one.path]
    if not found:
        return "no node of the operator is left: it became a constant, or the nodes of its function"
    (node,) = found
    if node.provider == subject.name:
        return ""
    return dict(node.refusals).get(subject.name) or f"{node.provider} runs it: {node.reason}"


def _with_constants(case: SuiteCase) -> SuiteCase | None:
    """The case with all inputs but the first as initializers, or None if the model would be the same."""
    ((given, expected),) = case.sets
    names = [value.name for value in case.model.graph.input]
    moved = [(name, array) for name, array in zip(names[1:], given[1:], strict=True) if isinstance(array, np.ndarray)]
    if not moved or len(moved) + 1 != len(names):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in moved)
    del model.graph.input[1:]
    return replace(case, source=model, sets=((given[:1], expected),))


def _record(
    subject: Subject, title: str, outcomes: Sequence[_Outcome], *, claimed: bool, expected: str
) -> dict[str, Any]:
    """The summary of a version as plain data, since workers of pytest-xdist transfer it."""
    ran = [one.case for one in outcomes if one.ran]
    return {
        "provider": subject.name,
        "version": title,
        "ran": len(ran),
        "not_run": len(outcomes) - len(ran),
        "claimed": bool(ran) or claimed,
        "expected_failure": expected,
    }


@cache
def _claimed_by_kernels(subject: Subject) -> frozenset[OperatorVersion]:
    """The versions that the provider's kernels declare; of operators that ONNX does not define, the first of each."""
    provider = subject.create()
    try:
        return frozenset(_declared(provider))
    finally:
        provider.close()


def _declared(provider: IExecutionProvider) -> Iterable[OperatorVersion]:
    for definition in provider.kernel_registry():
        known = operator_versions().get((definition.domain, definition.op_type))
        versions = [definition.since] if known is None else known
        for version in versions:
            if definition.since <= version <= definition.last:
                yield OperatorVersion(definition.domain, definition.op_type, version)


def _operators_of_samples(subject: Subject, samples: Iterable[Any]) -> frozenset[tuple[str, str]]:
    """The operators that the provider runs in the samples."""
    found: set[tuple[str, str]] = set()
    for sample in samples:
        with subject.session(sample.model) as session:
            found.update(subject.operators_run(session))
    return frozenset(found)
