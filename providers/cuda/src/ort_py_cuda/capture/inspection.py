"""Host work of a captured graph that a replay would repeat: copies to or from the host, functions called on it.

A kernel that uploads a small array in each call is recorded as a copy from memory that is somebody else's by the time
the graph runs again: wrong results without an error. So the nodes of each graph are looked at, through the driver,
before it is launched for the first time. It uses integer handles and does not import CuPy.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from ort_py.errors import EPFail

__all__ = ["host_work"]

_KERNEL, _COPY, _FILL, _HOST, _CHILD, _EMPTY = 0, 1, 2, 3, 4, 5
_ALLOWED = {_KERNEL: "a kernel", _FILL: "a memset", _EMPTY: "an empty node"}
_OTHERS = {
    _HOST: "a function on the host",
    _CHILD: "another graph",
    6: "a wait for an event of another stream",
    7: "an event",
    10: "an allocation of memory",
    11: "a release of memory",
}
_HOST_MEMORY, _DEVICE_MEMORY, _UNIFIED = 1, 2, 4
_MEMORY_TYPE = 2
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE"""


class _Side(ctypes.Structure):
    """One side of ``CUDA_MEMCPY3D``."""

    _fields_ = (
        ("x", c_size_t),
        ("y", c_size_t),
        ("z", c_size_t),
        ("lod", c_size_t),
        ("kind", c_uint),
        ("host", c_void_p),
        ("device", c_void_p),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )


class Copy3D(ctypes.Structure):
    """``CUDA_MEMCPY3D``: the parameters of a graph's copy."""

    _fields_ = (("source", _Side), ("target", _Side), ("width", c_size_t), ("rows", c_size_t), ("depth", c_size_t))


_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuGraphGetNodes": (c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "cuGraphNodeGetType": (c_void_p, POINTER(c_int)),
    "cuGraphMemcpyNodeGetParams": (c_void_p, POINTER(Copy3D)),
    "cuPointerGetAttribute": (c_void_p, c_int, c_void_p),
}


def host_work(graph: int, driver: Any) -> str | None:
    """Describe work of a graph that must not be repeated, or return None.

    Args:
        graph: ``CUgraph``.
        driver: The driver's library.

    Raises:
        EPFail: The driver refused to say.
    """
    functions = {name: getattr(driver, name) for name in _PROTOTYPES}
    for name, function in functions.items():
        function.argtypes, function.restype = _PROTOTYPES[name], c_int
    count = c_size_t()
    _check(functions["cuGraphGetNodes"](graph, None, byref(count)), "cuGraphGetNodes")
    nodes = (c_void_p * count.value)()
    if count.value:
        _check(functions["cuGraphGetNodes"](graph, nodes, byref(count)), "cuGraphGetNodes")
    for node in nodes:
        kind = c_int()
        _check(functions["cuGraphNodeGetType"](node, byref(kind)), "cuGraphNodeGetType")
        if kind.value == _COPY:
            copy = Copy3D()
            _check(functions["cuGraphMemcpyNodeGetParams"](node, byref(copy)), "cuGraphMemcpyNodeGetParams")
            for side, words in ((copy.source, "from"), (copy.target, "to")):
                if _on_host(side, functions["cuPointerGetAttribute"]):
                    return f"it copies {copy.width * max(1, copy.rows):,} bytes {words} the host's memory"
        elif kind.value not in _ALLOWED:
            return f"it has {_OTHERS.get(kind.value, f'a node of kind {kind.value}')}"
    return None


def _on_host(side: _Side, attribute: Any) -> bool:
    if side.kind != _UNIFIED:
        return bool(side.kind == _HOST_MEMORY)
    kind = c_uint()
    # Where the driver does not know an address, it is ordinary memory of the host.
    return attribute(byref(kind), _MEMORY_TYPE, side.device) != 0 or kind.value == _HOST_MEMORY


def _check(status: int, call: str) -> None:
    if status:
        raise EPFail(
            f"{call} failed with status {status}.",
            where="CUDA driver",
            fix="Switch enable_cuda_graph off, and report this with the driver's version.",
        )
