"""A stand-in for the `cudnn` package: graphs that record how they were built, and compute on the host when executed.

Its `pygraph` has the methods that the provider calls, checks what the real one checks (sizes of results against its own
inference, explicit strides, stream and handle), and refuses on demand.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from providers.cuda.tests.cudnn import semantics
from providers.cuda.tests.cudnn.memory import DTYPES, seen

__all__ = ["FakeFrontend", "NotSupported"]


class NotSupported(RuntimeError):
    """Stand-in for ``cudnnGraphNotSupportedError``."""


class _Tensor:
    def __init__(self, **facts: Any) -> None:
        self.name = facts.get("name", "")
        self.dim: list[int] = list(facts.get("dim", ()))
        self.stride: list[int] = list(facts.get("stride", ()))
        self.data_type = facts.get("data_type")
        self.uid = facts.get("uid")
        self.scalar = facts.get("is_pass_by_value", False)
        self.output = False
        self.inferred: tuple[int, ...] | None = None

    def set_uid(self, uid: int) -> None:
        self.uid = uid

    def set_dim(self, dim: list[int]) -> None:
        self.dim = dim

    def set_stride(self, stride: list[int]) -> None:
        self.stride = stride

    def set_data_type(self, data_type: str) -> None:
        self.data_type = data_type

    def set_output(self, output: bool) -> None:
        self.output = output


class _Graph:
    def __init__(self, cudnn: FakeFrontend, **facts: Any) -> None:
        self.cudnn = cudnn
        self.facts = facts
        self.given: list[_Tensor] = []
        self.nodes: list[tuple[str, dict[str, Any], _Tensor]] = []
        self.built: set[int] = set()
        self.selected: int | None = None
        self.barred: list[Any] = []

    def tensor(self, **facts: Any) -> _Tensor:
        made = _Tensor(**facts)
        self.given.append(made)
        return made

    def __getattr__(self, method: str) -> Any:
        if method not in _COMPUTE:
            raise AttributeError(method)

        def build(**arguments: Any) -> Any:
            assert arguments.pop("compute_data_type") == "FLOAT"
            arguments.pop("name")
            made = _Tensor(name=f"{method}_result")
            self.nodes.append((method, arguments, made))
            return [made, None] if method in ("sdpa", "instancenorm") else made

        return build

    def validate(self) -> None:
        for tensor in [*self.given, *(made for _, _, made in self.nodes)]:
            assert tensor.dim
            assert len(tensor.dim) == len(tensor.stride), f"{tensor.name} leaves its layout open"
            assert None not in (tensor.uid, tensor.data_type)
        for method, arguments, made in self.nodes:
            if method == "conv_fprop":
                x, w = arguments["image"].dim, arguments["weight"].dim
                inferred = [
                    (n + b + e - (k - 1) * d - 1) // s + 1
                    for n, k, b, e, s, d in zip(
                        x[2:],
                        w[2:],
                        *(arguments[one] for one in ("pre_padding", "post_padding", "stride", "dilation")),
                        strict=True,
                    )
                ]
                assert made.dim == [x[0], w[0], *inferred]
            if method == "conv_dgrad":
                dy, w = arguments["loss"].dim, arguments["filter"].dim
                forward = [
                    (n + b + e - (k - 1) * d - 1) // s + 1
                    for n, k, b, e, s, d in zip(
                        made.dim[2:],
                        w[2:],
                        *(arguments[one] for one in ("pre_padding", "post_padding", "stride", "dilation")),
                        strict=True,
                    )
                ]
                assert dy[2:] == forward, "the gradient's picture does not lead back"
        if self.cudnn.refuses(self):
            raise NotSupported("no engine of the stand-in computes this")

    def build_operation_graph(self) -> None:
        pass

    def create_execution_plans(self, modes: list[str]) -> None:
        assert modes == ["A", "FALLBACK"]

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        self.barred += notes

    def deselect_workspace_greater_than(self, size: int) -> None:
        self.barred.append(size)

    def check_support(self) -> None:
        pass

    def get_execution_plan_count(self) -> int:
        return self.cudnn.plans

    def build_plan_at_index(self, index: int) -> None:
        if index in self.cudnn.broken_plans:
            raise NotSupported(f"plan {index} does not build")
        if index not in self.built:
            self.built.add(index)
            self.cudnn.builds += 1
        self.selected = index

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return self.cudnn.workspace

    def execute(self, pack: dict[int, int], workspace: int, handle: Any = None) -> None:
        self._run(pack, workspace, handle, self.selected)

    def _run(self, pack: dict[int, int], workspace: int, handle: Any, index: int | None) -> None:
        cudnn = self.cudnn
        assert index in self.built
        assert bool(workspace) == bool(cudnn.workspace)
        cudnn.record(("execute", handle.number, handle.stream, index))
        if cudnn.fails:
            raise RuntimeError("the stand-in's kernel failed")
        values: dict[int, Any] = {}
        outputs = [made for _, _, made in self.nodes if made.output]
        assert set(pack) == {one.uid for one in (*self.given, *outputs)}, "not exactly what is in memory"
        in_memory = [one for one in (*self.given, *outputs) if not one.scalar]
        assert all(pack[one.uid] % 16 == 0 for one in in_memory), "plans read 16 bytes at once"  # type: ignore[index]

        def read(tensor: _Tensor) -> Any:
            if tensor.uid in values:
                return values[tensor.uid]
            return seen(pack[tensor.uid], tensor.dim, tensor.stride, DTYPES[tensor.data_type])  # type: ignore[index]

        for method, arguments, made in self.nodes:
            result = _COMPUTE[method](read, made, arguments)
            assert list(result.shape) == made.dim
            values[made.uid] = result  # type: ignore[index]
            if made.output:
                target = seen(pack[made.uid], made.dim, made.stride, DTYPES[made.data_type])  # type: ignore[index]
                target[...] = result


def _convolved(read: Any, made: _Tensor, given: Any) -> Any:
    geometry = given["pre_padding"], given["stride"], given["dilation"]
    return semantics.conv_fprop(read(given["image"]), read(given["weight"]), made.dim[2:], *geometry)


def _gradient(read: Any, made: _Tensor, given: Any) -> Any:
    geometry = given["pre_padding"], given["stride"], given["dilation"]
    return semantics.conv_dgrad(read(given["loss"]), read(given["filter"]), made.dim[1:], *geometry)


def _attended(read: Any, made: _Tensor, given: Any) -> Any:
    assert given["generate_stats"] is False
    for name in ("q", "k", "v"):
        assert given[name].stride[-1] == 1
        assert given[name].data_type in ("HALF", "BFLOAT16")
    bias = read(given["bias"]) if "bias" in given else None
    if bias is not None:
        assert np.isfinite(bias.astype(np.float64)).all(), "cuDNN makes NaN of infinities"
    alignment, right = given.get("diagonal_alignment"), given.get("diagonal_band_right_bound")
    assert not (alignment == "BOTTOM_RIGHT" and (bias is not None or given["q"].dim[2] > given["k"].dim[2]))
    return semantics.sdpa(
        read(given["q"]), read(given["k"]), read(given["v"]), given["attn_scale"], bias, alignment, right
    )


def _normalised(read: Any, made: _Tensor, given: Any) -> Any:
    assert given["norm_forward_phase"] == "INFERENCE"
    epsilon = float(read(given["epsilon"]).reshape(()))
    return semantics.instancenorm(read(given["input"]), read(given["scale"]), read(given["bias"]), epsilon)


def _relu(read: Any, made: _Tensor, given: Any) -> Any:
    return np.clip(read(given["input"]), given.get("lower_clip", 0.0), given.get("upper_clip", np.inf))


def _leaky(read: Any, made: _Tensor, given: Any) -> Any:
    x = read(given["input"])
    return np.where(x < 0, x * given["negative_slope"], x)


_COMPUTE: dict[str, Any] = {
    "conv_fprop": _convolved,
    "conv_dgrad": _gradient,
    "sdpa": _attended,
    "instancenorm": _normalised,
    "relu": _relu,
    "leaky_relu": _leaky,
    "sigmoid": lambda read, made, given: 1 / (1 + np.exp(-read(given["input"]))),
    "tanh": lambda read, made, given: np.tanh(read(given["input"])),
    "add": lambda read, made, given: read(given["a"]) + read(given["b"]).astype(np.float64),
    "bias": lambda read, made, given: read(given["input"]) + read(given["bias"]).astype(np.float64),
}


class _Names:
    """An enumeration whose members are their names."""

    def __getattr__(self, name: str) -> str:
        return name


class FakeFrontend:
    """The package.

    Attributes:
        graphs: Graphs that were begun.
        refused: Methods that no plan serves; a tuple of two means both in one graph.
        plans, broken_plans: How many plans there are to time, and which do not build.
        workspace: Bytes that plans ask for.
        fails: Whether running a plan fails.
        builds: Plans built.
        order: Where it notes what happened; usually the stand-in of CuPy's.
    """

    def __init__(self, order: list[Any] | None = None) -> None:
        self.data_type = _Names()
        self.heur_mode = _Names()
        self.numerical_note = _Names()
        self.diagonal_alignment = _Names()
        self.norm_forward_phase = _Names()
        self.graphs: list[_Graph] = []
        self.refused: set[str | tuple[str, str]] = set()
        self.plans = 3
        self.broken_plans: set[int] = set()
        self.workspace = 96
        self.fails = False
        self.builds = 0
        self.order: list[Any] = [] if order is None else order
        self.handles: list[Any] = []
        self.destroyed: list[int] = []

    def record(self, what: tuple[Any, ...]) -> None:
        self.order.append(what)

    def pygraph(self, **facts: Any) -> _Graph:
        made = _Graph(self, **facts)
        self.graphs.append(made)
        return made

    def refuses(self, graph: _Graph) -> bool:
        methods = {method for method, _, _ in graph.nodes}
        return any(one in methods if isinstance(one, str) else set(one) <= methods for one in self.refused)

    def create_handle(self) -> Any:
        made = SimpleNamespace(number=len(self.handles), stream=0)
        self.handles.append(made)
        return made

    def destroy_handle(self, handle: Any) -> None:
        self.destroyed.append(handle.number)

    def set_stream(self, handle: Any, stream: int) -> None:
        handle.stream = stream
        self.record(("stream", handle.number, stream))

    def get_last_error_string(self) -> str:
        return "the last error, in the stand-in's words"
