"""Every operator that the provider takes gives what onnxruntime gives, whether sizes are known beforehand or not."""

from __future__ import annotations

import onnxruntime
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_xnnpack.operators import FAMILIES
from providers.xnnpack.tests.cases import CASES, Case
from providers.xnnpack.tests.models import run_here


def _is_open(case: Case) -> bool:
    """Whether a case can leave the sizes of its data to the run."""
    made = case.nodes[0]
    if made.op_type == "Resize":
        return not any(one.s == b"linear" for one in made.attribute)
    return made.op_type != "ConvTranspose" and (made.op_type, len(made.input)) != ("Squeeze", 1)


def _expected(data: bytes, case: Case) -> list[object]:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return list(session.run(None, case.feeds()))


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    data = case.model()
    assert_close(run_here(data, case.feeds()), _expected(data, case), context=name)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if _is_open(case)])
def test_results_where_sizes_are_unknown(name: str) -> None:
    """The sizes of a run decide, the number of channels apart."""
    case = CASES[name]
    data = case.model(dynamic=True)
    assert_close(run_here(data, case.feeds()), _expected(data, case), context=name)


@pytest.mark.parametrize("name", [name for name in CASES if "Conv" in name or "MatMul" in name or "Pool" in name])
def test_results_of_several_threads(name: str) -> None:
    case = CASES[name]
    data = case.model()
    assert_close(run_here(data, case.feeds(), threads=3), _expected(data, case), context=name)


def test_every_operator_has_a_case() -> None:
    there = {made.op_type for case in CASES.values() for made in case.nodes}
    known = {name.rpartition(":")[2] for words in FAMILIES.values() for name in words.split()}
    assert there == known - {"MatMulNBits"}  # whose results differ more: see test_block_products
