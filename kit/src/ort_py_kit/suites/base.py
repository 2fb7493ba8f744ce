"""Common parts of all suites: the provider under test, its sample models, and failures that say what to change.

It asks no questions itself; the files beside it do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import pytest

from ort_py import RecordState
from ort_py.errors import OrtPyError
from ort_py_kit.expected_failures import read_expected_failures
from ort_py_kit.samples import Sample, sample_models
from ort_py_kit.subject import Subject
from ort_py_kit.tolerances import assert_close


class Problem(AssertionError):
    """Something a check found, in one line."""


def fail(what: str, problems: Iterable[str] = (), *, fix: str) -> NoReturn:
    """End a test with a message in three parts."""
    lines = [what, *(f"  - {problem}" for problem in problems), f"What to change: {fix}"]
    pytest.fail("\n".join(lines), pytrace=False)


def problems_of(samples: Iterable[Sample], check: Callable[[Sample], None]) -> list[str]:
    """Run a check on some samples and return a line for each that fails, whatever it raises."""
    found = []
    for sample in samples:
        try:
            check(sample)
        except Exception as error:
            kind = "" if isinstance(error, Problem) else f"{type(error).__name__}: "
            found.append(f"{sample.name}: {kind}{_short(error)}")
    return found


class ProviderChecks:
    """The provider under test; the suites of a provider, its allocator and its copies derive from it.

    Attributes:
        provider: The provider's name. Required, except where the command line gives it.
        plugin: Module that registers it where it is not installed, e.g. ``"my_package.plugin"``; what it registers
            goes with the suite.
        expected_failures: File of the cases and checks it is known to fail, a line ``node/test_relu: reason`` or
            ``test_arrays_may_be_empty: reason`` for each, ``version/Softmax-11: reason`` for a version of an operator;
            one that passes is a failure.
        cases: Whether ONNX's backend cases are run; or words, of which one must be in a case's id.
        graphs: Number of random graphs that are compared with the CPU provider.
    """

    provider: ClassVar[str] = ""
    plugin: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Path | str | None] = None
    cases: ClassVar[bool | Sequence[str]] = True
    graphs: ClassVar[int] = 60

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize a check; checks of several parts of a suite each know their own."""

    def samples(self) -> Iterable[Sample]:
        """Models the provider can run something of; override for a provider with operators of its own."""
        return sample_models()

    @classmethod
    def subject(cls) -> Subject:
        if not cls.provider:
            fail(
                f"{cls.__name__} does not say which provider it tests.",
                fix='give the class an attribute, provider = "MyExecutionProvider"; on the command line, --provider.',
            )
        return _subject(f"{cls.__module__}.{cls.__qualname__}", cls.provider, tuple(cls.options.items()), cls.plugin)

    @classmethod
    def teardown_class(cls) -> None:
        """Remove the registrations of a suite, so that other tests of the process do not see the provider."""
        if cls.provider:
            cls.subject().forget()

    @pytest.fixture
    def known_failures(self) -> Mapping[str, str]:
        """Reasons by case or check, from the file; empty where the file has mistakes, which a test of it shows."""
        try:
            return _reasons(self.expected_failures)
        except OrtPyError:
            return {}

    @pytest.fixture(autouse=True)
    def _expect_failure(self, known_failures: Mapping[str, str], request: pytest.FixtureRequest) -> None:
        """A check that is known to fail must fail."""
        reason = known_failures.get(request.function.__name__)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def usable(self) -> Subject:
        """The provider under test, where it can be used; what keeps it from that is shown by `test_it_is_listed`."""
        subject = self.subject()
        try:
            record = subject.record()
        except OrtPyError:
            pytest.skip(f"{self.provider} is not found: see test_it_is_listed")
        if record.state is RecordState.UNAVAILABLE:
            pytest.skip(f"{self.provider} cannot be used on this machine: {record.reason}")
        if not record.usable:
            pytest.skip(f"{self.provider} is {record.state.value}: see test_it_is_listed")
        return subject

    @pytest.fixture
    def claimed(self, usable: Subject) -> Sequence[Sample]:
        """The samples of which the provider runs at least one node."""
        if usable not in _CLAIMED:
            _CLAIMED[usable] = tuple(sample for sample in self.samples() if _runs_some(usable, sample))
        claimed = _CLAIMED[usable]
        if not claimed:
            fail(
                f"{usable.name} runs no node of any sample model, so that nothing can be said about it.",
                fix="override `samples` with models that it runs (`ort_py_kit.sample_from_text` makes them), or "
                "give it options with which it takes small graphs too.",
            )
        return claimed


_CLAIMED: dict[Subject, tuple[Sample, ...]] = {}
"""The samples that each subject runs, found once a process."""


@cache
def _subject(suite: str, name: str, options: tuple[tuple[str, Any], ...], plugin: str) -> Subject:
    return Subject(name, dict(options), plugin)


@cache
def _reasons(path: Path | str | None) -> Mapping[str, str]:
    return read_expected_failures(path)


def _runs_some(subject: Subject, sample: Sample) -> bool:
    try:
        with subject.session(sample.model) as session:
            return bool(subject.operators_run(session))
    except Exception:  # it took part: the checks run the sample again, and say what was raised
        return True


def _short(error: Exception, most: int = 400) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= most else f"{text[:most]}…"


def first_lines(error: BaseException, most: int = 600) -> str:
    """An error's text in one line, cut where it is long."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def agree(actual: Any, expected: Any, name: str) -> None:
    """Compare an output with another provider's, to the tolerance of its element type.

    Raises:
        Problem: They differ; says how far.
    """
    try:
        assert_close(actual, expected, context=f"'{name}'")
    except AssertionError as error:
        raise Problem(_short(error)) from error


def garbage(feeds: Mapping[str, Any]) -> None:
    """Overwrite arrays in place with other numbers."""
    for array in feeds.values():
        if isinstance(array, np.ndarray):
            array[...] = np.ones((), array.dtype) if array.dtype.kind == "b" else np.asarray(77, array.dtype)
