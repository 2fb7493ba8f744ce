"""`python -m benchmarks.xnnpack [NAME …] [--threads N]`: the provider beside XNNPACK itself, and beside others.

*Bare* is the library running what the session's regions run: the same descriptions without the sums that look for NaN,
made with the same binding, on arrays that stay where they are. *Ours* is a whole run of a session that names XNNPACK;
what NumPy's kernels run of the model is in it, and not in *bare*. *Default* is a session that names no provider. All
take turns in one process; of one thread the processor's time counts, which other programs do not lengthen.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import ort_py as ort
from benchmarks.providers import PICTURES, chosen_models
from benchmarks.quantised import MODELS as QUANTISED
from ort_py_xnnpack.binding.memory import roomy
from ort_py_xnnpack.binding.workspace import Workspaces
from ort_py_xnnpack.execution.instance import XnnpackInstance
from ort_py_xnnpack.execution.region import XnnpackRegion

__all__ = ["MODELS", "main"]

STORED = "vgg19-stored"
MODELS = (
    *PICTURES,
    STORED,
    "magika",
    "resnet50-qdq",
    "resnet50-qdq-s8",
    "resnet50-qlinear",
    "squeezenet-qdq",
    "shufflenet-qdq",
)
"""Models of float32, and those of 8 bits: between conversions, and of QLinear operators. The file of light-vgg19 has
nodes that make its weights, of which a session folds 256 MiB (`Limits`); `STORED` has the same weights in the file."""

PROVIDER = "XnnpackExecutionProvider"
_ALLOWED = 1.1
"""A model is within bounds where a session takes at most this much longer than the library."""
Feeds = Mapping[str, Any]


class _Part(NamedTuple):
    """A region, and the arrays that it read in a run."""

    region: XnnpackRegion
    inputs: tuple[np.ndarray[Any, Any], ...]


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured, then how many are within bounds."""
    parser = argparse.ArgumentParser(prog="benchmarks.xnnpack", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models of the catalogue, or of {', '.join(MODELS)}; all of those")
    parser.add_argument("--threads", type=int, default=1, help="threads of all (1)")
    parser.add_argument("--blocks", type=int, default=9, help="blocks of each (9)")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds of a block (0.3)")
    chosen = parser.parse_args(arguments)
    columns = (("bare ms", 8), ("ours", 8), ("default", 8), ("ort", 8), ("/bare", 6), ("/default", 8), ("/ort", 6))
    print(f"{'model':20} {' '.join(f'{title:>{width}}' for title, width in columns)}  regions, nodes elsewhere")
    within = measured = 0
    for name, model, feeds in _chosen(chosen.names or MODELS):
        measured += 1
        within += _row(name, model, feeds, chosen.threads, chosen.blocks, chosen.seconds)
    print(f"{within} of {measured} take at most {_ALLOWED} times as long as the library, {chosen.threads} thread(s)")
    return 0


def _chosen(names: Sequence[str]) -> Iterator[tuple[str, Path, Feeds]]:
    for name in names:
        if name in QUANTISED:
            yield name, *QUANTISED[name]()
        elif name == STORED:
            for _, model, feeds in chosen_models(["light-vgg19"]):
                with tempfile.TemporaryDirectory() as folder:
                    yield name, _stored(Path(model), Path(folder) / "vgg19.onnx"), feeds
        else:
            for found, model, feeds in chosen_models([name]):
                yield found, Path(model), feeds


def _stored(model: Path, target: Path) -> Path:
    """Write a model whose weights are constants instead of ConstantOfShape; returns the target."""
    made = onnx.load(str(model))
    known = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    others = []
    for node in made.graph.node:
        if node.op_type == "ConstantOfShape":
            number = numpy_helper.to_array(node.attribute[0].t) if node.attribute else np.zeros(1, np.float32)
            weights = np.full(known[node.input[0]], number.item(), number.dtype)
            made.graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
        else:
            others.append(node)
    del made.graph.node[:]
    made.graph.node.extend(others)
    onnx.save(made, str(target))
    return target


def _row(name: str, model: Path, feeds: Feeds, threads: int, blocks: int, seconds: float) -> bool:
    parts: list[_Part] = []
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    theirs = onnxruntime.SessionOptions()
    theirs.intra_op_num_threads = threads
    with (
        ort.InferenceSession(str(model), options, providers=[PROVIDER, "CPUExecutionProvider"]) as ours,
        ort.InferenceSession(str(model), options) as usual,
    ):
        peer = onnxruntime.InferenceSession(str(model), theirs, providers=["CPUExecutionProvider"])
        with _Watched(parts):
            ours.run(None, dict(feeds))
        counts = ours.placement.counts()
        work: list[Callable[[], Any]] = [
            _bare(parts, threads),
            lambda: ours.run(None, dict(feeds)),
            lambda: usual.run(None, dict(feeds)),
            lambda: peer.run(None, dict(feeds)),
        ]
        times = [statistics.median(one) for one in _timed(work, threads, blocks, seconds)]
        declined = ", declined" if "declined" in ours.plan else ""
    bare, own, default, ort_time = times
    within = own <= bare * _ALLOWED
    elsewhere = sum(counts.values()) - counts.get(PROVIDER, 0)
    print(
        f"{name:20} {' '.join(f'{one * 1e3:8.3f}' for one in times)} {own / bare:6.2f} {own / default:8.2f} "
        f"{own / ort_time:6.2f}  {len(parts)}, {elsewhere}{declined}{'' if within else '  over'}",
        flush=True,
    )
    return within


class _Watched:
    """Notes what regions read, while it is entered."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts
        self._bind = XnnpackInstance.bind

    def __enter__(self) -> None:
        bind, parts = self._bind, self._parts

        def noted(self: XnnpackInstance, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
            parts.append(_Part(self._region, tuple(np.array(one) for one in inputs)))
            bind(self, inputs, outputs)

        XnnpackInstance.bind = noted  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        XnnpackInstance.bind = self._bind  # type: ignore[method-assign]


def _bare(parts: Sequence[_Part], threads: int) -> Callable[[], None]:
    """A function that runs the regions one after the other, as the library would by itself."""
    forms, kept = [], []
    for region, inputs in parts:
        watches, region._watches = region._watches, False
        form = region._made(tuple(one.shape for one in inputs), threads, Workspaces(region._library).first())
        region._watches = watches
        arrays = [roomy(one.shape, one.dtype) for one in inputs]
        for array, one in zip(arrays, inputs, strict=True):
            array[...] = one
        arrays += [roomy(shape, dtype) for shape, dtype in zip(form.outputs, region.dtypes, strict=True)]
        form.runtime.set_up([one.ctypes.data for one in arrays] + form.flag_address)
        forms.append(form)
        kept.append(arrays)

    def run() -> None:
        for form in forms:
            form.runtime.run()
        assert kept

    return run


def _timed(work: Sequence[Callable[[], Any]], threads: int, blocks: int, seconds: float) -> Sequence[Sequence[float]]:
    """Seconds of a call, of each in turn and in each block."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    found: list[list[float]] = [[] for _ in work]
    for one in work:
        one()
    for block in range(blocks):
        for place in range(len(work)) if block % 2 == 0 else reversed(range(len(work))):
            count, begin, now = 0, clock(), clock()
            while now < begin + seconds or count < 3:
                work[place]()
                count, now = count + 1, clock()
            found[place].append((now - begin) / count)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
