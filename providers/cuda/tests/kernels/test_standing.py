"""Kernels that stand on the array library's: they declare what it declares, and fall back with a reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from ort_py.contracts import KernelContext
from ort_py.contracts.kernel import KernelCallable, KernelFactory
from ort_py.errors import KernelNotFoundError
from ort_py_array.library import LibraryKernels
from ort_py_cuda.kernels.catalog import FAMILIES
from ort_py_cuda.kernels.standing import note_fallback, over_library, unprepared
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from providers.cuda.tests.cudnn.on_host import cudnn_on_host

_OURS = ("convolution", "convolution_transpose", "pooling", "normalization", "attention", "recurrent")


def _mine(ctx: KernelContext, library: KernelFactory) -> KernelCallable:
    return library(ctx)


def test_declared_as_the_librarys() -> None:
    """Versions, outputs, views and host inputs are the library's; types may be fewer."""
    (attention,) = LibraryKernels().kernels_of("", "Attention")
    (ours,) = over_library("Attention", _mine)
    assert (ours.since, ours.until, ours.outputs) == (attention.since, attention.until, attention.outputs)
    assert (ours.views, ours.host_inputs, ours.strided) == (attention.views, attention.host_inputs, attention.strided)
    assert ours.implementation.endswith("_mine")
    x = [np.ones((1, 2, 3, 4), np.float32)] * 3
    call = ours.factory(LocalKernelContext(make_node_spec("Attention", x)))
    np.testing.assert_allclose(call(*x)[0], x[0])


def test_a_late_kernel_takes_nothing_for_constant() -> None:
    """The factory's packed forms are gone, so the library must not prepare anything from the constant."""
    x, w = np.ones((1, 1, 3, 3), np.float16), np.ones((1, 1, 2, 2), np.float16)
    context = LocalKernelContext(make_node_spec("Conv", [x, w]), constants={1: np.full_like(w, np.nan)})
    np.testing.assert_allclose(unprepared(context)(x, w), np.full((1, 1, 2, 2), 4.0))


def test_an_operator_without_a_library_kernel() -> None:
    node = make_node_spec("Relu", [np.ones(2, np.float32)], domain="org.nobody", opset=1)
    with pytest.raises(KernelNotFoundError, match="cuDNN does not serve this call either"):
        unprepared(LocalKernelContext(node))


def test_fallbacks_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """With the node and the reason."""
    context = LocalKernelContext(make_node_spec("Relu", [np.ones(2, np.float32)]))
    with caplog.at_level(logging.INFO, "ort_py_cuda.kernels"):
        note_fallback(context, "a reason")
    assert "Relu_under_test" in caplog.text
    assert "a reason" in caplog.text


def _declared() -> Iterator[tuple[str, str]]:
    for family in _OURS:
        for definition in import_module(f"ort_py_cuda.kernels.{family}").KERNELS:
            operator = f"{definition.domain}:{definition.op_type}" if definition.domain else definition.op_type
            yield family, operator


def test_the_catalogue_lists_what_is_declared() -> None:
    """Each operator of these modules, and no other."""
    for family in _OURS:
        declared = {operator for owner, operator in _declared() if owner == family}
        assert set(FAMILIES[family].split()) == declared


def test_importing_the_kernels_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither door is opened by binding a node where both are shut: an error at import would take the provider away."""
    host = cudnn_on_host(monkeypatch, with_frontend=False, with_library=False)
    x = np.ones((1, 1, 4, 4), np.float32)
    module = import_module("ort_py_cuda.kernels.pooling")
    np.testing.assert_allclose(host.run(module.KERNELS, "GlobalMaxPool", [x]), 1.0)
