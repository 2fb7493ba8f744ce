"""oneDNN at the door that every provider goes through; and that it really takes part there."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ort_py_kit import ProviderSuite
from ort_py_kit.backend_cases import SuiteCase, compare
from ort_py_kit.subject import Subject
from ort_py_kit.suites.results import backend_cases

library = pytest.importorskip("ort_py_onednn.binding.library", reason="ort-py-onednn is not installed")

CASES = backend_cases()
SMALL: dict[str, object] = {"claim_small": True}
"""Cases have a few numbers each: take them too."""

pytestmark = [
    pytest.mark.slow,  # two thousand sessions
    pytest.mark.skipif(
        isinstance(library.find(), library.Missing), reason="oneDNN cannot be opened on this machine: no library for it"
    ),
]


@pytest.mark.redundant(one_in=3, table="backend_case")  # an operator has several cases
class TestOneDnn(ProviderSuite):
    """DnnlExecutionProvider, which compiles regions; nothing is known to fail."""

    provider = "DnnlExecutionProvider"
    options: ClassVar[dict[str, object]] = SMALL


def _ran(case: SuiteCase) -> bool:
    """Compare each data set; whether oneDNN ran a node.

    Raises:
        AssertionError: A result differs.
    """
    subject = Subject("DnnlExecutionProvider", SMALL)
    with subject.session(case.model) as session:
        for feeds, expected in case.data_sets():
            for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                compare(actual, wanted, case)
        return bool(subject.operators_run(session))


RECURRENT = sorted(
    name
    for name in CASES
    if name.startswith(("node/test_gru_", "node/test_lstm_", "node/test_rnn_", "node/test_simple_r"))
)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    """With weights that are constants, as models have them, recurrent layers are run here."""
    assert _ran(_with_constant_weights(CASES[name]))


def _with_constant_weights(case: SuiteCase) -> SuiteCase:
    """The case of one node with all but the sequence and the states in the model."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (node,) = model.graph.node
    ((given, expected),) = case.sets
    names = [value.name for value in model.graph.input]
    moved = {name for place, name in enumerate(node.input) if name and place not in {0, 5, 6}}
    for name, array in zip(names, given, strict=True):
        if name in moved:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    kept = [value for value in model.graph.input if value.name not in moved]
    feeds = [array for name, array in zip(names, given, strict=True) if name not in moved]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return replace(case, source=model, sets=((feeds, expected),))


def test_it_claims_cases() -> None:
    """Operators of each family are really run here, so that the cases above say something."""
    names = (
        "conv_with_strides_padding",
        "matmul_2d",
        "maxpool_2d_pads",
        "softmax_axis_1",
        "averagepool_2d_default",
        "averagepool_2d_strides",
        "clip",
        "convtranspose_output_shape",
        "depthtospace_crd_mode_example",
        "group_normalization_example",
        "instancenorm_example",
        "mean_example",
        "mvn",
        "rms_normalization_4d_axis1",
        "softsign_example",
        "spacetodepth_example",
    )
    for name in names:
        assert _ran(CASES[f"node/test_{name}"]), name
