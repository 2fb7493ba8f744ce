"""Compiled regions without a session: a claim compiled, and a region run once on whatever device it is for.

Arrays travel between processes in a file of ONNX tensors, which has every type that ONNX has. Used by the checks of
artifacts, in this process and in a fresh one. It does not depend on questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_py.contracts import ClaimKind, CompiledRegion, FrameResources, RegionView
from ort_py.devices import HOST
from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.allocator import DeviceUnderTest


def claimed_regions(subject: Subject, device: DeviceUnderTest, sample: Sample) -> Iterator[RegionView]:
    """The regions of a sample that the provider claims to compile, as far as they read nothing but the sample's
    feeds."""
    answer, view = subject.ask(sample.model, device.provider)
    feeds = sample.feeds()
    for claim in answer.claims:
        if claim.kind is ClaimKind.COMPILE:
            region = view.region(claim.nodes)
            if all(value.name in feeds for value in region.inputs):
                yield region


def run_region(
    device: DeviceUnderTest, compiled: CompiledRegion, inputs: Sequence[str], outputs: int, feeds: Mapping[str, Any]
) -> list[Any]:
    """Outputs of one run, on the host.

    Args:
        device: The provider it is of, and where its arrays are; its stream is the current one.
    """
    on_host = device.device == HOST
    instance = compiled.instantiate(FrameResources(device.stream))
    try:
        device.provider.on_run_start()
        given = [feeds[name] if on_host else device.to_device(feeds[name]) for name in inputs]
        instance.bind(given, [None] * outputs)
        found = [np.array(array if on_host else device.to_host(array)) for array in instance()]
        device.provider.on_run_end()
    finally:
        instance.close()
    return found


def write_arrays(file: Path, arrays: Mapping[str, Any]) -> None:
    """Keep arrays under their names."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    file.write_bytes(helper.make_graph([], "arrays", [], [], tensors).SerializeToString())


def read_arrays(file: Path) -> dict[str, Any]:
    """Read the arrays that `write_arrays` kept, in its order."""
    tensors = onnx.GraphProto.FromString(file.read_bytes()).initializer
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
