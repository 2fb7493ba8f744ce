"""`SessionOptions.precision`: it reaches the providers, and who does not compute in it is named with the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import ort_py
from core.tests.small_models import ADD, CPU
from ort_py.contracts import IExecutionProvider, ProviderFactory, SessionContext
from ort_py_kit.fake_provider import FakeFactory, FakeProvider
from ort_py_kit.graphs import model_from_text

NAME = "FakeExecutionProvider"
REFUSAL = f"{NAME} leaves float32 models in float32: "


class _Provider(FakeProvider):
    """Computes in bfloat16 where `answer` is None; raises it where it is an error."""

    answer: str | Exception | None = None

    def precision_refusal(self, precision: str) -> str | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if precision != "float32" else None


class _Factory(FakeFactory):
    def __init__(self, answer: str | Exception | None) -> None:
        super().__init__(NAME)
        self.answer = answer
        self.context: SessionContext | None = None

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        self.context = context
        found = _Provider(name=NAME)
        found.answer = self.answer
        return found


def _notes(precision: str, providers: list[str]) -> list[str]:
    options = ort_py.SessionOptions()
    options.precision = precision
    options.pin_cpu = True
    with ort_py.InferenceSession(model_from_text(ADD).SerializeToString(), options, providers=providers) as session:
        return [note for stage in session.load_report.stages for note in stage.notes if "float32 models" in note]


def test_it_reaches_the_provider(register: Callable[[ProviderFactory], None]) -> None:
    """In the context that a provider is created with."""
    factory = _Factory(None)
    register(factory)
    _notes("bfloat16", [NAME, *CPU])
    assert factory.context is not None
    assert factory.context.precision == "bfloat16"


def test_who_refuses_is_named_with_the_reason(register: Callable[[ProviderFactory], None]) -> None:
    """The load report has a line for each provider that stays in float32, none for one that does as it is asked."""
    register(_Factory(None))
    assert [line.split()[0] for line in _notes("bfloat16", [NAME, *CPU])] == CPU


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("the device has no such numbers", "no such numbers"),
        (ValueError("broken"), "asking it raised ValueError: broken"),
    ],
)
def test_a_precision_that_nobody_computes_in_is_a_warning(
    register: Callable[[ProviderFactory], None],
    caplog: pytest.LogCaptureFixture,
    answer: str | Exception,
    words: str,
) -> None:
    """The session is made all the same, and says whom it asked; a plug-in that fails at the question refuses."""
    register(_Factory(answer))
    with caplog.at_level(logging.WARNING, "ort_py.session"):
        lines = _notes("bfloat16", [NAME, *CPU])
    assert lines[0].startswith(REFUSAL)
    assert words in lines[0]
    assert "precision 'bfloat16' has no effect" in caplog.text


def test_float32_is_nobodys_problem(caplog: pytest.LogCaptureFixture) -> None:
    assert _notes("float32", CPU) == []
    assert not caplog.text
