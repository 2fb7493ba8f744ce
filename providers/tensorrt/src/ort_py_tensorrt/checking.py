"""Whether the engines of a model can be loaded here, found without a session: `problems_of_model` and a command.

``python -m ort_py_tensorrt.checking MODEL`` prints a line for each engine. Looked at are the provider, the version of
its library and the checksum. Where there is a GPU, the library itself is asked whether an engine is for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda import availability as cuda
from ort_py_tensorrt.context_nodes import engine_in, problems
from ort_py_tensorrt.context_schema import DOMAIN, OPERATOR
from ort_py_tensorrt.toolkit import Toolkit, open_toolkit
from ort_py_tensorrt.variants import VARIANTS

__all__ = ["EngineReport", "check_model", "main"]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The verdict about one engine.

    Attributes:
        node: Name of its node.
        provider: Provider that it was written by.
        bytes: Its size; 0 if it is in a file that was not read.
        problems: Why it cannot be loaded; empty if nothing speaks against it.
        asked_device: Whether a GPU was asked.
    """

    node: str
    provider: str
    bytes: int
    problems: tuple[str, ...]
    asked_device: bool

    def __str__(self) -> str:
        verdict = "; ".join(self.problems) or (
            "valid" if self.asked_device else "valid, as far as is known without a GPU"
        )
        return f"{self.node}: {self.provider}, {self.bytes:,} bytes: {verdict}"


def check_model(model: str | Path | onnx.ModelProto) -> list[EngineReport]:
    """Look at every engine of a model. No session is made, and no engine is loaded.

    Args:
        model: The model, or its path, beside which files of engines are looked for.
    """
    folder = None if isinstance(model, onnx.ModelProto) else Path(model).parent
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(str(model), load_external_data=False)
    has_gpu = bool(cuda.examine())
    return [
        _report(node, folder, has_gpu=has_gpu)
        for node in proto.graph.node
        if node.op_type == OPERATOR and node.domain == DOMAIN
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the reports of models; returns 1 if an engine cannot be loaded."""
    reports = [report for path in arguments for report in check_model(path)]
    for report in reports:
        sys.stdout.write(f"{report}\n")
    return 1 if any(report.problems for report in reports) else 0


def _report(node: onnx.NodeProto, folder: Path | None, *, has_gpu: bool) -> EngineReport:
    attributes: dict[str, Any] = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    source = attributes.get("source", b"").decode("utf-8", "replace")
    engine, unread = b"", list[str]()
    if attributes.get("embed_mode", 1) or folder is not None:
        try:
            engine = engine_in(attributes, folder or Path())
        except EPFail as error:
            unread.append(error.what)
    variant = next((one for one in VARIANTS if one.provider == source), None)
    if variant is None:
        return EngineReport(node.name, source, len(engine), ("it is no engine of TensorRT or TensorRT-RTX",), False)
    try:
        toolkit = open_toolkit(variant)
    except EPFail as error:
        return EngineReport(node.name, source, len(engine), (error.what,), False)
    found = problems(attributes, toolkit) + unread
    asked = has_gpu and not found and bool(engine)
    if asked:
        found += _refusal_of_device(toolkit, engine)
    return EngineReport(node.name, source, len(engine), tuple(found), asked)


def _refusal_of_device(toolkit: Toolkit, engine: bytes) -> list[str]:
    """Return why the GPU that is current cannot run an engine, in the library's words."""
    with toolkit.errors() as errors:
        validity, diagnostics = toolkit.module.Runtime(toolkit.logger).get_engine_validity(engine)
    if validity != toolkit.module.EngineValidity.INVALID:
        return []
    return errors or [f"{toolkit.variant.title} calls it invalid (diagnostics {diagnostics})"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
