"""Faults found by kernels: noted on a stream, raised after the wait, with the node's name."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ort_py.errors import KernelInputError, Location
from ort_py_cuda import modules
from ort_py_cuda.code import faults


class Pinned(np.ndarray[Any, Any]):
    """Pinned memory with CuPy's interface: the buffer protocol and an address."""

    @property
    def ptr(self) -> int:
        return int(self.ctypes.data)


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned memory of the host."""
    cuda = SimpleNamespace(alloc_pinned_memory=lambda size: np.full(size, 7, np.uint8).view(Pinned))
    monkeypatch.setattr(modules, "_module", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(faults, "_records", {})


def write(stream: int, site: faults.Site, value: int, bound: int) -> None:
    """Do what a kernel's `report` does."""
    words = (ctypes.c_int64 * 4).from_address(faults.record_of(stream))
    words[1], words[2], words[3], words[0] = site.number, value, bound, 1


def test_a_stream_keeps_its_record() -> None:
    """Its address may be in captured graphs."""
    assert faults.record_of(5) == faults.record_of(5) != faults.record_of(6)


def test_nothing_is_raised_where_nothing_was_found() -> None:
    """Also for streams that no kernel had a record of."""
    faults.record_of(5)
    faults.raise_if_any(5)
    faults.raise_if_any(6)


def test_a_report_is_raised_once_and_on_its_stream_alone() -> None:
    site = faults.Site.of_index(Location(node="lookup", op_type="Gather"), 1)
    write(5, site, 12, 10)
    faults.raise_if_any(6)
    with pytest.raises(KernelInputError, match="Index 12 is out of range for axis 1 of size 10") as caught:
        faults.raise_if_any(5)
    assert "lookup" in str(caught.value)
    faults.raise_if_any(5)


def test_a_new_stream_of_an_old_handle_begins_without_faults() -> None:
    """A run that failed otherwise is not waited for to its end; CUDA gives the handle of its stream to another run."""
    site = faults.Site.of_index(Location(node="lookup"))
    write(5, site, 12, 10)
    faults.forget(5)
    faults.forget(6)
    faults.raise_if_any(5)


def test_a_report_of_a_closed_node() -> None:
    site = faults.Site.of_index(Location(node="gone"))
    write(5, site, 12, 10)
    faults._recent.clear()
    del site
    with pytest.raises(KernelInputError, match="met the value 12"):
        faults.raise_if_any(5)


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (faults.Site.of_position(Location(node="r")), "Position 12 is outside the caches"),
        (faults.Site.of_divisor(Location(node="d")), "Integer division by zero"),
    ],
)
def test_what_may_go_wrong(site: faults.Site, words: str) -> None:
    write(5, site, 12, 10)
    with pytest.raises(KernelInputError, match=words):
        faults.raise_if_any(5)
