"""The process of one runtime: opens models, and runs them for a while on request.

Started by `alternating`, which writes one JSON object a line to standard input and reads one from standard output for
each. A process of its own, because the spinning pools of two runtimes in one process falsify each other.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Bound", "main", "open_session"]


def open_session(
    runtime: str,
    model: str,
    threads: int,
    optimised: bool = True,
    precision: str = "float32",
    providers: list[str] | None = None,
    pin_cpu: bool = False,
) -> Any:
    """A session of a runtime with a number of threads, at its highest level of optimisation or at none.

    On the CPU, where no providers are named; an empty list leaves them to ort-py.
    """
    if runtime == "onnxruntime":
        import onnxruntime as runtime_module
    else:
        import ort_py as runtime_module
    options = runtime_module.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # some models make onnxruntime warn on each run
    if runtime != "onnxruntime":
        options.precision = precision
        options.pin_cpu = pin_cpu
    if not optimised:
        options.graph_optimization_level = runtime_module.GraphOptimizationLevel.ORT_DISABLE_ALL
    chosen = ["CPUExecutionProvider"] if providers is None else providers
    return runtime_module.InferenceSession(model, options, providers=chosen)


_HINTS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
"""OpenVINO's names of precisions."""


class _OpenVINO:
    """OpenVINO as a session: in the precision asked for, lowest latency, inputs and outputs bound once a set of shapes.

    A model with free dimensions is compiled for the first shapes that it is fed, where it is fed the same ones always.

    Args:
        model, threads, feeds, precision: As of any runtime.
        as_session: Do as ort-py's provider must: the model with its free dimensions, the same properties, and outputs
            that the next run does not overwrite.

    Raises:
        RuntimeError: OpenVINO is not installed, or cannot read the model.
    """

    def __init__(
        self, model: str, threads: int, feeds: dict[str, Any], precision: str, as_session: bool = False
    ) -> None:
        try:
            import openvino
        except ImportError as error:
            message = (
                "OpenVINO is not installed here: `pip install openvino`, or --openvino-python of a place that has it"
            )
            raise RuntimeError(message) from error
        core = openvino.Core()
        read = core.read_model(model)
        if not as_session and any(one.get_partial_shape().is_dynamic for one in read.inputs):
            read.reshape({one.get_any_name(): list(feeds[one.get_any_name()].shape) for one in read.inputs})
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[precision],
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        if precision == "float32":
            # Else it rounds what 8-bit weights are multiplied with to 8 bits, for an error of some percent.
            options["EXECUTION_MODE_HINT"] = "ACCURACY"
        if as_session:
            options |= {"NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
        self._request = core.compile_model(read, "CPU", options).create_infer_request()
        self._as_session = as_session
        contiguous = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        self._kept = {name: openvino.Tensor(array, shared_memory=True) for name, array in contiguous.items()}
        for name, tensor in self._kept.items():
            self._request.set_tensor(name, tensor)

    def run(self, _: None, feeds: dict[str, Any]) -> list[Any]:
        """One inference; outputs are the request's own memory, or copies."""
        self._request.infer()
        outputs = [self._request.get_output_tensor(place).data for place in range(len(self._request.model_outputs))]
        return [output.copy() for output in outputs] if self._as_session else outputs


class Bound:
    """A session whose inputs and outputs are bound once, in memory of the CPU.

    Args:
        session: Of onnxruntime or of ort-py.
        feeds: The inputs.
        shared: Outputs that are written over an input, by the output's name.

    Attributes:
        given: Copies of the inputs, which are bound.
        outputs: The arrays that are bound to the outputs.
    """

    def __init__(self, session: Any, feeds: dict[str, Any], shared: dict[str, str]) -> None:
        self._run, self._binding = session.run_with_iobinding, session.io_binding()
        given = {name: np.array(array, order="C") for name, array in feeds.items()}
        names = [output.name for output in session.get_outputs()]
        made = dict(zip(names, session.run(None, feeds), strict=True))
        self.outputs = [given[shared[name]] if name in shared else made[name] for name in names]
        for name, array in given.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in zip(names, self.outputs, strict=True):
            self._binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self.given = given  # the binding knows addresses only

    def run(self, _: None, __: dict[str, Any]) -> list[Any]:
        """One run; the outputs are those of the run before, with new contents."""
        self._run(self._binding)
        return self.outputs


class _Model:
    """The open model, its inputs, and what happened when it was opened."""

    def __init__(self, runtime: str, threads: int, request: dict[str, Any]) -> None:
        self._feeds = pickle.loads(
            Path(request["feeds"]).read_bytes()
        )  # written by our own parent process a moment ago
        start = time.perf_counter()
        if "device" in request:
            from benchmarks.gpu_runtimes import open_on_device

            self._session: Any = open_on_device(runtime, request["open"], self._feeds, request["device"])
        elif runtime == "openvino":
            self._session = _OpenVINO(
                request["open"],
                threads,
                self._feeds,
                request.get("precision", "float32"),
                request.get("as_session", False),
            )
        else:
            self._session = open_session(
                runtime,
                request["open"],
                threads,
                request["optimised"],
                request.get("precision", "float32"),
                request.get("providers"),
                request.get("pin_cpu", False),
            )
            if "bound" in request:
                self._session = Bound(self._session, self._feeds, request["bound"])
        self.created = time.perf_counter() - start
        self.worked = float("inf")  # the least processor time of a run: what others do does not lengthen it
        outputs = self._session.run(None, self._feeds)
        if "device" in request:  # timed runs leave them there
            outputs = self._session.on_host()
        Path(request["outputs"]).write_bytes(pickle.dumps(outputs))

    def run(self, seconds: float) -> list[float]:
        """Seconds of each run in a block."""
        session, feeds = self._session, self._feeds
        until = time.perf_counter() + seconds
        runs: list[float] = []
        while not runs or time.perf_counter() < until:
            worked, start = time.process_time(), time.perf_counter()
            session.run(None, feeds)
            runs.append(time.perf_counter() - start)
            self.worked = min(self.worked, time.process_time() - worked)
        return runs

    def stream(self, file: str) -> list[float]:
        """Seconds of each run of a stream: its feeds one after the other, some of them outputs of the run before."""
        runs, carried = pickle.loads(Path(file).read_bytes())  # written by our own parent process a moment ago
        names = [output.name for output in self._session.get_outputs()]
        found: list[float] = []
        state: dict[str, Any] = {}
        for feeds in runs:
            given = feeds | state
            start = time.perf_counter()
            outputs = self._session.run(None, given)
            found.append(time.perf_counter() - start)
            by_name = dict(zip(names, outputs, strict=True))
            state = {one: by_name[other] for one, other in carried.items()}
        return found


def main(runtime: str, threads: int) -> int:
    """Answer ``{"open": model, "feeds": file, "outputs": file, "optimised": bool, "precision": name}``,
    ``{"run": seconds}`` and ``{"stream": file}`` until the input ends. ``{"open": …, "bound": {output: input}}`` binds
    inputs and outputs, some of them over inputs.

    The answers are ``{"created": seconds}`` or ``{"refused": why}``, and ``{"runs": [seconds, …], "worked": seconds}``.
    """
    model: _Model | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        if "open" in request:
            model = None  # before the next one takes memory
            try:
                model = _Model(runtime, threads, request)
                answer = {"created": model.created}
            except Exception as error:  # whatever a runtime raises for a model it cannot run
                answer = {"refused": f"{type(error).__name__}: {error}"}
        else:
            assert model is not None, "no model was opened"
            runs = model.stream(request["stream"]) if "stream" in request else model.run(request["run"])
            answer = {"runs": runs, "worked": model.worked}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
