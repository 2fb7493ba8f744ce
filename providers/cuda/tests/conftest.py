"""Fixtures of this provider's tests: a stand-in for CuPy on a machine without GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ort_py.contracts import Availability
from ort_py.devices import Device
from ort_py_cuda import availability, installed, libraries, modules, opening
from ort_py_cuda.kernels import catalog
from ort_py_cuda.memory import pools
from ort_py_kit.subject import forget_providers
from providers.cuda.tests import drawing
from providers.cuda.tests.emulation import host

from .stand_in.machine import Machine
from .stand_in.module import StandInModule


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_kept(request: pytest.FixtureRequest) -> None:
    """Kernels that were compiled for the host are found again by the next run, and by the other workers of this one."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # `-p no:cacheprovider` leaves none
    if cache is not None:
        host.keep_in(cache.mkdir("ort-py-emulated"))


@pytest.fixture(autouse=True)
def _own_random_numbers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make a test's random numbers independent of the tests before it."""
    drawing.begin(request.node.name)
    yield
    drawing.end()


@pytest.fixture
def use_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., StandInModule]]:
    """Puts a machine in the place of CUDA: CuPy is the stand-in's, nothing is missing, kernels are the library's.

    Our own kernels and regions run machine code, which the stand-in has none of: they have tests of their own.
    """

    def use(machine: Machine, kind: type[StandInModule] = StandInModule) -> StandInModule:
        module = kind(machine)
        found = Availability(True, "a stand-in", devices=tuple(Device("cuda", one) for one in range(machine.devices)))
        monkeypatch.setattr(modules, "_module", module)
        monkeypatch.setattr(availability, "examine", lambda: found)
        monkeypatch.setattr(opening, "examine", lambda: found)
        monkeypatch.setattr(opening, "_started_by", None)
        monkeypatch.setattr(pools, "_shared", {})
        monkeypatch.setattr(libraries, "find", lambda name: installed.__file__)
        monkeypatch.setattr(catalog, "our_kernels", lambda domain, op_type: [])
        monkeypatch.setattr("ort_py_cuda.provider.prefers_channels_last", lambda node: False)
        monkeypatch.setattr("ort_py_cuda.provider.regions.groups", lambda graph, able: ())
        forget_providers()
        return module

    yield use
    forget_providers()


@pytest.fixture
def machine(use_machine: Callable[[Machine], Any]) -> Machine:
    """A machine with one GPU, in use."""
    made = Machine()
    use_machine(made)
    return made
