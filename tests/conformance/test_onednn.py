"""The backend suite with oneDNN ahead of the CPU provider: what it claims passes, and nothing falls back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py
from tests.conformance.backend_suite import SuiteCase, compare, suite_cases

library = pytest.importorskip("ort_py_onednn.binding.library", reason="ort-py-onednn is not installed")

NAME = "DnnlExecutionProvider"
CASES = {f"{case.kind}/{case.name}": case for case in suite_cases()}

pytestmark = [
    pytest.mark.slow,  # two thousand sessions
    pytest.mark.skipif(
        isinstance(library.find(), library.Missing), reason="oneDNN cannot be opened on this machine: no library for it"
    ),
]


def _run(case: SuiteCase) -> bool:
    """Compare each data set; whether oneDNN ran a node.

    Raises:
        AssertionError: A result differs, or a region had to be run by another provider.
    """
    options = [{"claim_small": True}, {}]
    providers = [NAME, "CPUExecutionProvider"]
    with ort_py.InferenceSession(
        case.model.SerializeToString(), providers=providers, provider_options=options
    ) as session:
        for feeds, expected in case.data_sets():
            for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                compare(actual, wanted, case)
        assert not session.fallback_report, session.fallback_report
        return any(node.provider == NAME for node in session.placement.nodes)


@pytest.mark.parametrize("name", sorted(name for name in CASES if not name.startswith("real/")))
def test_case(name: str) -> None:
    """The session's outputs are what the suite expects, whoever runs which node."""
    with np.errstate(all="ignore"):  # cases divide by zero and overflow on purpose
        _run(CASES[name])


RECURRENT = sorted(
    name
    for name in CASES
    if name.startswith(("node/test_gru_", "node/test_lstm_", "node/test_rnn_", "node/test_simple_r"))
)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    """With weights that are constants, as models have them, recurrent layers are run here."""
    assert _run(_with_constant_weights(CASES[name]))


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
        "averagepool_2d_ceil",
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
        assert _run(CASES[f"node/test_{name}"]), name
