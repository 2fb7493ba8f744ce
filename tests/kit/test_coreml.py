"""Core ML at the door that every provider goes through, its packages computed by the interpreter of its tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ort_py.contracts import Availability
from ort_py.devices import HOST
from ort_py_kit import ProviderSuite
from ort_py_kit.backend_cases import SuiteCase, compare
from ort_py_kit.subject import Subject
from ort_py_kit.suites.results import backend_cases

plugin = pytest.importorskip("ort_py_coreml.plugin", reason="ort-py-coreml is not installed")
pytest.importorskip("coremltools", reason="coremltools is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # folders of coremltools

CASES = backend_cases()
SMALL: dict[str, object] = {"claim_small": True}
"""Cases have a few numbers each: take them too."""


@pytest.fixture(scope="module", autouse=True)
def _interpreted() -> Iterator[None]:
    """Let the interpreter compute packages: Core ML itself runs on macOS only."""
    from ort_py_coreml import back_ends, runtime
    from providers.coreml.tests.mil_interpreter import InterpretedRuntime

    found = InterpretedRuntime()
    there = Availability(True, reason="an interpreter", devices=(HOST,))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(runtime, "open_runtime", lambda: found)
        patch.setattr(plugin.CoreMLProviderFactory, "probe", lambda _: there)
        patch.setattr(back_ends, "find", lambda name: there if name == "coremltools" else Availability(False))
        yield


@pytest.mark.nightly  # a thousand conversions
class TestCoreML(ProviderSuite):
    """CoreMLExecutionProvider, which compiles regions."""

    provider = "CoreMLExecutionProvider"
    options: ClassVar[dict[str, object]] = SMALL
    expected_failures = Path(__file__).parent / "coreml.xfail.txt"


def _ran(case: SuiteCase) -> bool:
    """Compare each data set. Returns True if Core ML ran a node.

    Raises:
        AssertionError: A result differs.
    """
    subject = Subject("CoreMLExecutionProvider", SMALL)
    with subject.session(case.model) as session:
        for feeds, expected in case.data_sets():
            for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                compare(actual, wanted, case)
        return bool(subject.operators_run(session))


@pytest.mark.parametrize(
    "name",
    [
        "node/test_averagepool_2d_default",
        "node/test_gelu_default_1",
        "node/test_globalaveragepool",
        "node/test_matmul_3d",
        "node/test_maxpool_2d_pads",
        "node/test_softmax_axis_1",
        "node/test_transpose_all_permutations_2",
        "pytorch-converted/test_Conv2d_padding",
    ],
)
def test_it_claims_cases(name: str) -> None:
    """Operators of each family are really run here, so that the cases above say something."""
    assert _ran(CASES[name])
