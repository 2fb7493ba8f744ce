"""Products on the host: our binding over a library of our own, and arrays whose addresses are the host's."""

from __future__ import annotations

import pytest

from ort_py_cuda import modules
from ort_py_cuda.cublaslt import products
from ort_py_cuda.cublaslt.binding import CublasLt
from ort_py_cuda.cublaslt.plans import PlanStore
from providers.cuda.tests.cublaslt.fake_library import FakeLt
from providers.cuda.tests.emulation.host import HostModule, xp

__all__ = ["on_the_host"]


def on_the_host(monkeypatch: pytest.MonkeyPatch, library: FakeLt | None = None) -> tuple[HostModule, FakeLt]:
    """Let the provider's products run on the host until the test ends: (what stands for CuPy, the library)."""
    library = library or FakeLt()
    binding = CublasLt(library)
    monkeypatch.setattr(modules, "_module", xp)
    monkeypatch.setattr(products, "_stores", {0: PlanStore(binding, binding.create_handle())})
    return xp, library
