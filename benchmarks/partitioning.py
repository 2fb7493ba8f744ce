"""`python -m benchmarks.partitioning [NODES] [--providers N] [--every K]`: seconds to assign each node to a provider.

A chain with side branches, and providers of the test kit: the first compile regions or bring kernels and refuse every
K-th node, the last runs everything. The floor is 0.6 s for 20,000 nodes and four providers. The view and the kernels'
registries are part of the time; loading is not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

from ort_py.collection import paused_collection
from ort_py.contracts import (
    Capability,
    Claim,
    ClaimKind,
    GraphView,
    IExecutionProvider,
    KernelDef,
    KernelLookup,
    Refusal,
    convex_groups,
)
from ort_py.devices import HOST, Device
from ort_py.kernels.registry import KernelRegistry
from ort_py.partition.cost_model import transfer_costs
from ort_py.partition.partitioner import partition
from ort_py_kit.fake_device import fake_kernels
from ort_py_kit.graphs import typed_model

__all__ = ["main"]

FLOOR_SECONDS = 0.6


class Refusing(IExecutionProvider):
    """Takes all nodes but every `every`-th one, as kernels or as regions, on a device or on the host."""

    def __init__(self, name: str, device: Device, every: int, *, compiles: bool) -> None:
        self._name, self._device, self._every, self._compiles = name, device, every, compiles

    @property
    def name(self) -> str:
        return self._name

    @property
    def device(self) -> Device:
        return self._device

    def kernel_registry(self) -> Sequence[KernelDef]:
        return fake_kernels()

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        taken = [node.index for node in graph.nodes if not self._every or node.index % self._every]
        left = set(range(len(graph.nodes))).difference(taken)
        refusals = tuple([Refusal(index, "every so often") for index in sorted(left)])
        if self._compiles:
            return Capability(
                tuple([Claim(group, ClaimKind.COMPILE, "region") for group in convex_groups(graph, taken)]), refusals
            )
        return Capability(tuple([Claim((index,), ClaimKind.KERNEL, "kernel") for index in taken]), refusals)


def providers_of(count: int, every: int) -> list[IExecutionProvider]:
    """So many providers: a compiler and kernels on a device, then a compiler and kernels on the host."""
    device = Device("fake", 0)
    made: list[IExecutionProvider] = [
        Refusing("DeviceCompiler", device, every, compiles=True),
        Refusing("DeviceKernels", device, every + 4, compiles=False),
        Refusing("HostCompiler", HOST, every + 6, compiles=True),
    ]
    return [*made[: count - 1], Refusing("HostKernels", HOST, 0, compiles=False)]


def model_of(nodes: int) -> onnx.ModelProto:
    """A chain of operators in which every fifth node reads what stood ten before it too."""
    names = ["x"]
    made = []
    for index in range(nodes):
        back = names[max(0, len(names) - 10)]
        if index % 5 == 4:
            made.append(helper.make_node("Add", [names[-1], back], [f"v{index}"], name=f"n{index}"))
        else:
            operator = ("Relu", "Neg", "Abs", "MatMul")[index % 4]
            inputs = [names[-1], "w"] if operator == "MatMul" else [names[-1]]
            made.append(helper.make_node(operator, inputs, [f"v{index}"], name=f"n{index}"))
        names.append(f"v{index}")
    shape = [64, 64]
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "w")],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main(arguments: list[str]) -> int:
    """Print the fastest and the median of some turns, and what was decided; 1 where the floor is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.partitioning", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("nodes", nargs="?", type=int, default=20_000)
    parser.add_argument("--providers", type=int, choices=(1, 2, 3, 4), default=4, help="how many (4)")
    parser.add_argument("--every", type=int, default=7, help="the first provider refuses every K-th node (7)")
    parser.add_argument("--turns", type=int, default=5, help="how often (5)")
    chosen = parser.parse_args(arguments)
    model = typed_model(model_of(chosen.nodes))
    providers = providers_of(chosen.providers, chosen.every)
    seconds, processor = [], []
    for _ in range(chosen.turns):
        with paused_collection():  # as sessions are made
            start, worked = time.perf_counter(), time.process_time()
            kernels = KernelRegistry()
            for provider in providers:
                kernels.register(provider.name, provider.kernel_registry(), provider.name)
            found = partition(model.graph, providers, kernels, transfer_costs(), _raise)
            seconds.append(time.perf_counter() - start)
            processor.append(time.process_time() - worked)
    regions = sum(map(len, found.regions.values()))
    print(f"{chosen.nodes} nodes, {chosen.providers} providers: {dict(found.counts())}, {regions} regions")
    print(
        f"fastest {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s, processor {min(processor):.3f} s; "
        f"the floor is {FLOOR_SECONDS} s"
    )
    return int(min(processor) > FLOOR_SECONDS)  # of one thread: what other programs do does not count


def _raise(provider: str, error: Exception) -> None:
    raise RuntimeError(f"{provider} failed") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
