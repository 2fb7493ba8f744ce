"""Kernels that run on the host beside products that do: `emulation` with the stand-in module of products."""

from __future__ import annotations

import shutil

import pytest

from ort_py_cuda import modules
from providers.cuda.tests.emulation.host import HostDriver, install

__all__ = ["HostLaunches", "host_kernels", "needs_host_compiler"]

needs_host_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="CUDA sources are run on the host through g++, which is not installed"
)


class HostLaunches:
    """What was launched, in order: (name, grid, block)."""

    def __init__(self, driver: HostDriver) -> None:
        self.launched = driver.launched

    @property
    def names(self) -> list[str]:
        """Names of the kernels."""
        return [name for name, _, _ in self.launched]


def host_kernels(monkeypatch: pytest.MonkeyPatch) -> HostLaunches:
    """Let all generated kernels run on the host until the test ends; what stands for CuPy stays as it is."""
    module = modules._module
    driver = install(monkeypatch)
    monkeypatch.setattr(modules, "_module", module)
    return HostLaunches(driver)
