"""Optimum's two commands where `import onnxruntime` gives ort-py: what they write is what onnxruntime alone makes.

Skipped where Optimum is not installed: `tests/packaging` makes an environment that has it, and torch, which it needs.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

pytest.importorskip("optimum.onnxruntime", reason="optimum-onnx is not installed")

pytestmark = pytest.mark.nightly

COMMANDS = {
    "quantized": ["quantize", "--avx2"],
    "quantized per channel": ["quantize", "--avx512_vnni", "--per_channel"],
    "optimized by onnxruntime": ["optimize", "-O1"],
    "fused": ["optimize", "-O2"],
    "fused, with another Gelu": ["optimize", "-O3"],
}


def _command(*arguments: Any, alias: bool = False) -> None:
    """Run Optimum's program, which asks no hub."""
    module = ["-m", "ort_py.as_onnxruntime"] if alias else []
    command = [sys.executable, *module, "-m", "optimum.commands.optimum_cli", *map(str, arguments)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a small BERT as Optimum exports it."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 200,
        "max_position_embeddings": 64,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
    model.eval().save_pretrained(folder / "torch")
    _command("export", "onnx", "-m", folder / "torch", "--task", "text-classification", folder / "onnx")
    return folder / "onnx"


@pytest.mark.parametrize("name", COMMANDS)
def test_models_are_equal_to_the_last_byte(exported: Path, tmp_path: Path, name: str) -> None:
    (command, *options), written = COMMANDS[name], []
    for alias in (True, False):
        folder = tmp_path / ("ours" if alias else "theirs")
        _command("onnxruntime", command, "--onnx_model", exported, "-o", folder, *options, alias=alias)
        (file,) = folder.glob("*.onnx")
        written.append(file)
    ours, theirs = written
    assert ours.read_bytes() == theirs.read_bytes()
    before = onnx.load(exported / "model.onnx", load_external_data=False)
    assert len(onnx.load(ours).graph.node) != len(before.graph.node)
