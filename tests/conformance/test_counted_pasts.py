"""The gate of a region with a past whose keys each run counts: GroupQueryAttention, which the core has no schema of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.constraints import Gate, check_elements
from ort_py.errors import KernelInputError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.view import ModelGraphView
from ort_py_array.contrib.schemas import schemas as contributed_schemas
from ort_py_kit.graphs import typed_model

GROUPED = (
    '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> '
    "g (float[B,R,32] q, float[B,R,16] k, float[B,R,16] v, float[B,2,S,8] pk, float[B,2,S,8] pv, int32[B] ends, "
    "int32 total) => (float[B,R,32] y, float[B,2,P,8] nk, float[B,2,P,8] nv) "
    "{ y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, pk, pv, ends, total) }"
)


def gate_and_arrays(rows: int, held: int, ends: tuple[int, int], total: int) -> tuple[Gate, list[Any]]:
    """The gate of the node, and arrays of a run."""
    view = ModelGraphView(typed_model(GROUPED, schemas=SchemaRegistry(contributed_schemas())).graph)
    shapes = [(2, rows, 32), (2, rows, 16), (2, rows, 16), (2, 2, held, 8), (2, 2, held, 8)]
    arrays: list[Any] = [np.zeros(shape, np.float32) for shape in shapes]
    arrays += [np.array(ends, np.int32), np.array(total, np.int32)]
    return Gate(view.region(range(1))), arrays


@pytest.mark.parametrize(
    ("rows", "held", "ends", "total", "length"),
    [
        (1, 5, (5, 5), 6, 6),
        (1, 5, (0, 3), 4, 5),
        (1, 9, (5, 2), 6, 9),
        (3, 0, (2, 0), 3, 3),
        (3, 8, (2, 1), 3, 8),
        (3, 4, (6, 2), 7, 7),
    ],
)
def test_a_past_whose_keys_each_run_counts(
    rows: int, held: int, ends: tuple[int, int], total: int, length: int
) -> None:
    """A word, several of them, and a prompt that may be padded; the present is as long as the buffer or the keys."""
    gate, arrays = gate_and_arrays(rows, held, ends, total)
    assert gate.reads == (6,)
    assert not gate.unchecked
    admission = gate.admit(arrays)
    assert admission.outputs == ((2, rows, 32), (2, 2, length, 8), (2, 2, length, 8))
    check_elements(gate, admission, arrays)


@pytest.mark.parametrize(
    ("rows", "held", "ends", "total", "text"),
    [
        (1, 5, (5, 5), 0, "0 keys, of which 1 are new"),
        (1, 5, (5, 5), 7, "7 keys of a past of 5 rows and 1 new ones"),
        (1, 5, (6, 5), 6, "6 is not between 0 and 5"),
        (1, 5, (5, -1), 6, "-1 is not between 0 and 5"),
        (3, 5, (1, 4), 7, "1 is not between 2 and 6"),
        (3, 5, (2, 3), 3, "3 is not between 0 and 2"),
    ],
)
def test_counted_keys_that_are_not_there(rows: int, held: int, ends: tuple[int, int], total: int, text: str) -> None:
    gate, arrays = gate_and_arrays(rows, held, ends, total)
    with pytest.raises(KernelInputError, match=text):
        check_elements(gate, gate.admit(arrays), arrays)
