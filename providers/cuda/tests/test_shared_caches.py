"""Caches that are input and output at once: past and present, or pages, bound to one value on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py_array.library import LibraryKernels
from ort_py_kit.graphs import model_from_text
from ort_py_kit.kernel_runner import run_kernel

from .stand_in.machine import Machine

_HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g '
_MODELS = {
    "GroupQueryAttention": _HEAD
    + "(float[1, 1, 64] q, float[1, 1, 32] k, float[1, 1, 32] v, float[1, 2, 8, 16] a, float[1, 2, 8, 16] b, "
    "int32[1] ends, int32[1] total) => (float[1, 1, 64] y, float[1, 2, 8, 16] c, float[1, 2, 8, 16] d) "
    "{ y, c, d = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, a, b, ends, total) }",
    "PagedAttention": _HEAD
    + "(float16[2, 64] q, float16[2, 32] k, float16[2, 32] v, float16[4, 4, 2, 16] a, float16[4, 4, 2, 16] b, "
    "int32[3] sums, int32[2] past, int32[2, 2] table) => (float16[2, 64] y, float16[4, 4, 2, 16] c, "
    "float16[4, 4, 2, 16] d) { y, c, d = com.microsoft.PagedAttention <num_heads = 4, kv_num_heads = 2> "
    "(q, k, v, a, b, sums, past, table) }",
}


def _step(operator: str, number: int) -> list[Any]:
    """Feeds of a step but the caches: new rows, then where they go."""
    rng = np.random.default_rng(number)
    if operator == "GroupQueryAttention":
        parts: list[Any] = [rng.standard_normal((1, 1, width)).astype(np.float32) for width in (64, 32, 32)]
        return [*parts, np.array([3 + number], np.int32), np.array([4 + number], np.int32)]
    parts = [rng.standard_normal((2, width)).astype(np.float16) for width in (64, 32, 32)]
    table = np.array([[2, 0], [1, 3]], np.int32)
    return [*parts, np.array([0, 1, 2], np.int32), np.array([3 + number, 1 + number], np.int32), table]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("operator", list(_MODELS))
def test_steps_over_one_cache(operator: str, shared: bool, machine: Machine) -> None:
    """Each step finds what the steps before have stored, in the same memory, and no other row is touched."""
    options = ort_py.SessionOptions()
    options.cost_model, options.cache_dir = "always", "off"
    session = ort_py.InferenceSession(
        model_from_text(_MODELS[operator]).SerializeToString(),
        options,
        ["CUDAExecutionProvider", "CPUExecutionProvider"],
        enable_fallback=0,
    )
    names = [one.name for one in session.get_inputs()]
    dtype = np.float32 if operator == "GroupQueryAttention" else np.float16
    shape = (1, 2, 8, 16) if operator == "GroupQueryAttention" else (4, 4, 2, 16)
    caches = [np.random.default_rng(seed).standard_normal(shape).astype(dtype) for seed in (7, 8)]
    pasts = [ort_py.OrtValue.ortvalue_from_numpy(one, "cuda", 0) for one in caches]
    presents = pasts if shared else [ort_py.OrtValue.ortvalue_from_numpy(one * 0, "cuda", 0) for one in caches]
    for number in range(3):
        feeds = _step(operator, number)
        inputs = [*feeds[:3], *caches, *feeds[3:]]
        y, *caches = run_kernel(
            LibraryKernels().kernels_of("com.microsoft", operator),
            operator,
            inputs,
            domain="com.microsoft",
            opset=1,
            outputs=3,
            num_heads=4,
            kv_num_heads=2,
        )
        binding = session.io_binding()
        for name, feed in zip(names, [*feeds[:3], *pasts, *feeds[3:]], strict=True):
            if isinstance(feed, ort_py.OrtValue):
                binding.bind_ortvalue_input(name, feed)
            else:
                binding.bind_cpu_input(name, feed)
        binding.bind_output("y")
        for name, value in zip(("c", "d"), presents, strict=True):
            binding.bind_ortvalue_output(name, value)
        for _ in range(1 if shared else 2):  # from the second run of a shape on, memory is reused
            session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], y, rtol=1e-3, atol=1e-3)
        for value, expected in zip(presents, caches, strict=True):
            np.testing.assert_array_equal(value.numpy(), expected)
        pasts, presents = presents, pasts
    assert {node.provider for node in session.placement.nodes} == {"CUDAExecutionProvider"}
