"""Options that an application passes to a session's providers later: the messages of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from core.tests.small_models import CPU, RELU, model_bytes
from ort_py import InferenceSession, SessionOptions, UsageError


@pytest.fixture
def session() -> InferenceSession:
    """A session."""
    return InferenceSession(model_bytes(RELU), providers=CPU)


def result(**changed: Any) -> dict[str, Any]:
    """A tuning result of a provider that is not there."""
    return {"ep": "X", "results": {"op": {"parameters": 1}}, "validators": {}} | changed


def test_tuning_results_are_a_list(session: InferenceSession) -> None:
    with pytest.raises(TypeError, match=r"Tuning results must be a list, not \(\)"):
        session.set_tuning_results(())


@pytest.mark.parametrize("part", ["ep", "results", "validators"])
def test_tuning_results_have_three_parts(session: InferenceSession, part: str) -> None:
    """The one that is missing is named."""
    with pytest.raises(KeyError, match=part):
        session.set_tuning_results([{key: value for key, value in result().items() if key != part}])


@pytest.mark.parametrize("changed", [{"results": 3}, {"results": {"op": 3}}, {"validators": [1]}])
def test_parts_of_tuning_results_are_mappings(session: InferenceSession, changed: dict[str, Any]) -> None:
    """From operators to parameters to kernels, and from names of validators to texts."""
    with pytest.raises(TypeError, match=f"The part '{next(iter(changed))}' of a tuning result must be a mapping, not"):
        session.set_tuning_results([result(**changed)])


def test_kernels_of_tuning_results_are_numbers(session: InferenceSession) -> None:
    """A text that is none is refused, as Python refuses it."""
    with pytest.raises(ValueError, match="'a'"):
        session.set_tuning_results([result(results={"op": {"parameters": "a"}})])


def test_foreign_tuning_results(session: InferenceSession) -> None:
    """They are ignored, or refused on request: no provider here takes any."""
    session.set_tuning_results([result()])
    with pytest.raises(UsageError, match="tuning results of X cannot be used") as caught:
        session.set_tuning_results([result()], error_on_invalid=True)
    assert "error_on_invalid=False" in caught.value.fix


def test_dynamic_options(session: InferenceSession) -> None:
    """They are a mapping, and there is at least one."""
    session.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
    with pytest.raises(TypeError, match="Dynamic options must be a mapping"):
        session.set_ep_dynamic_options(3)  # type: ignore[arg-type]  # that is the subject
    with pytest.raises(UsageError, match="no dynamic options to set") as caught:
        session.set_ep_dynamic_options({})
    assert "at least one" in caught.value.fix


def test_sizes_of_compiled_data() -> None:
    """There must be a bound, and room for something."""
    options = SessionOptions()
    for size in (0, (1 << 64) - 1):
        with pytest.raises(UsageError, match=f"max_data_size is {size}"):
            options.set_ep_context_data_read_func(print, size)
    with pytest.raises(TypeError, match="must be a function and a number of bytes"):
        options.set_ep_context_data_read_func(print, 1 << 64)
