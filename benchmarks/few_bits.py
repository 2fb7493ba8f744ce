"""`python -m benchmarks.few_bits [--rows N …] [--blocks-of N …] [--threads N]`: weights of 4 bits, against onnxruntime.

MatMulNBits of 2048x2048 with any number of rows, so that a session may decode and prefill, at accuracy levels 0 (as
exact as float32) and 4 (numbers in 8 bits). Shown are milliseconds of the fastest runs, and bytes that ort-py holds for
a weight once it has done both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ort_py
from benchmarks.alternating import Refused, Runtimes, Timing

__all__ = ["main"]

_WIDE = 2048
_BITS = 4
_LEVELS = (0, 4)


def main(arguments: list[str]) -> int:
    """Print a row for each block size and level."""
    parser = argparse.ArgumentParser(prog="benchmarks.few_bits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 16, 64, 256], help="rows of a run")
    parser.add_argument("--blocks-of", type=int, nargs="+", default=[16, 32, 64, 128], help="rows that share a scale")
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of 0.3 s for each (4)")
    chosen = parser.parse_args(arguments)
    print(f"{'blocks':>7} {'level':>5} {'bytes':>6}", *(f"{rows:>15}" for rows in chosen.rows))
    with Runtimes(chosen.threads) as runtimes, tempfile.TemporaryDirectory() as folder:
        for size in chosen.blocks_of:
            for level in _LEVELS:
                model = _model(Path(folder) / f"{size}-{level}.onnx", size, level)
                cells = []
                for rows in chosen.rows:
                    ours, peer = runtimes.measure(model, {"x": _drawn(rows)}, chosen.blocks).values()
                    cells.append(f"{_milliseconds(ours)} / {_milliseconds(peer)}")
                held = _held(model, chosen.rows) / _WIDE**2
                print(f"{size:7} {level:5} {held:6.2f}", *(f"{cell:>15}" for cell in cells), flush=True)
    return 0


def _milliseconds(timing: Timing | Refused) -> str:
    return f"{timing.fastest * 1e3:.3f}" if isinstance(timing, Timing) else "refused"


def _drawn(rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(rows).standard_normal((rows, _WIDE)).astype(np.float32)


def _held(model: Path, rows: list[int]) -> int:
    """Bytes packed by a session that has met each number of rows."""
    with ort_py.InferenceSession(model) as session:
        for count in rows:
            session.run(None, {"x": _drawn(count)})
        return session.memory_report().packed


def _model(path: Path, size: int, level: int) -> Path:
    random = np.random.default_rng(size)
    count = _WIDE // size
    constants = {
        "b": random.integers(0, 256, (_WIDE, count, size * _BITS // 8), np.uint8),
        "s": random.uniform(0.001, 0.01, (_WIDE * count,)).astype(np.float32),
    }
    node = helper.make_node(
        "MatMulNBits",
        ["x", "b", "s"],
        ["y"],
        domain="com.microsoft",
        K=_WIDE,
        N=_WIDE,
        bits=_BITS,
        block_size=size,
        accuracy_level=level,
    )
    graph = helper.make_graph(
        [node],
        "few_bits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", _WIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", _WIDE])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
