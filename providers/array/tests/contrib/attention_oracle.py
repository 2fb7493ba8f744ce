"""Oracles of attention: onnxruntime with declared output types or shared buffers, and a naive float64 softmax.

onnxruntime cannot infer the types of some optional outputs, and SparseAttention only runs where past and present are
one buffer. The naive loop is for what onnxruntime's CPU lacks or gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

from ort_py.dtypes import data_type_of
from ort_py_kit.tolerances import assert_close

from ..oracle import run
from ..standin import array_module, to_device, to_host
from .closed_forms import DOMAIN

__all__ = ["agree", "attended", "f32", "i32", "on_device", "runtime", "unchanged"]


def i32(*values: int) -> Any:
    """A one-dimensional int32 array."""
    return np.array(values, np.int32)


def f32(shape: Sequence[int], seed: int = 0) -> Any:
    """Seeded float32 values between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def runtime(
    op_type: str,
    inputs: Sequence[Any],
    kinds: Sequence[Any],
    *,
    shared: Mapping[int, int] | None = None,
    **attributes: Any,
) -> list[Any]:
    """Run one node with onnxruntime, with outputs of these dtypes, on one thread.

    Args:
        op_type: Operator.
        inputs: Inputs; None where absent.
        kinds: A dtype an output.
        shared: Output by input whose buffer it takes.
        **attributes: Attributes of the node.
    """
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(len(kinds))]
    feeds = {name: x for name, x in zip(names, inputs, strict=True) if name}
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, domain=DOMAIN, **attributes)],
        "one_node",
        [helper.make_tensor_value_info(n, int(data_type_of(v.dtype)), list(v.shape)) for n, v in feeds.items()],
        [
            helper.make_tensor_value_info(n, int(data_type_of(np.dtype(kind))), None)
            for n, kind in zip(results, kinds, strict=True)
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if shared is None:
        return list(session.run(None, feeds))
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in feeds.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for index, name in enumerate(results):
        if index in shared:
            binding.bind_ortvalue_output(name, values[f"x{shared[index]}"])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [output.numpy().copy() for output in binding.get_outputs()]


def agree(
    op_type: str,
    inputs: Sequence[Any],
    kinds: Sequence[Any] = (np.float32,),
    *,
    shared: Mapping[int, int] | None = None,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> list[Any]:
    """Assert that the kernel and onnxruntime give the same, and that no input was written to; gives the results."""
    before = [None if x is None else x.copy() for x in inputs]
    actual = run(op_type, inputs, domain=DOMAIN, opset=1, outputs=len(kinds), constants=constants, **attributes)
    unchanged(inputs, before)
    expected = runtime(op_type, inputs, kinds, shared=shared, **attributes)
    for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
        assert_close(left, right, context=f"{op_type} output {index}")
    return actual


def unchanged(inputs: Sequence[Any], before: Sequence[Any]) -> None:
    """Assert that inputs still hold what they held."""
    for left, right in zip(inputs, before, strict=True):
        if left is not None:
            np.testing.assert_array_equal(left, right)


def attended(
    q: Any, k: Any, v: Any, scale: float, *, added: Any = 0.0, seen: Any = True, cap: float = 0.0, sink: Any = None
) -> Any:
    """Attention in float64, head by head and row by row: ``(batch, length, heads · size)``.

    Args:
        q: ``(batch, heads, length, size)``.
        k: ``(batch, key heads, keys, size)``.
        v: ``(batch, key heads, keys, value size)``.
        scale: Factor of the scores.
        added: Broadcasts to the scores.
        seen: Broadcasts to the scores; whether a key takes part.
        cap: Bound of the scores before `added`; 0 for none.
        sink: A logit a head without a value.
    """
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    batch, heads, rows, _ = q.shape
    group = heads // k.shape[1]
    shape = (batch, heads, rows, k.shape[2])
    more, visible = np.broadcast_to(added, shape), np.broadcast_to(seen, shape)
    y = np.zeros((batch, rows, heads, v.shape[3]))
    for b in range(batch):
        for h in range(heads):
            for r in range(rows):
                scores = k[b, h // group] @ q[b, h, r] * scale
                if cap:
                    scores = cap * np.tanh(scores / cap)
                scores = np.where(visible[b, h, r], scores + more[b, h, r], -np.inf)
                top = max(scores.max(initial=-np.inf), -np.inf if sink is None else sink[h])
                if top == -np.inf:
                    continue
                weights = np.exp(scores - top)
                total = weights.sum() + (0 if sink is None else np.exp(sink[h] - top))
                y[b, r, h] = weights / total @ v[b, h // group]
    return y.reshape(batch, rows, -1)


def on_device(
    op_type: str, inputs: Sequence[Any], outputs: int = 1, hosts: Sequence[int] = (), **attributes: Any
) -> None:
    """Assert that the kernel gives on the stand-in array module what it gives on NumPy; `hosts` stay on the host."""
    given = [x if x is None or i in hosts else to_device(x) for i, x in enumerate(inputs)]
    arguments: dict[str, Any] = {"domain": DOMAIN, "opset": 1, "outputs": outputs, **attributes}
    actual = run(op_type, given, xp=array_module, **arguments)
    expected = run(op_type, inputs, **arguments)
    for left, right in zip(actual, expected, strict=True):
        if right is not None:
            np.testing.assert_array_equal(to_host(left), right)
