"""XNNPACK at the door that every provider goes through; and that it really takes part there."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ort_py_kit import ProviderSuite
from ort_py_kit.backend_cases import SuiteCase, compare
from ort_py_kit.subject import Subject
from ort_py_kit.suites.results import backend_cases

library = pytest.importorskip("ort_py_xnnpack.binding.library", reason="ort-py-xnnpack is not installed")

CASES = backend_cases()
SMALL: dict[str, object] = {"claim_small": True}
"""Cases have a few numbers each: take them too."""

pytestmark = [
    pytest.mark.slow,  # two thousand sessions
    pytest.mark.skipif(
        isinstance(library.find(), library.Missing),
        reason="XNNPACK cannot be opened on this machine: no library for it",
    ),
]


@pytest.mark.redundant(one_in=3, table="backend_case")  # an operator has several cases
@pytest.mark.redundant(one_in=3, table="operator_version")  # most versions of an operator differ in element types only
class TestXnnpack(ProviderSuite):
    """XnnpackExecutionProvider, which compiles regions; nothing is known to fail."""

    provider = "XnnpackExecutionProvider"
    options: ClassVar[dict[str, object]] = SMALL


def _ran(case: SuiteCase) -> bool:
    """Compare each data set; whether XNNPACK ran a node.

    Raises:
        AssertionError: A result differs.
    """
    subject = Subject("XnnpackExecutionProvider", SMALL)
    with subject.session(case.model) as session:
        for feeds, expected in case.data_sets():
            for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                compare(actual, wanted, case)
        return bool(subject.operators_run(session))


@pytest.mark.parametrize(
    "name",
    [
        "node/test_averagepool_2d_default",
        "node/test_globalaveragepool",
        "node/test_matmul_3d",
        "node/test_maxpool_2d_pads",
        "node/test_softmax_axis_1",
        "node/test_tanh",
        "node/test_transpose_all_permutations_2",
        "pytorch-converted/test_Conv2d_padding",
        "pytorch-converted/test_ConvTranspose2d",
    ],
)
def test_it_claims_cases(name: str) -> None:
    """Operators of each family are really run here, so that the cases above say something."""
    assert _ran(CASES[name])
