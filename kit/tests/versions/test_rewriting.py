"""Cases rewritten for other versions: their form follows the schema of that version, and their results still hold.

The oracle is onnxruntime at the very version, where it runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from ort_py_kit.backend_cases import SuiteCase, compare
from ort_py_kit.versions.cases import cases_at, cases_of_operators, thinned
from ort_py_kit.versions.draft import CannotRewrite, node_of
from ort_py_kit.versions.history import OperatorVersion, operator_versions
from ort_py_kit.versions.rewriting import at_version


def rewritten(name: str, op_type: str, version: int) -> SuiteCase:
    """A case of ONNX at another version."""
    (case,) = [one for one in cases_of_operators()["", op_type] if one.name == name]
    return at_version(case, OperatorVersion("", op_type, version))


def attributes(case: SuiteCase) -> dict[str, Any]:
    """The attributes of its node."""
    return {one.name: helper.get_attribute_value(one) for one in case.model.graph.node[0].attribute}


def test_the_opset_has_the_version() -> None:
    """The newest opset at which the version is in force is declared."""
    case = rewritten("test_maxpool_2d_same_lower", "MaxPool", 8)
    assert [(one.domain, one.version) for one in case.model.opset_import] == [("", 9)]
    found = node_of(case.model)
    assert found is not None
    assert found[1] == OperatorVersion("", "MaxPool", 8)


def test_inputs_become_the_attributes_they_were() -> None:
    """Slice-1 has attributes where Slice-13 has inputs, and axes counted from the front."""
    case = rewritten("test_slice_negative_axes", "Slice", 1)
    assert min(attributes(case)["axes"]) >= 0
    assert list(case.model.graph.node[0].input) == ["x"]
    (feeds,) = [feeds for feeds, _ in case.data_sets()]
    assert list(feeds) == ["x"]


def test_defaults_that_were_others_are_written_out() -> None:
    """The axis of Softmax-11 is 1 where none is given; that of version 13 is the last."""
    assert attributes(rewritten("test_softmax_default_axis", "Softmax", 11))["axis"] == 2


@pytest.mark.parametrize(
    ("name", "op_type", "version", "reason"),
    [
        ("test_maxpool_2d_dilations", "MaxPool", 8, "it has no attribute 'dilations'"),
        ("test_cast_FLOAT_to_BFLOAT16", "Cast", 6, "bfloat16"),
        ("test_clip_min_greater_than_max", "Clip", 6, "bounds did not contradict each other"),
        ("test_roialign_aligned_true", "RoiAlign", 10, "it had no half pixels"),
        ("test_gather_negative_indices", "Gather", 1, "indices are counted from the end"),
    ],
)
def test_what_has_no_equal_is_refused(name: str, op_type: str, version: int, reason: str) -> None:
    with pytest.raises(CannotRewrite, match=reason):
        rewritten(name, op_type, version)


_RUN = ("AveragePool", "Clip", "Conv", "Gemm", "Hardmax", "MaxPool", "Pad", "ReduceSum", "Slice", "Softmax", "Split")


@pytest.mark.parametrize("op_type", [*_RUN, "Squeeze", "TopK", "Unsqueeze"])
def test_results_hold_in_onnxruntime(op_type: str) -> None:
    """Expected results at older versions equal onnxruntime's at those versions, if it runs them."""
    ran = 0  # the newest version is left out: onnxruntime does not know the newest opset
    older = [OperatorVersion("", op_type, version) for version in operator_versions()["", op_type][:-1]]
    for operator in older:
        for case in thinned(cases_at(operator)):
            session = _session(case.model)
            if session is None:
                continue
            for feeds, expected in case.data_sets():
                for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
                    compare(actual, wanted, case)
                ran += 1
    assert ran


def _session(model: onnx.ModelProto) -> Any:
    """None where onnxruntime has no kernel of such an old version or type."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(model.ir_version, 10)
    try:
        return onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None


def test_thinning_keeps_every_value() -> None:
    """Each attribute's values and each type are in a case that is kept, and some are left out."""
    cases = cases_at(OperatorVersion("", "MaxPool", 12))
    kept = thinned(cases)
    assert len(kept) < len(cases)
    for name in ("auto_pad", "ceil_mode", "strides"):
        of_all, of_kept = ({str(attributes(one).get(name)) for one in some} for some in (cases, kept))
        assert of_all - {"None"} <= of_kept
    assert {next(one.data_sets())[1][0].dtype for one in kept} >= {np.dtype(np.float32), np.dtype(np.uint8)}
