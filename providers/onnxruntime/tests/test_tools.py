"""onnxruntime's own tools where `import onnxruntime` gives ort-py: what they write is what onnxruntime alone makes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

PROGRAM = """
import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.capi._pybind_state import quantize_matmul_4bits

assert hasattr(onnxruntime, "get_installed_providers") == (sys.argv[2] == "ours")
folder = Path(sys.argv[1])


class Pictures(quantization.CalibrationDataReader):
    def __init__(self):
        random = np.random.default_rng(0)
        self.left = [{"x": random.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


for method in ("MinMax", "Entropy"):
    chosen = getattr(quantization.CalibrationMethod, method)
    to = str(folder / f"static-{method}.onnx")
    quantization.quantize_static(str(folder.parent / "network.onnx"), to, Pictures(), calibrate_method=chosen)
text = str(folder.parent / "transformer.onnx")
quantization.quantize_dynamic(text, str(folder / "dynamic.onnx"))
ready = str(folder / "preprocessed.onnx")
quantization.quant_pre_process(str(folder.parent / "network.onnx"), ready, skip_symbolic_shape=True)
if importlib.util.find_spec("sympy"):
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(text, "bert", 1, 64, opt_level=0).save_model_to_file(str(folder / "optimised.onnx"))

if importlib.util.find_spec("onnx_ir"):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    import onnx

    quantizer = MatMulNBitsQuantizer(onnx.load(text), block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(folder / "nbits.onnx"))

weight = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)

packed, scales, zeros = np.zeros((32, 2, 16), np.uint8), np.zeros(64, np.float32), np.zeros((32, 1), np.uint8)
quantize_matmul_4bits(packed, weight, scales, zeros, 32, 32, 64, True)
np.savez(folder / "packed.npz", packed=packed, scales=scales)
"""
NETWORK = """<ir_version: 8, opset_import: ["": 17]> g (float[1, 3, 16, 16] x) => (float[1, 10] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1) b = Relu(a) c = Conv <pads = [1, 1, 1, 1]> (b, w2) d = Relu(c)
    e = GlobalAveragePool(d) f = Flatten(e) y = MatMul(f, w3)
}"""
TRANSFORMER = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 64] x) => (float[N, 64] y) {
    q = MatMul(x, w1) k = MatMul(x, w2) t = Transpose <perm = [1, 0]> (k) s = MatMul(q, t)
    p = Softmax <axis = -1> (s) o = MatMul(p, x) y = MatMul(o, w3)
}"""
FUSED = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 64] x) => (float[N, 64] y) {
    half = Constant <value = float {0.5}> () one = Constant <value = float {1}> ()
    root = Constant <value = float {1.4142135}> ()
    a = MatMul(x, w1) b = Div(a, root) c = Erf(b) d = Add(c, one) e = Mul(a, d) f = Mul(e, half) h = MatMul(f, w2)
    i = Identity(h) j = Transpose <perm = [1, 0]> (i) k = Transpose <perm = [1, 0]> (j) y = MatMul(k, w3)
}"""
"""Nodes of a Gelu, and some that do nothing."""

NEEDED = {"optimised": "sympy", "nbits": "onnx_ir"}
"""Packages that tools need besides onnxruntime. `tests/packaging` makes an environment that has them."""


def _write(file: Path, text: str, *shapes: tuple[int, ...]) -> None:
    """A model with random weights w1, w2, …"""
    model, random = onnx.parser.parse_model(text), np.random.default_rng(0)
    for number, shape in enumerate(shapes, 1):
        array = (random.standard_normal(shape) / 8).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, f"w{number}"))
    for place, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{place}"
    onnx.save(model, file)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with what the program wrote: with ort-py under onnxruntime's name, and with onnxruntime."""
    root = tmp_path_factory.mktemp("tools")
    _write(root / "network.onnx", NETWORK, (8, 3, 3, 3), (16, 8, 3, 3), (16, 10))
    _write(root / "transformer.onnx", TRANSFORMER, (64, 64), (64, 64), (64, 64))
    program = root / "program.py"
    program.write_text(PROGRAM)
    folders = {}
    for name, module in (("ours", ["-m", "ort_py.as_onnxruntime"]), ("theirs", [])):
        folders[name] = root / name
        folders[name].mkdir()
        command = [sys.executable, *module, str(program), str(folders[name]), name]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folders


@pytest.mark.parametrize("name", ["static-MinMax", "static-Entropy", "dynamic", "preprocessed", "optimised", "nbits"])
def test_models_are_equal_node_for_node(written: dict[str, Path], name: str) -> None:
    """Weights to the last bit; what was calibrated as close as activations are."""
    needed = NEEDED.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"this tool of onnxruntime's needs {needed}, which is not installed")
    ours, theirs = (onnx.load(written[side] / f"{name}.onnx") for side in ("ours", "theirs"))
    for node in (*ours.graph.node, *theirs.graph.node):
        node.domain = node.domain  # written or not where it is empty, which means the same
    assert list(ours.graph.node) == list(theirs.graph.node)
    assert [one.name for one in ours.graph.initializer] == [one.name for one in theirs.graph.initializer]
    for left, right in zip(ours.graph.initializer, theirs.graph.initializer, strict=True):
        one, other = numpy_helper.to_array(left), numpy_helper.to_array(right)
        if one.dtype == np.float32 and left.name.endswith("_scale"):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


def test_native_functions_write_the_same(written: dict[str, Path]) -> None:
    """NumPy does it where ort-py has onnxruntime's name; `test_weight_blocks` has all of them."""
    ours, theirs = (np.load(written[side] / "packed.npz") for side in ("ours", "theirs"))
    assert ours["packed"].any()
    for name in ("packed", "scales"):
        np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        ("quantization.preprocess", "--skip_symbolic_shape True --input {source} --output {target}"),
        ("tools.optimize_onnx_model", "--opt_level extended {source} {target}"),
    ],
)
@pytest.mark.parametrize("text", [NETWORK, TRANSFORMER, FUSED], ids=["network", "transformer", "fused"])
def test_tools_are_programs_too(tmp_path: Path, tool: str, options: str, text: str) -> None:
    """The models that they write are onnxruntime's to the last byte: its own optimiser made them."""
    shapes = [(8, 3, 3, 3), (16, 8, 3, 3), (16, 10)] if text == NETWORK else [(64, 64), (64, 64), (64, 64)]
    _write(tmp_path / "model.onnx", text, *shapes)
    written = []
    for name, module in (("ours", ["-m", "ort_py.as_onnxruntime"]), ("theirs", [])):
        target = tmp_path / f"{name}.onnx"
        arguments = options.format(source=tmp_path / "model.onnx", target=target).split()
        command = [sys.executable, *module, "-m", f"onnxruntime.{tool}", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        written.append(target.read_bytes())
    assert written[0] == written[1]
