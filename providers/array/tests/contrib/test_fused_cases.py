"""Every fused operator on an array module that is not NumPy, in a session and with a limit; its schema's shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.dtypes import TensorType, data_type_of
from ort_py.errors import LimitError
from ort_py_kit.kernel_runner import make_node_spec, run_kernel
from ort_py_kit.tolerances import assert_close

from ..oracle import DEFINITIONS, SCHEMAS
from ..standin import StandInArray, array_module, to_device, to_host
from ..test_limits import Capped
from .closed_forms import DOMAIN, contrib, model_of
from .fused_cases import CASES, IDS


@pytest.mark.parametrize(("op_type", "inputs", "arguments"), CASES, ids=IDS)
def test_on_the_stand_in(op_type: str, inputs: list[Any], arguments: dict[str, Any]) -> None:
    """No kernel asks for what CuPy lacks, or waits for the device without saying so."""
    arguments = {"domain": DOMAIN, "opset": 1, **arguments}
    expected = contrib(op_type, inputs, **arguments)
    domain = arguments["domain"]
    (definition,) = (one for one in DEFINITIONS if (one.op_type, one.domain, one.since) == (op_type, domain, 1))
    given = [x if index in definition.host_inputs else to_device(x) for index, x in enumerate(inputs)]
    actual = run_kernel(DEFINITIONS, op_type, given, xp=array_module, schemas=SCHEMAS, **arguments)
    assert all(isinstance(value, StandInArray) for value in actual if value is not None)
    assert_close([to_host(value) for value in actual], expected)


@pytest.mark.parametrize(("op_type", "inputs", "arguments"), CASES, ids=IDS)
def test_foretold_shapes(op_type: str, inputs: list[Any], arguments: dict[str, Any]) -> None:
    """Types and shapes that a schema gives are those of the results; most schemas give them."""
    attributes = {"domain": DOMAIN, "opset": 1, **arguments}
    results = contrib(op_type, inputs, **attributes)
    domain, opset, outputs = (
        attributes.pop(name, default) for name, default in (("domain", ""), ("opset", 1), ("outputs", 1))
    )
    (schema,) = (one for one in SCHEMAS if (one.op_type, one.domain) == (op_type, domain))
    node = make_node_spec(
        op_type, inputs, domain=domain, opset=opset, outputs=outputs, attributes=attributes, schemas=SCHEMAS
    )
    assert schema.infer is not None
    for foretold, result in zip(schema.infer(node), results, strict=False):
        if not isinstance(foretold, TensorType) or result is None:
            continue
        assert foretold.data_type == data_type_of(result.dtype)
        if foretold.shape is not None:
            sizes = [
                own if isinstance(dim, int) else None for own, dim in zip(result.shape, foretold.shape, strict=True)
            ]
            assert list(foretold.shape) == sizes


@pytest.mark.parametrize(("op_type", "inputs", "arguments"), CASES, ids=IDS)
def test_in_a_session(op_type: str, inputs: list[Any], arguments: dict[str, Any]) -> None:
    """The engine finds schema and kernel of a model's node, and gives what the kernel alone gives."""
    expected = contrib(op_type, inputs, **arguments)
    attributes = {name: value for name, value in arguments.items() if name not in ("domain", "opset", "outputs")}
    model, feeds = model_of(
        op_type,
        inputs,
        (),
        domain=arguments.get("domain", DOMAIN),
        outputs=arguments.get("outputs", 1),
        attributes=attributes,
    )
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        assert_close(session.run(None, feeds), expected)


_COLUMN, _ROW = np.ones((6000, 16), np.float32), np.ones((16, 6000), np.float32)
_PACKED, _SCALE = np.zeros((6000, 1, 8), np.uint8), np.ones((6000, 1), np.float32)
_WIDE = {"N": 6000, "K": 16, "block_size": 16}


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("FusedMatMul", [_COLUMN, _ROW], {}),
        ("FusedGemm", [_COLUMN, _ROW], {}),
        ("FusedConv", [np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)], {"pads": (4096,) * 4}),
        ("MatMulNBits", [_COLUMN, _PACKED, _SCALE], _WIDE),
        ("MatMulBnb4", [_COLUMN, _PACKED.reshape(-1), _SCALE.reshape(-1)], {**_WIDE, "quant_type": 0}),
        ("GatherBlockQuantized", [_PACKED[:, 0], np.zeros((1 << 21), np.int64), _SCALE], {"block_size": 16}),
        ("CDist", [_COLUMN, _COLUMN], {}),
        ("Range", [np.array(0), np.array(1 << 40), None], {}),
        ("Pad", [_ROW, np.array([0, 0, 1 << 20, 0])], {}),
    ],
)
def test_what_is_too_large_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """Results that are larger than the inputs are announced first."""
    node = make_node_spec(op_type, inputs, domain=DOMAIN, opset=1, attributes=attributes, schemas=SCHEMAS)
    (definition,) = (one for one in DEFINITIONS if (one.op_type, one.domain) == (op_type, DOMAIN))
    with pytest.raises(LimitError, match="too large"):
        definition.factory(Capped(node))(*inputs)
