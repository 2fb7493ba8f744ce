"""Forbidden work of a captured graph, read from its nodes through a scripted driver."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from ort_py.errors import EPFail
from ort_py_cuda.capture.inspection import Copy3D, host_work

_KERNEL, _COPY, _FILL = 0, 1, 2
_ON_HOST, _ON_DEVICE, _ANYWHERE = 1, 2, 4


class _Function:
    argtypes: Any = None
    restype: Any = None

    def __init__(self, body: Any) -> None:
        self._body = body

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes)
        return int(self._body(*arguments) or 0)


class _Driver:
    """A driver that knows one graph.

    Args:
        nodes: (kind of node, kinds of memory of a copy's source and target).
        pointers: Kind of memory by address.
        failing: Function that fails.
    """

    def __init__(
        self, nodes: list[tuple[int, int, int]], pointers: dict[int, int] | None = None, failing: str = ""
    ) -> None:
        self._nodes, self._pointers = nodes, pointers or {}
        for name in ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphMemcpyNodeGetParams", "cuPointerGetAttribute"):
            setattr(self, name, _Function((lambda *_: 999) if name == failing else getattr(self, f"_{name}")))

    def _cuGraphGetNodes(self, graph: int, nodes: Any, count: Any) -> None:  # noqa: N802 - the driver's name
        count._obj.value = len(self._nodes)
        for place in range(len(self._nodes) if nodes is not None else 0):
            nodes[place] = place + 1

    def _cuGraphNodeGetType(self, node: int, kind: Any) -> None:  # noqa: N802 - the driver's name
        kind._obj.value = self._nodes[node - 1][0]

    def _cuGraphMemcpyNodeGetParams(self, node: int, copy: Any) -> None:  # noqa: N802 - the driver's name
        _, copy._obj.source.kind, copy._obj.target.kind = self._nodes[node - 1]
        copy._obj.source.device, copy._obj.target.device = 0x100, 0x200
        copy._obj.width, copy._obj.rows = 64, 2

    def _cuPointerGetAttribute(self, result: Any, attribute: int, address: int) -> int:  # noqa: N802 - the driver's name
        assert attribute == 2
        if address not in self._pointers:
            return 1
        result._obj.value = self._pointers[address]
        return 0


def test_kernels_and_copies_on_the_device_may_be_repeated() -> None:
    """Kernels, memsets, copies from device to device; a graph of nothing too."""
    assert host_work(1, _Driver([(_KERNEL, 0, 0), (_FILL, 0, 0), (_COPY, _ON_DEVICE, _ON_DEVICE)])) is None
    assert host_work(1, _Driver([(_COPY, _ANYWHERE, _ANYWHERE)], {0x100: 2, 0x200: 2})) is None
    assert host_work(1, _Driver([])) is None


@pytest.mark.parametrize(
    ("nodes", "pointers", "reason"),
    [
        ([(_KERNEL, 0, 0), (_COPY, _ON_HOST, _ON_DEVICE)], {}, "it copies 128 bytes from the host's memory"),
        ([(_COPY, _ON_DEVICE, _ON_HOST)], {}, "it copies 128 bytes to the host's memory"),
        ([(_COPY, _ANYWHERE, _ON_DEVICE)], {0x100: 1}, "from the host's memory"),
        ([(_COPY, _ANYWHERE, _ON_DEVICE)], {}, "from the host's memory"),
        ([(3, 0, 0)], {}, "it has a function on the host"),
        ([(10, 0, 0)], {}, "it has an allocation of memory"),
        ([(99, 0, 0)], {}, "it has a node of kind 99"),
    ],
)
def test_what_must_not_be_repeated(nodes: list[tuple[int, int, int]], pointers: dict[int, int], reason: str) -> None:
    """Copies from and to the host, by their kind or their address; functions on the host; memory."""
    assert reason in (host_work(1, _Driver(nodes, pointers)) or "")


@pytest.mark.parametrize("name", ["cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphMemcpyNodeGetParams"])
def test_a_driver_that_does_not_answer(name: str) -> None:
    with pytest.raises(EPFail, match=f"{name} failed with status 999") as caught:
        host_work(1, _Driver([(_COPY, 1, 1)], failing=name))
    assert "enable_cuda_graph" in str(caught.value)


def test_the_structure_is_the_driver_s() -> None:
    """CUDA_MEMCPY3D has 200 bytes; its second side begins at 88."""
    assert ctypes.sizeof(Copy3D) == 200
    assert Copy3D.target.offset == 88
