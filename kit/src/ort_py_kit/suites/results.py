"""Results: the cases of ONNX's backend suite one by one, and random graphs compared with the CPU provider.

Each case leaves a record of what the provider ran, from which `plugin` writes the support table.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from ort_py.errors import NotImplemented as NotSupported
from ort_py.errors import OrtPyError
from ort_py_kit.backend_cases import SuiteCase, compare, suite_cases
from ort_py_kit.expected_failures import read_expected_failures
from ort_py_kit.random_graphs import SeededChoices, narrowest_type, random_feed, random_model
from ort_py_kit.subject import CPU_ROLE, Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, fail, first_lines
from ort_py_kit.suites.versions import version_ids
from ort_py_kit.tolerances import tolerance_of

CASE_PROPERTY = "ort_py_case"
"""Name of the property in which a test keeps what the provider ran of a case."""

_TRAINED = "real/"
"""The classic image models: sizes of tens of megabytes, with the CPU provider's own tests."""


class ResultChecks(ProviderChecks):
    """The results of the provider are right."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each case of the suite."""
        if "backend_case" in metafunc.fixturenames:
            metafunc.parametrize("backend_case", list(self.chosen_cases()))
        super().pytest_generate_tests(metafunc)

    @classmethod
    def chosen_cases(cls) -> Sequence[str]:
        """Ids of the cases that are run."""
        if cls.cases is False:
            return ()
        words = () if cls.cases is True else tuple(cls.cases)
        return [name for name in sorted(backend_cases()) if not words or any(word in name for word in words)]

    def test_backend_case(
        self, backend_case: str, usable: Subject, known_failures: Mapping[str, str], request: pytest.FixtureRequest
    ) -> None:
        """A session with the provider in front gives what ONNX's suite expects; nothing falls back.

        Skipped, with its refusals, where the provider ran no node of the case or a region of it declined the run: other
        providers' results say nothing about it. Skipped as well where an operator needs a package that is not
        installed, in the operator's own words.
        """
        reason = known_failures.get(backend_case)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        case = backend_cases()[backend_case]
        ran: list[tuple[str, str]] = []
        record: dict[str, Any] = {"provider": usable.name, "case": backend_case, "ran": ran}
        record["expected_failure"] = reason or ""
        request.node.user_properties.append((CASE_PROPERTY, record))
        try:
            with np.errstate(all="ignore"), usable.session(case.model) as session:
                ran += sorted(set(usable.operators_run(session)))
                if not ran and reason is None and usable.name != CPU_ROLE:
                    record["not_run"] = True
                    pytest.skip(f"not run by {usable.name}: {_refusals(session, usable.name)}")
                with usable.declined_runs() as declined:
                    _run(session, case)
                if declined:
                    record["not_run"] = True
                    pytest.skip(f"not run by {usable.name}: its region declined the run: {declined[0]}")
        except (AssertionError, OrtPyError) as error:
            if isinstance(error, NotSupported) and isinstance(error.__cause__, ImportError):
                pytest.skip(f"{error.what} {error.fix}")
            fail(
                f"{backend_case}: {usable.name} does not give what ONNX expects"
                + (f" (it runs {', '.join(name for _, name in ran)})." if ran else "."),
                [first_lines(error)],
                fix="correct the operator, refuse such nodes in get_capability, or list the case with its reason in "
                "the file of expected failures.",
            )

    def test_expected_failures_are_cases(self) -> None:
        """The file names cases and checks that exist, and each line has a reason."""
        try:
            listed = read_expected_failures(self.expected_failures)
        except OrtPyError as error:
            fail(error.what, error.why, fix=error.fix)
        unknown = sorted(name for name in listed if _unknown(name))
        unknown += sorted(name for name in listed if name.startswith("test_") and not hasattr(self, name))
        if unknown:
            fail(
                f"{self.expected_failures} lists what does not exist.",
                unknown,
                fix="remove these lines, or correct the names: `kind/test_name`, as in the report.",
            )

    def test_random_graphs_agree_with_the_cpu(self, usable: Subject) -> None:
        """Random graphs give what the unoptimised CPU provider gives."""
        problems, taken = [], 0
        feeds = {"x": random_feed()}
        for seed in range(self.graphs):
            model = random_model(SeededChoices(seed))
            try:
                with usable.session(model) as session:
                    if not usable.operators_run(session):
                        continue
                    taken += 1
                    actual = session.run(None, feeds)
                with usable.reference(model) as session:
                    expected = session.run(None, feeds)
                _agree(model, actual, expected)
            except Exception as error:
                problems.append(f"seed {seed}: {first_lines(error)}")
        if problems:
            fail(
                f"{len(problems)} of {self.graphs} random graphs differ between {usable.name} and the CPU provider.",
                problems[:8],
                fix="look at one with `ort_py_kit.random_graphs.random_model(SeededChoices(seed))` and "
                "`ort_py.compare`, which finds the first node that differs.",
            )
        if not taken:
            pytest.skip(f"{usable.name} claims nothing of {self.graphs} random graphs")


@cache
def backend_cases() -> Mapping[str, SuiteCase]:
    """The cases by id, ``kind/name``; without the classic image models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the cases is onnx's code
        found = {f"{case.kind}/{case.name}": case for case in suite_cases()}
    return {name: case for name, case in found.items() if not name.startswith(_TRAINED)}


def _unknown(name: str) -> bool:
    """Return whether a line names nothing: no case, no version of an operator, and none of an operator of a domain that
    ONNX does not define, which `test_other_operators_are_listed` looks at.
    """
    if name.startswith("version/"):
        versions, stem = version_ids(), name.rstrip("*")
        operators = {one.rpartition("-")[0] for one in versions}
        begins = name.endswith("*") and any(one.startswith(stem) for one in versions)
        return name not in versions and not begins and name.rpartition("-")[0] in operators
    return not name.startswith("test_") and name not in backend_cases()


def _refusals(session: Any, provider: str, most: int = 3) -> str:
    """The provider's own reasons for running no node of a session."""
    reasons = [f"{one.op_type}: {dict(one.refusals).get(provider, 'not claimed')}" for one in session.placement.nodes]
    return "; ".join(list(dict.fromkeys(reasons))[:most]) or "every node became a constant"


def _run(session: Any, case: SuiteCase) -> None:
    """Compare each data set."""
    for feeds, expected in case.data_sets():
        for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
            compare(actual, wanted, case)
    if session.fallback_report:
        raise Problem("; ".join(str(entry) for entry in session.fallback_report))


def _agree(model: Any, actual: Sequence[Any], expected: Sequence[Any]) -> None:
    rtol, atol = tolerance_of(narrowest_type(model))
    for info, left, right in zip(model.graph.output, actual, expected, strict=True):
        if left.dtype != right.dtype or left.shape != right.shape:
            raise Problem(f"'{info.name}' is {left.dtype}{left.shape} and should be {right.dtype}{right.shape}")
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, err_msg=info.name)
        else:
            np.testing.assert_array_equal(left, right, err_msg=info.name)
