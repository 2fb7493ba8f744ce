"""The operator: its values, its shapes, and models that hold it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.contracts import kernel_defs
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import InvalidGraph
from ort_py_custom_op import kernels
from ort_py_custom_op.plugin import ort_py_kernels, ort_py_operator_schemas
from ort_py_custom_op.schema import DOMAIN, SCHEMAS, infer
from ort_py_kit.kernel_runner import make_node_spec, run_kernel
from ort_py_kit.tolerances import assert_close


def _distances(x: Any, y: Any, **attributes: Any) -> Any:
    definitions = kernel_defs(kernels)
    (result,) = run_kernel(definitions, "PairwiseDistance", [x, y], domain=DOMAIN, schemas=SCHEMAS, **attributes)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("squared", [0, 1])
def test_values(dtype: Any, squared: int) -> None:
    """The definition is the root of the sum of squared differences."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((5, 3), (4, 3)))
    squares = ((x[:, None].astype(np.float64) - y[None].astype(np.float64)) ** 2).sum(-1)
    result = _distances(x, y, squared=squared)
    assert result.dtype == x.dtype
    assert_close([result], [(squares if squared else np.sqrt(squares)).astype(dtype)])


def test_a_point_is_at_no_distance_from_itself() -> None:
    """Rounding never makes a square negative, so the result is not NaN."""
    x = np.random.default_rng(1).standard_normal((50, 7), np.float32) * np.float32(1e3)
    assert not np.isnan(_distances(x, x)).any()


@pytest.mark.parametrize("rows", [0, 1])
def test_few_points(rows: int) -> None:
    """None is a number of points too."""
    assert _distances(np.ones((rows, 2), np.float32), np.ones((3, 2), np.float32)).shape == (rows, 3)


def test_shapes() -> None:
    """N and M, by name where they have one."""
    node = make_node_spec(
        "PairwiseDistance", [np.ones((5, 3), np.float32), np.ones((4, 3), np.float32)], domain=DOMAIN, schemas=SCHEMAS
    )
    assert infer(node) == [TensorType(DataType.FLOAT, (5, 4))]


@pytest.mark.parametrize(
    ("shapes", "reason"), [(((5, 3), (4, 2)), "with 3 and with 2 coordinates"), (((5,), (4, 2)), "two matrices")]
)
def test_wrong_points_are_refused(shapes: tuple[tuple[int, ...], ...], reason: str) -> None:
    """When the model is loaded, with the place."""
    node = make_node_spec("PairwiseDistance", [np.ones(s, np.float32) for s in shapes], domain=DOMAIN, schemas=SCHEMAS)
    with pytest.raises(InvalidGraph, match=reason):
        infer(node)


def test_the_plugin_contributes_both_halves() -> None:
    """A schema, and a kernel for the CPU provider."""
    assert [schema.op_type for schema in ort_py_operator_schemas()] == ["PairwiseDistance"]
    (contribution,) = ort_py_kernels()
    assert contribution.provider == "CPUExecutionProvider"
    assert [definition.domain for definition in contribution.kernels] == [DOMAIN]
