"""IOBinding and runs with values, on both runtimes: the same results and the same kinds of refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py import BindingError, IOBinding, OrtValue, SessionIOBinding, UsageError
from tests.drop_in.both_runtimes import Case, expect_agreement, expect_difference, session

PAIR = "g (float[N, 3] x, float[N, 3] y) => (float[N, 3] a, float[N, 3] b) { a = Add(x, y) b = Sub(x, y) }"
STRINGS = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
NONZERO = "g (float[N] x) => (int64[?, ?] y) { y = NonZero(x) }"
WEIGHTED = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }"
PAIR_LIST = "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct(x, x) }"
OPTIONAL = "g (optional(float[N]) x) => (bool y) { y = OptionalHasElement(x) }"


def xy(rows: int = 2) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two small matrices."""
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    return x, x * x


class Bound:
    """A session of `PAIR` and a binding with both inputs bound."""

    def __init__(self, runtime: Any, *outputs: str) -> None:
        self.session = session(runtime, PAIR)
        self.binding = self.session.io_binding()
        self.x, self.y = xy()
        self.binding.bind_cpu_input("x", self.x)
        self.binding.bind_cpu_input("y", self.y)
        for name in outputs:
            self.binding.bind_output(name)

    def run(self) -> list[Any]:
        """Run, and copy what came out."""
        self.session.run_with_iobinding(self.binding)
        return list(self.binding.copy_outputs_to_cpu())


def values_of(binding: Any) -> list[Any]:
    """The bound outputs as arrays."""
    return [value.numpy().copy() for value in binding.get_outputs()]


def edited_input(ort: Any) -> Any:
    bound = Bound(ort, "a")
    bound.run()
    bound.x[:] = 100
    return bound.run()


def order_of_outputs(ort: Any) -> Any:
    bound = Bound(ort, "b", "a")
    first = bound.run()
    bound.binding.bind_output("b")
    return first, bound.run(), values_of(bound.binding)


def sticky_buffer(ort: Any) -> Any:
    bound = Bound(ort, "a")
    bound.run()
    address, held = bound.binding.get_outputs()[0].data_ptr(), bound.binding.get_outputs()[0]
    bound.x[:] = 7
    bound.run()
    return bound.binding.get_outputs()[0].data_ptr() == address, held.numpy().copy()


def rebound_outputs(ort: Any) -> Any:
    bound = Bound(ort, "a")
    bound.run()
    for name, array in zip("xy", xy(5), strict=True):
        bound.binding.bind_cpu_input(name, array)
    bound.binding.bind_output("a")
    return bound.run()


def buffer_of_output(
    ort: Any, shape: tuple[int, ...] = (2, 3), dtype: Any = np.float32, element_type: Any = None
) -> Any:
    bound, buffer = Bound(ort), np.zeros((2, 3), np.float32)
    bound.binding.bind_output("a", "cpu", 0, dtype if element_type is None else element_type, shape, buffer.ctypes.data)
    bound.session.run_with_iobinding(bound.binding)
    same = bound.binding.get_outputs()[0].data_ptr() == buffer.ctypes.data
    return buffer, same


def buffer_of_input(ort: Any, device: str = "cpu", element_type: Any = np.float32, shape: Any = (2, 3)) -> Any:
    bound, (x, _) = Bound(ort, "a"), xy()
    x += 1
    bound.binding.bind_input("x", device, 0, element_type, shape, x.ctypes.data)
    first = bound.run()
    x += 1
    return first, bound.run()


def value_bindings(ort: Any) -> Any:
    found, (x, y) = session(ort, PAIR), xy()
    binding = found.io_binding()
    inputs = [ort.OrtValue.ortvalue_from_numpy(array) for array in (x, y)]
    binding.bind_ortvalue_input("x", inputs[0])
    binding.bind_ortvalue_input("y", inputs[1])
    target = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_output("b", target)
    found.run_with_iobinding(binding)
    first = target.numpy().copy()
    inputs[0].update_inplace(np.full((2, 3), 9, np.float32))
    found.run_with_iobinding(binding)
    return first, target.numpy().copy(), binding.get_outputs()[0].data_ptr() == target.data_ptr()


def value_output(ort: Any, shape: list[int], dtype: Any) -> Any:
    bound = Bound(ort)
    bound.binding.bind_ortvalue_output("a", ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype))
    return bound.run()


def with_input(ort: Any, value: Any) -> Any:
    bound = Bound(ort, "a")
    bound.binding.bind_cpu_input("x", value)
    return bound.run()


def cleared(ort: Any, what: str) -> Any:
    bound = Bound(ort, "a")
    bound.run()
    getattr(bound.binding, f"clear_binding_{what}")()
    return bound.run()


def cleared_and_bound_again(ort: Any) -> Any:
    bound = Bound(ort, "a")
    bound.run()
    bound.binding.clear_binding_outputs()
    empty = len(bound.binding.get_outputs())
    bound.binding.bind_output("b")
    return empty, bound.run()


def other_session(ort: Any) -> Any:
    return session(ort, PAIR).run_with_iobinding(Bound(ort, "a").binding)


def sequences(ort: Any) -> Any:
    found = session(ort, PAIR_LIST)
    binding = found.io_binding()
    binding.bind_cpu_input("x", np.ones(2, np.float32))
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    value = binding.get_outputs()[0]
    return value.data_type(), value.is_tensor_sequence(), value.is_tensor(), binding.copy_outputs_to_cpu()


def default_initializer(ort: Any) -> Any:
    found = session(ort, WEIGHTED)
    binding = found.io_binding()
    binding.bind_cpu_input("x", np.ones(2, np.float32))
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def fed_initializer(ort: Any) -> Any:
    found = session(ort, WEIGHTED)
    binding = found.io_binding()
    binding.bind_cpu_input("x", np.ones(2, np.float32))
    binding.bind_cpu_input("w", np.full(2, 5, np.float32))
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def unbound_optional(ort: Any) -> Any:
    found = session(ort, OPTIONAL)
    binding = found.io_binding()
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def terminated(ort: Any) -> Any:
    bound, options = Bound(ort, "a"), ort.RunOptions()
    options.terminate = True
    bound.session.run_with_iobinding(bound.binding, options)


def bound_strings(ort: Any, array: Any) -> Any:
    found = session(ort, STRINGS)
    binding = found.io_binding()
    binding.bind_cpu_input("x", array)
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def changing_shapes(ort: Any) -> Any:
    bound = Bound(ort, "a", "b")
    bound.run()
    for name, array in zip("xy", xy(5), strict=True):
        bound.binding.bind_cpu_input(name, array)
    return bound.run()


def data_dependent_shapes(ort: Any) -> Any:
    found = session(ort, NONZERO)
    binding = found.io_binding()
    binding.bind_output("y")
    results = []
    for feed in ([0, 1, 1], [0, 1, 0]):
        binding.bind_cpu_input("x", np.array(feed, np.float32))
        found.run_with_iobinding(binding)
        results.append(binding.copy_outputs_to_cpu())
    return results


def independent_copies(ort: Any) -> Any:
    bound = Bound(ort, "a")
    first = bound.run()
    bound.x[:] = 50
    bound.run()
    return first


def nothing_bound(ort: Any) -> Any:
    found = session(ort, PAIR)
    found.run_with_iobinding(found.io_binding())


def run_options_none(ort: Any) -> Any:
    bound = Bound(ort, "a")
    bound.session.run_with_iobinding(bound.binding, None)


def memory_infos(ort: Any) -> Any:
    found = session(ort, PAIR)
    names = ("name", "allocator_type", "device_id", "mem_type", "device_mem_type", "device_vendor_id")
    infos = [*found.get_input_memory_infos(), *found.get_output_memory_infos()]
    return [[getattr(info, name) for name in names] for info in infos]


AGREE: dict[str, Case] = {
    "names of the classes": lambda ort: [
        type(part).__name__ for part in (Bound(ort).binding, Bound(ort).binding._iobinding)
    ],
    "run": lambda ort: Bound(ort, "a").run(),
    "edits of a bound array are seen": edited_input,
    "outputs come in the order of binding, and keep it": order_of_outputs,
    "the buffer of a result is used again": sticky_buffer,
    "outputs bound anew take a new shape": rebound_outputs,
    "copies stay what they were": independent_copies,
    "output at an address": buffer_of_output,
    "output at an address, ONNX type": lambda ort: buffer_of_output(ort, element_type=1),
    "output at an address, wrong shape": lambda ort: buffer_of_output(ort, shape=(1, 3)),
    "output at an address, larger": lambda ort: buffer_of_output(ort, shape=(1, 6)),
    "output at an address, wrong type": lambda ort: buffer_of_output(ort, dtype=np.int32),
    "output at an address, no shape": lambda ort: Bound(ort).binding.bind_output("a", "cpu", 0, np.float32, None, 8),
    "output at an address, no type": lambda ort: Bound(ort).binding.bind_output("a", "cpu", 0, None, [2], 8),
    "shape without address": lambda ort: Bound(ort).binding.bind_output("a", "cpu", 0, np.float32, [2]),
    "output on an unknown device": lambda ort: Bound(ort).binding.bind_output("a", "nowhere"),
    "output on another device is bound": lambda ort: Bound(ort).binding.bind_output("a", "cuda", 0),
    "input at an address": buffer_of_input,
    "input at an address, ONNX type": lambda ort: buffer_of_input(ort, element_type=1),
    "input at an address, list shape": lambda ort: buffer_of_input(ort, shape=[2, 3]),
    "input at an address, strings": lambda ort: buffer_of_input(ort, element_type=np.str_),
    "input at an address, negative size": lambda ort: buffer_of_input(ort, shape=[-2, 3]),
    "input at an address, wrong rank": lambda ort: buffer_of_input(ort, shape=[6]),
    "input on another device": lambda ort: buffer_of_input(ort, device="cuda"),
    "input on an unknown device": lambda ort: buffer_of_input(ort, device="nowhere"),
    "input at None": lambda ort: Bound(ort).binding.bind_input("x", "cpu", 0, np.float32, [2, 3], None),
    "input at an address, no such input": lambda ort: Bound(ort).binding.bind_input("z", "cpu", 0, 1, [2], 8),
    "values": value_bindings,
    "value of a wrong shape for an output": lambda ort: value_output(ort, [5, 3], np.float32),
    "value of a wrong type for an output": lambda ort: value_output(ort, [2, 3], np.float64),
    "value for no input": lambda ort: Bound(ort).binding.bind_ortvalue_input(
        "z", ort.OrtValue.ortvalue_from_numpy(np.ones(2))
    ),
    "value for an output nobody has": lambda ort: Bound(ort).binding.bind_ortvalue_output(
        "z", ort.OrtValue.ortvalue_from_numpy(np.ones(2))
    ),
    "a list": lambda ort: with_input(ort, [1.0]),
    "a NumPy scalar": lambda ort: with_input(ort, np.float32(1)),
    "strided array": lambda ort: with_input(ort, np.arange(6, dtype=np.float32).reshape(3, 2).T),
    "no such input": lambda ort: Bound(ort).binding.bind_cpu_input("z", np.ones(2)),
    "no such output, at the binding": lambda ort: Bound(ort).binding.bind_output("z"),
    "no such output, at the run": lambda ort: Bound(ort, "z").run(),
    "wrong type, at the binding": lambda ort: Bound(ort).binding.bind_cpu_input("x", np.ones((2, 3))),
    "wrong type, at the run": lambda ort: with_input(ort, np.ones((2, 3))),
    "wrong rank, at the run": lambda ort: with_input(ort, np.ones(3, np.float32)),
    "nothing bound": nothing_bound,
    "no output bound": lambda ort: Bound(ort).run(),
    "outputs cleared": lambda ort: cleared(ort, "outputs"),
    "outputs cleared and bound": cleared_and_bound_again,
    "binding of another session": other_session,
    "sequences": sequences,
    "an overridable initializer is not bound": default_initializer,
    "an optional input is not bound": unbound_optional,
    "terminated": terminated,
    "run options None": run_options_none,
    "waiting": lambda ort: [Bound(ort).binding.synchronize_inputs(), Bound(ort).binding.synchronize_outputs()],
    "memory of inputs and outputs": memory_infos,
    "no binding": lambda ort: session(ort, PAIR).run_with_iobinding(3),
    "an array where a value belongs": lambda ort: Bound(ort).binding.bind_ortvalue_input("x", xy()[0]),
}


@pytest.mark.parametrize("name", AGREE)
def test_bindings_are_those_of_onnxruntime(name: str) -> None:
    """The same results, the same kinds of refusal at the same place."""
    expect_agreement(AGREE[name])


X, Y = xy()
DIFFER: dict[str, tuple[Case, Any, str]] = {
    "a new shape without binding again": (changing_shapes, [sum(xy(5)), xy(5)[0] - xy(5)[1]], "reruns take new shapes"),
    "a shape that depends on data": (
        data_dependent_shapes,
        [[np.array([[1, 2]])], [np.array([[1]])]],
        "reruns take new shapes",
    ),
    "strings": (
        lambda ort: bound_strings(ort, np.array(["a", "b"])),
        [np.array(["a", "b"], object)],
        "every ONNX type can be bound",
    ),
    "an overridable initializer": (fed_initializer, [np.full(2, 5, np.float32)], "what may be fed may be bound"),
    "input at null": (
        lambda ort: Bound(ort).binding.bind_input("x", "cpu", 0, np.float32, [2, 3], 0),
        UsageError,
        "onnxruntime crashes in the run",
    ),
}


@pytest.mark.parametrize("name", DIFFER)
def test_deliberate_differences_of_bindings(name: str) -> None:
    """Bindings that onnxruntime refuses or leaves to chance work here, or are refused by a clearer class."""
    case, expected, _reason = DIFFER[name]
    expect_difference(case, expected)


def run_with_values(ort: Any, names: Any, **feed: Any) -> Any:
    """`run_with_ort_values` of `PAIR` with arrays made into values."""
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
    found = session(ort, PAIR).run_with_ort_values(names, values)
    return [[type(value).__name__, value.data_type(), value.numpy()] for value in found]


def run_vectors(ort: Any, fetch_names: list[str], given: Any = None) -> Any:
    """`run_with_ortvaluevector` of `PAIR`."""
    feeds, fetches = vector(ort), vector(ort)
    for array in xy():
        feeds.push_back(ort.OrtValue.ortvalue_from_numpy(array)._ortvalue)
    target = None
    if given is not None:
        target = ort.OrtValue.ortvalue_from_numpy(given)
        fetches.push_back(target._ortvalue)
    devices = [ort.OrtDevice.make("cpu", 0)._get_c_device()] * len(fetch_names)
    session(ort, PAIR).run_with_ortvaluevector(ort.RunOptions(), ["x", "y"], feeds, fetch_names, fetches, devices)
    return [value.numpy().copy() for value in fetches], None if target is None else target.numpy().copy()


def vector(ort: Any) -> Any:
    """An empty vector of values."""
    if ort is ort_py:
        from ort_py.values.vector import OrtValueVector

        return OrtValueVector()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return state.OrtValueVector()


VALUE_RUNS: dict[str, Case] = {
    "all outputs": lambda ort: run_with_values(ort, None, x=X, y=Y),
    "no names are all outputs": lambda ort: run_with_values(ort, [], x=X, y=Y),
    "in the order asked for": lambda ort: run_with_values(ort, ["b", "a"], x=X, y=Y),
    "missing input": lambda ort: run_with_values(ort, None, x=X),
    "no such input": lambda ort: run_with_values(ort, None, x=X, y=Y, z=X),
    "no such output": lambda ort: run_with_values(ort, ["q"], x=X, y=Y),
    "one name as a text": lambda ort: run_with_values(ort, "a", x=X, y=Y),
    "wrong type": lambda ort: run_with_values(ort, None, x=X.astype(np.float64), y=Y),
    "vectors": lambda ort: run_vectors(ort, ["a", "b"]),
    "vectors with a buffer": lambda ort: run_vectors(ort, ["b"], np.zeros((2, 3), np.float32)),
    "vectors, no such output": lambda ort: run_vectors(ort, ["q"]),
    "lists for vectors": lambda ort: session(ort, PAIR).run_with_ortvaluevector(
        ort.RunOptions(), ["x"], [], ["a"], [], []
    ),
    "a value of the session": lambda ort: (
        session(ort, PAIR).create_ortvalue_from_shape_and_type([2], np.float32, "cpu").shape()
    ),
    "a value of the session, no device said": lambda ort: session(ort, PAIR).create_ortvalue_from_shape_and_type(
        [2], 1
    ),
    "a value of the session on another device": lambda ort: session(ort, PAIR).create_ortvalue_from_shape_and_type(
        [2], np.float32, "cuda"
    ),
}


@pytest.mark.parametrize("name", VALUE_RUNS)
def test_runs_with_values_are_those_of_onnxruntime(name: str) -> None:
    expect_agreement(VALUE_RUNS[name])


def test_a_buffer_may_be_input_and_output() -> None:
    """A value that is both is read before it is written, however often the model runs."""
    found = session(ort_py, "g (float[3] x) => (float[3] y) { y = Add(x, x) }")
    state = OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))
    binding = found.io_binding()
    binding.bind_ortvalue_input("x", state)
    binding.bind_ortvalue_output("y", state)
    for _ in range(3):
        found.run_with_iobinding(binding)
    assert state.numpy().tolist() == [8, 8, 8]


def test_no_buffer_is_written_when_one_does_not_fit() -> None:
    """A run that fails for one output leaves the memory of the others as it was."""
    bound = Bound(ort_py)
    good = OrtValue.ortvalue_from_numpy(np.full((2, 3), -1, np.float32))
    bound.binding.bind_ortvalue_output("a", good)
    bound.binding.bind_ortvalue_output("b", OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32))
    with pytest.raises(
        BindingError, match=r"bound to output 'b' does not fit.*\n.*\n.*float \[1, 3\]; result: float \[2, 3\]"
    ):
        bound.run()
    assert (good.numpy() == -1).all()


def test_read_only_memory_cannot_be_an_output() -> None:
    """Memory that must not change is refused when it is bound."""
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        Bound(ort_py).binding.bind_ortvalue_output("a", OrtValue.ortvalue_from_numpy(array))


def test_packed_types_at_an_address_are_refused() -> None:
    """A packed buffer is not read as if it had a byte an element."""
    found = session(ort_py, "g (int4[N] x) => (int4[N] y) { y = Identity(x) }")
    with pytest.raises(UsageError, match="cannot hold int4"):
        found.io_binding().bind_input("x", "cpu", 0, 22, [4], 8)


def test_results_are_empty_before_a_run() -> None:
    """Asking early is answered: onnxruntime crashes here."""
    binding = Bound(ort_py, "a").binding
    assert [value.has_value() for value in binding.get_outputs()] == [False]
    assert binding.copy_outputs_to_cpu() == [None]


def test_failures_keep_their_cause() -> None:
    """The exception that `run` raises is the cause, with its place in the model."""
    with pytest.raises(BindingError, match="Error in execution") as caught:
        with_input(ort_py, np.ones((2, 3)))
    assert isinstance(caught.value.__cause__, ort_py.InvalidArgument)
    assert caught.value.location.value == "x"


def test_names_are_suggested() -> None:
    """A misspelled input is refused with the closest name."""
    binding = session(ort_py, "g (float[N] pixels) => (float[N] y) { y = Relu(pixels) }").io_binding()
    with pytest.raises(UsageError, match="Did you mean 'pixels'"):
        binding.bind_cpu_input("pixel", X)


def test_a_binding_says_what_is_bound() -> None:
    """The representation names inputs and outputs."""
    assert repr(Bound(ort_py, "b").binding) == "<IOBinding: inputs x, y; outputs b>"


def test_the_raw_binding_can_be_made() -> None:
    """Applications that go below the Python class find the class of the same name."""
    found = session(ort_py, PAIR)
    assert isinstance(IOBinding(found)._iobinding, SessionIOBinding)
    assert isinstance(SessionIOBinding(found), SessionIOBinding)
