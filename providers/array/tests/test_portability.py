"""Kernels run on any array module that has the names NumPy and CuPy share: the stand-in in `standin`.

Every backend case of numbers that is not listed as host-only here is run on stand-in arrays, host inputs excepted.
Cases of strings and sequences are left out: those values live on the host. Kernels that wait for the device say so with
`item` (Gather and the scatters for their index check, integer division for its zero check, Compress and NonZero for the
size of their result).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from ort_py.contracts.kernel import kernel_defs

from .backend_cases import Case, cases, compare, definition_for, run_case, writing_cases
from .standin import StandInArray, array_module, to_device, to_host

pytestmark = pytest.mark.slow  # thousands of cases; the tests of each family are quick

_FAMILIES = (
    *("arithmetic", "comparison", "math_functions", "activation", "clipping", "softmax", "casting", "generation"),
    *("reduction", "arg_reduction", "accumulation", "shape", "movement", "slicing", "padding", "gather", "scatter"),
    *("selection", "ordering", "dropout"),
    *("random_numbers", "determinant", "losses", "training", "signal.dft", "signal.stft", "signal.weightings"),
    *("vision.affine_grid", "vision.center_crop_pad", "vision.col2im"),
    *("vision.grid_sample", "vision.roi_align", "vision.max_roi_pool", "vision.max_unpool", "vision.deform_conv"),
    *("vision.non_max_suppression", "vision.image_decoder"),
    *("attention.attention", "attention.flex_attention", "attention.rotary_embedding", "attention.tensor_scatter"),
    *("attention.swiglu", "attention.linear_attention", "attention.causal_convolution"),
    *("classic_ml.linear", "classic_ml.scaling", "classic_ml.features", "classic_ml.trees", "classic_ml.svm"),
    "text.tfidf",
)

_WITHOUT_CASE: dict[str, str] = {
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "test_random_numbers"),
    "Multinomial": "test_random_numbers",
    "MaxRoiPool": "vision/test_max_roi_pool",
    **dict.fromkeys(
        (
            *("LinearClassifier", "LinearRegressor", "Normalizer", "Scaler", "Imputer", "FeatureVectorizer"),
            *("SVMClassifier", "SVMRegressor", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
        ),
        "classic_ml/test_device_arrays",
    ),
}
"""Operators that the suite does not test on numbers, and where they are tested instead."""

_NO_MULTIPLY_AT = "CuPy's multiply has no `at`; a device provider needs a kernel of its own for this reduction"

HOST_ONLY: dict[str, str] = {
    "test_scatter_elements_with_reduction_mul": _NO_MULTIPLY_AT,
    "test_scatternd_multiply": _NO_MULTIPLY_AT,
}
"""Cases that only the host can run, and why; strict."""


def _on_device(case: Case) -> bool:
    values = (*case.inputs, *case.expected)
    arrays = (np.ndarray, np.generic)
    return all(value is None or (isinstance(value, arrays) and value.dtype.kind != "O") for value in values)


@pytest.mark.redundant(one_in=4)  # the same kernels as on NumPy; an operator has several cases
@pytest.mark.parametrize("name", sorted(name for name, case in cases().items() if _on_device(case)))
def test_backend_case_on_the_stand_in(name: str, request: pytest.FixtureRequest) -> None:
    """The kernel gives what is expected with arrays that refuse NumPy and every implicit wait."""
    case = cases()[name]
    reason = HOST_ONLY.get(name)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    host_outputs = definition_for(case).host_outputs
    actual: list[Any] = run_case(case, array_module, to_device)
    for index, (left, right) in enumerate(zip(actual, case.expected, strict=True)):
        assert isinstance(left, StandInArray) == (index not in host_outputs)
        compare(to_host(left), right, case)


@pytest.mark.redundant(one_in=4)
@pytest.mark.parametrize(
    "name", [name for name in writing_cases() if _on_device(cases()[name]) and name not in HOST_ONLY]
)
def test_outputs_are_written_on_the_stand_in(name: str) -> None:
    """Kernels that declare `out` write to arrays of any array module, and leave nothing of what was in them."""
    case = cases()[name]
    outs = tuple(to_device(np.ones_like(value)) for value in case.expected)
    run_case(case, array_module, to_device, constants=True, outputs=outs)
    for out, right in zip(outs, case.expected, strict=True):
        compare(to_host(out), right, case)


def test_every_operator_of_these_families_runs_on_the_stand_in() -> None:
    """No kernel of numbers escapes: each operator has a case above."""
    families = [import_module(f"ort_py_array.{name}") for name in _FAMILIES]
    ran = {case.op_type for case in cases().values() if _on_device(case)}
    assert {definition.op_type for definition in kernel_defs(*families)} - ran == set(_WITHOUT_CASE)
