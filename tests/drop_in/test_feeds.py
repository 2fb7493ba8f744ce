"""Inputs and outputs of `run`, on both runtimes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ort_py
from ort_py import InvalidArgument
from ort_py.values.dlpack import to_dlpack
from tests.drop_in.both_runtimes import Case, expect_agreement, expect_difference, session

RELU = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"
FIXED = "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }"
SCALAR = "g (float x) => (float y) { y = Neg(x) }"
PAIR = "g (float[N] a, float[N] b) => (float[N] s, float[N] d) { s = Add(a, b) d = Sub(a, b) }"
WEIGHTED = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }"
CONSTANT = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }"
NO_INPUTS = "g () => (float[2] y) { y = Constant <value_floats = [1.0, 2.0]> () }"
ONE_TEXT = "g (string x) => (string y) { y = Identity(x) }"
STRINGS = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
OPTIONAL = "g (optional(float[N]) x) => (optional(float[N]) y) { y = Identity(x) }"
HAS_ELEMENT = "g (optional(float[N]) x) => (bool y) { y = OptionalHasElement(x) }"
AT = "g (seq(float[N]) x, int64 i) => (float[N] y) { y = SequenceAt(x, i) }"
MAKE = "g (float[N] x, float[M] z) => (seq(float[?]) y) { y = SequenceConstruct(x, z) }"
ZIP = (
    'g (float[N, 2] x) => (seq(map(string, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b"]> (x) }'
)
DICT = """g (map(string, float) x) => (float[N] y) <int64[1] flat = {-1}> {
    t = ai.onnx.ml.DictVectorizer <string_vocabulary = ["a", "b"]> (x)
    y = Reshape(t, flat)
}"""

ML = '"ai.onnx.ml": 3'


def identity(element: str) -> str:
    return f"g ({element}[N] x) => ({element}[N] y) {{ y = Identity(x) }}"


def floats(*shape: int) -> Any:
    """-2, -1, 0, … as float32."""
    return (np.arange(np.prod(shape, dtype=int), dtype=np.float32) - 2).reshape(shape)


class OnlyArray:
    """Has ``__array__`` and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.array, dtype)


class OnlyDlpack:
    """A tensor of another library: has the DLPack protocol and nothing else."""

    def __init__(self, array: Any, old: bool = False) -> None:
        self.array, self.old = array, old

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and options:
            raise TypeError("unexpected keyword argument")
        return to_dlpack(self.array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def run(ort: Any, text: str, feed: Any, names: Any = None, *domains: str) -> Any:
    """Results of one run."""
    return session(ort, text, *domains).run(names, feed)


def relu(ort: Any, x: Any) -> Any:
    return run(ort, RELU, {"x": x})


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: Any) -> Any:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    found = raw[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


X = floats(2, 3)
VECTOR = floats(4)
BRAIN = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
EIGHT = np.array([1, 2.5, -3], ml_dtypes.float8_e4m3fn)
NIBBLES = np.array([1, -8, 7], ml_dtypes.int4)
PAIR_FEED = {"a": VECTOR, "b": VECTOR * 2}


def own_memory(ort: Any) -> Any:
    (y,) = run(ort, "g (float[N] x) => (float[N] y) { y = Identity(x) }", {"x": VECTOR})
    return np.shares_memory(y, VECTOR), y.flags.c_contiguous, y.flags.writeable, y


def outputs_apart(ort: Any) -> Any:
    first, second = run(
        ort, "g (float[N] x) => (float[N] y, float[N] z) { y = Identity(x) z = Identity(x) }", {"x": VECTOR}
    )
    return np.shares_memory(first, second), first, second


def outputs_survive(ort: Any) -> Any:
    found = session(ort, CONSTANT)
    (y,) = found.run(None, {"x": np.ones(2, np.float32)})
    found.run(None, {"x": np.zeros(2, np.float32)})
    del found
    return y


def feed_untouched(ort: Any) -> Any:
    x = X.copy()
    relu(ort, x)
    return x


def as_value(ort: Any, array: Any) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array)


def sequence_as_value(ort: Any) -> Any:
    made = session(ort, MAKE).run_with_ort_values(None, {"x": as_value(ort, VECTOR), "z": as_value(ort, floats(2))})
    return run(ort, AT, {"x": made[0], "i": np.array(1)})


def cast(ort: Any, element: str, number: int) -> Any:
    text = f"g (float[N] x) => ({element}[N] y) {{ y = Cast <to = {number}> (x) }}"
    return run(ort, text, {"x": np.array([1, 2.5, -3], np.float32)})


def retyped(ort: Any, element: str, raw: Any, number: int) -> Any:
    """A low-precision value through Identity, as a number of bits."""
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    return run(ort, f"g ({element}[N] x) => (float[N] y) {{ y = Cast <to = 1> (x) }}", {"x": value})


AGREE: dict[str, Case] = {
    # section 2.2: names
    "any mapping": lambda ort: run(ort, RELU, MappingProxyType({"x": X})),
    "missing input": lambda ort: run(ort, PAIR, {"a": VECTOR}),
    "missing input and a wrong name": lambda ort: run(ort, PAIR, {"a": VECTOR, "c": VECTOR}),
    "extra input": lambda ort: run(ort, PAIR, {**PAIR_FEED, "c": VECTOR}),
    "unknown output": lambda ort: run(ort, PAIR, PAIR_FEED, ["q"]),
    "input as output": lambda ort: run(ort, PAIR, PAIR_FEED, ["a"]),
    "no names": lambda ort: run(ort, PAIR, PAIR_FEED, []),
    "names in another order": lambda ort: run(ort, PAIR, PAIR_FEED, ["d", "s"]),
    "names as a tuple": lambda ort: run(ort, PAIR, PAIR_FEED, ("s",)),
    "a name twice": lambda ort: run(ort, PAIR, PAIR_FEED, ["s", "s"]),
    "one name as a text": lambda ort: run(ort, PAIR, PAIR_FEED, "s"),
    "feed is no dict": lambda ort: run(ort, PAIR, [VECTOR, VECTOR]),
    "feed is None": lambda ort: run(ort, PAIR, None),
    "feed is None, no inputs": lambda ort: run(ort, NO_INPUTS, None),
    "no inputs": lambda ort: run(ort, NO_INPUTS, {}),
    "a number for a name": lambda ort: run(ort, RELU, {1: X}),
    "a number for an output": lambda ort: run(ort, RELU, {"x": X}, [1]),
    # types and shapes
    "wrong dtype": lambda ort: relu(ort, X.astype(np.float64)),
    "integers for floats": lambda ort: relu(ort, X.astype(np.int64)),
    "wrong rank": lambda ort: relu(ort, VECTOR),
    "wrong size": lambda ort: relu(ort, floats(3, 2)),
    "wrong fixed size": lambda ort: run(ort, FIXED, {"x": floats(3, 3)}),
    "sizes of one name differ": lambda ort: run(ort, PAIR, {"a": VECTOR, "b": floats(1)}),
    # forms
    "array": lambda ort: relu(ort, X),
    "fortran order": lambda ort: relu(ort, np.asfortranarray(X)),
    "transposed": lambda ort: relu(ort, floats(3, 2).T),
    "strided": lambda ort: relu(ort, floats(4, 6)[::2, ::2]),
    "negative strides": lambda ort: relu(ort, X[::-1, ::-1]),
    "broadcast": lambda ort: relu(ort, np.broadcast_to(np.float32(-2), (2, 3))),
    "read-only": lambda ort: relu(ort, read_only(X)),
    "unaligned": lambda ort: relu(ort, unaligned(X)),
    "masked": lambda ort: relu(ort, np.ma.masked_less(X, 0)),
    "record array": lambda ort: relu(ort, X.view(np.recarray)),
    "zero size": lambda ort: relu(ort, np.zeros((0, 3), np.float32)),
    "nested list": lambda ort: relu(ort, X.tolist()),
    "list of integers": lambda ort: relu(ort, [[1, -2, 3]]),
    "list of arrays": lambda ort: relu(ort, [X[0], X[1]]),
    "list for float16": lambda ort: run(ort, identity("float16"), {"x": [1, 2.5]}),
    "list for int64": lambda ort: run(ort, identity("int64"), {"x": [1, 2**62 + 1]}),
    "list for bool": lambda ort: run(ort, identity("bool"), {"x": [True, False]}),
    "ragged list": lambda ort: relu(ort, [[1, 2, 3], [4]]),
    "list of the wrong rank": lambda ort: relu(ort, [1.0, 2.0]),
    "list of nonsense": lambda ort: relu(ort, [["a", "b", "c"]]),
    "a tensor for a declared scalar": lambda ort: run(ort, SCALAR, {"x": floats(2)}),
    "None for a tensor": lambda ort: relu(ort, None),
    "complex": lambda ort: relu(ort, X.astype(complex)),
    "another type of ml_dtypes": lambda ort: run(ort, identity("int8"), {"x": NIBBLES}),
    "matrix": lambda ort: relu(ort, np.asmatrix(X)),
    "empty lists": lambda ort: run(ort, PAIR, {"a": [], "b": []}),
    "lists of NumPy scalars": lambda ort: run(ort, PAIR, {"a": [np.float32(1)], "b": [np.int64(2)]}),
    "broadcast of unequal sizes": lambda ort: run(ort, PAIR, {"a": floats(4), "b": floats(3)}),
    "scalar array": lambda ort: run(ort, SCALAR, {"x": np.array(2, np.float32)}),
    "an object": lambda ort: relu(ort, object()),
    "a generator": lambda ort: relu(ort, (row for row in X)),
    "a dict for a tensor": lambda ort: relu(ort, {"a": 1}),
    "OrtValue": lambda ort: relu(ort, as_value(ort, X)),
    "OrtValue of the wrong type": lambda ort: relu(ort, as_value(ort, X.astype(np.float64))),
    "OrtValue of the wrong shape": lambda ort: relu(ort, as_value(ort, VECTOR)),
    "datetime": lambda ort: relu(ort, np.zeros((2, 3), "datetime64[D]")),
    "long double": lambda ort: relu(ort, X.astype(np.longdouble)),
    "records": lambda ort: relu(ort, np.zeros((2, 3), [("a", "f4")])),
    "feed is left as it was": feed_untouched,
    # results
    "results have memory of their own": own_memory,
    "results do not share memory": outputs_apart,
    "results outlive runs and sessions": outputs_survive,
    # initializers
    "overridable initializer": lambda ort: run(ort, WEIGHTED, {"x": floats(2)}),
    "overridable initializer, fed": lambda ort: run(ort, WEIGHTED, {"x": floats(2), "w": floats(2)}),
    "overridable initializer, None": lambda ort: run(ort, WEIGHTED, {"x": floats(2), "w": None}),
    "None for no input": lambda ort: run(ort, PAIR, {"a": floats(2), "b": floats(2), "c": None}),
    "overridable initializer, wrong type": lambda ort: run(ort, WEIGHTED, {"x": floats(2), "w": np.ones(2)}),
    "constant initializer, fed": lambda ort: run(ort, CONSTANT, {"x": floats(2), "w": floats(2)}),
    # section 2.4
    "texts": lambda ort: run(ort, STRINGS, {"x": np.array(["ä", "bc"])}),
    "texts as objects": lambda ort: run(ort, STRINGS, {"x": np.array(["ä", "bc"], object)}),
    "texts as bytes": lambda ort: run(ort, STRINGS, {"x": np.array([b"ab", b"c"], "S4")}),
    "texts as a list": lambda ort: run(ort, STRINGS, {"x": ["ä", "bc"]}),
    "other objects as texts": lambda ort: run(ort, STRINGS, {"x": np.array([None, 3, 2.5], object)}),
    "bytes that are not UTF-8": lambda ort: run(ort, STRINGS, {"x": np.array([b"\xff\xfe"])}),
    "no texts": lambda ort: run(ort, STRINGS, {"x": np.zeros(0, object)}),
    "numbers for texts": lambda ort: run(ort, STRINGS, {"x": VECTOR}),
    "texts for numbers": lambda ort: relu(ort, np.array([["a"]])),
    "sequence": lambda ort: run(ort, AT, {"x": [VECTOR, VECTOR * 2], "i": np.array(1)}),
    "sequence, wrong type": lambda ort: run(ort, AT, {"x": [VECTOR.astype(np.float64)], "i": np.array(0)}),
    "sequence, an array": lambda ort: run(ort, AT, {"x": np.stack([VECTOR]), "i": np.array(0)}),
    "sequence, a number": lambda ort: run(ort, AT, {"x": 3, "i": np.array(0)}),
    "sequence, empty": lambda ort: run(ort, AT, {"x": [], "i": np.array(0)}),
    "sequence made": lambda ort: run(ort, MAKE, {"x": VECTOR, "z": floats(2)}),
    "sequence, from the end": lambda ort: run(ort, AT, {"x": [VECTOR, VECTOR * 2], "i": np.array(-1)}),
    "sequence, beyond the end": lambda ort: run(ort, AT, {"x": [VECTOR], "i": np.array(5)}),
    "sequence as a value": sequence_as_value,
    "a text": lambda ort: run(ort, ONE_TEXT, {"x": np.array("abc")}),
    "map, missing key": lambda ort: run(ort, DICT, {"x": {"a": np.float32(2)}}, None, ML),
    "map, wrong keys": lambda ort: run(ort, DICT, {"x": {1: 1.0}}, None, ML),
    "map, an array": lambda ort: run(ort, DICT, {"x": VECTOR}, None, ML),
    "optional, a list": lambda ort: run(ort, HAS_ELEMENT, {"x": [1.0]}),
    "optional, wrong type": lambda ort: run(ort, HAS_ELEMENT, {"x": np.zeros(2)}),
    "list of maps": lambda ort: run(ort, ZIP, {"x": floats(3, 2)}, None, ML),
    "map": lambda ort: run(ort, DICT, {"x": {"a": 1.0, "b": 2.0}}, None, ML),
    "map, list of dicts": lambda ort: run(ort, DICT, {"x": [{"a": 1.0}]}, None, ML),
    "optional None": lambda ort: run(ort, HAS_ELEMENT, {"x": None}),
    "optional omitted": lambda ort: run(ort, HAS_ELEMENT, {}),
    "optional given": lambda ort: run(ort, HAS_ELEMENT, {"x": VECTOR}),
    "optional passed on": lambda ort: run(ort, OPTIONAL, {"x": VECTOR}),
    "optional empty passed on": lambda ort: run(ort, OPTIONAL, {"x": None}),
    # section 2.5
    "float16": lambda ort: run(ort, identity("float16"), {"x": np.array([1, 2.5], np.float16)}),
    "float8 as numbers": lambda ort: retyped(ort, "float8e4m3fn", np.arange(120, dtype=np.uint8), 17),
    "float8e5m2 as numbers": lambda ort: retyped(ort, "float8e5m2", np.arange(120, dtype=np.uint8), 19),
    "bfloat16 as numbers": lambda ort: retyped(ort, "bfloat16", np.arange(16000, 16100, dtype=np.uint16), 16),
    "int4 as numbers": lambda ort: retyped(ort, "int4", np.arange(8, dtype=np.uint8) * 30, 22),
    "uint16 for bfloat16": lambda ort: run(ort, identity("bfloat16"), {"x": np.zeros(2, np.uint16)}),
}


@pytest.mark.parametrize("name", AGREE)
def test_runs_are_those_of_onnxruntime(name: str) -> None:
    """The same results, the same kinds of refusal."""
    expect_agreement(AGREE[name])


RELU_X = [np.maximum(X, 0)]
TRUE = np.array([True, False])

DIFFER: dict[str, tuple[Case, Any, str]] = {
    "big endian": (lambda ort: relu(ort, X.astype(">f4")), RELU_X, "byte order is converted"),
    "big endian integers": (
        lambda ort: run(ort, identity("int64"), {"x": np.array([1, 2], ">i8")}),
        [np.array([1, 2])],
        "byte order is converted",
    ),
    "a NumPy scalar": (lambda ort: run(ort, SCALAR, {"x": np.float32(2)}), [np.array(-2, np.float32)], "a 0-d array"),
    "a Python number": (
        lambda ort: run(ort, SCALAR, {"x": 2}),
        [np.array(-2, np.float32)],
        "as lists: the model's type",
    ),
    "nested tuples": (lambda ort: relu(ort, tuple(map(tuple, X.tolist()))), RELU_X, "as lists: the model's type"),
    "only __array__": (lambda ort: relu(ort, OnlyArray(X)), RELU_X, "what NumPy reads is a feed"),
    "only DLPack": (lambda ort: relu(ort, OnlyDlpack(X)), RELU_X, "what speaks DLPack is a feed"),
    "only DLPack, first generation": (lambda ort: relu(ort, OnlyDlpack(X, old=True)), RELU_X, "both generations"),
    "only DLPack, strided": (
        lambda ort: relu(ort, OnlyDlpack(floats(3, 2).T)),
        [np.maximum(floats(3, 2).T, 0)],
        "copied",
    ),
    "DLPack booleans": (
        lambda ort: run(ort, identity("bool"), {"x": OnlyDlpack(TRUE)}),
        [TRUE],
        "booleans stay booleans",
    ),
    "DLPack bfloat16": (lambda ort: run(ort, identity("bfloat16"), {"x": OnlyDlpack(BRAIN)}), [BRAIN], "every type"),
    "DLPack bfloat16, first generation": (
        lambda ort: run(ort, identity("bfloat16"), {"x": OnlyDlpack(BRAIN, old=True)}),
        [BRAIN],
        "every type",
    ),
    "DLPack float8": (lambda ort: run(ort, identity("float8e4m3fn"), {"x": OnlyDlpack(EIGHT)}), [EIGHT], "every type"),
    "bfloat16": (lambda ort: run(ort, identity("bfloat16"), {"x": BRAIN}), [BRAIN], "every type goes in and out"),
    "float8": (lambda ort: run(ort, identity("float8e4m3fn"), {"x": EIGHT}), [EIGHT], "ml_dtypes in and out, not bits"),
    "int4": (lambda ort: run(ort, identity("int4"), {"x": NIBBLES}), [NIBBLES], "every type goes in and out"),
    "bfloat16 out": (lambda ort: cast(ort, "bfloat16", 16), [BRAIN], "every type goes in and out"),
    "float8 out": (lambda ort: cast(ort, "float8e4m3fn", 17), [EIGHT], "ml_dtypes in and out, not bits"),
    "an empty map": (lambda ort: run(ort, DICT, {"x": {}}, None, ML), [np.zeros(2, np.float32)], "a map may be empty"),
    "one Python text": (lambda ort: run(ort, ONE_TEXT, {"x": "abc"}), [np.array("abc", object)], "as lists"),
    "StringDType": (
        lambda ort: run(ort, STRINGS, {"x": np.array(["ä", "b"], np.dtypes.StringDType())}),
        [np.array(["ä", "b"], object)],
        "NumPy's newer texts are texts",
    ),
    "bytes among objects": (
        lambda ort: run(ort, STRINGS, {"x": np.array([b"a", "b"], object)}),
        [np.array(["a", "b"], object)],
        "bytes are read as UTF-8 everywhere, not only in arrays of bytes",
    ),
    "sequence as a tuple": (
        lambda ort: run(ort, AT, {"x": (VECTOR,), "i": np.array(0)}),
        [VECTOR],
        "a tuple is as good as a list",
    ),
    "sequence of lists": (
        lambda ort: run(ort, AT, {"x": [[1.0, 2.0]], "i": 0}),
        [np.array([1, 2], np.float32)],
        "as tensors",
    ),
    "sequence of values": (
        lambda ort: run(ort, AT, {"x": [as_value(ort, VECTOR)], "i": np.array(0)}),
        [VECTOR],
        "elements are taken as tensors are",
    ),
}


@pytest.mark.parametrize("name", DIFFER)
def test_deliberate_differences_of_runs(name: str) -> None:
    """Runs that onnxruntime refuses or gets wrong are right here; the table has the reasons."""
    case, expected, _reason = DIFFER[name]
    expect_difference(case, expected)


WRONG: dict[str, Any] = {
    "dtype": X.astype(np.float64),
    "rank": VECTOR,
    "size": floats(3, 2),
    "ragged": [[1, 2, 3], [4]],
    "object": object(),
    "complex": X.astype(complex),
    "datetime": np.zeros((2, 3), "datetime64[D]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_feed_is_named(name: str) -> None:
    """The message and the error name the input and say what to do, whatever is wrong with the feed."""
    with pytest.raises(InvalidArgument, match="Input 'x'") as caught:
        relu(ort_py, WRONG[name])
    assert caught.value.location.value == "x"
    assert caught.value.fix


def test_bytes_that_fill_their_elements() -> None:
    """Arrays of bytes are read element by element; onnxruntime reads on until it meets a zero byte."""
    (found,) = run(ort_py, STRINGS, {"x": np.array(["ä".encode(), b"bc"])})
    assert found.tolist() == ["ä", "bc"]


def test_bytes_that_are_no_text_are_named() -> None:
    """A text that cannot be decoded says which input it was in."""
    with pytest.raises(UnicodeDecodeError) as caught:
        run(ort_py, STRINGS, {"x": [b"\xff"]})
    assert "Input 'x'" in caught.value.__notes__[0]


def test_a_tensor_for_a_declared_scalar_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The shape of a scalar is what exporters write where they know none, so a tensor is let in, with a warning."""
    run(ort_py, SCALAR, {"x": floats(2)})
    assert "input 'x' is declared as a scalar" in caplog.text


def test_sparse_feeds_are_made_dense() -> None:
    """A sparse tensor is a feed for a dense input, with zeros where it has no value."""
    place = ort_py.OrtDevice.make("cpu", 0)
    values = np.array([-5, 7], np.float32)
    sparse = ort_py.SparseTensor.sparse_coo_from_numpy([2, 3], values, np.array([0, 5]), place)
    expected = np.array([[0, 0, 0], [0, 0, 7]], np.float32)
    for feed in (sparse, ort_py.OrtValue.ort_value_from_sparse_tensor(sparse)):
        np.testing.assert_array_equal(relu(ort_py, feed)[0], expected)


def test_memory_of_a_dlpack_feed_is_not_copied() -> None:
    """A contiguous tensor of another library is read where it is: a model that passes it on copies it once."""
    from ort_py.devices import HOST
    from ort_py.dtypes import DataType, TensorType
    from ort_py.engine.feeds import convert_feed, feed_spec
    from ort_py.planning.plan import PlanInput

    for array, data_type in ((X, DataType.FLOAT), (BRAIN, DataType.BFLOAT16)):
        spec = feed_spec(PlanInput("x", 0, HOST, TensorType(data_type, array.shape)))
        assert np.shares_memory(convert_feed(spec, OnlyDlpack(array)), array)


def test_onnx_agrees_about_the_models() -> None:
    """The models of these tables are valid ONNX."""
    from tests.drop_in.both_runtimes import model

    for text in (RELU, FIXED, SCALAR, PAIR, STRINGS, OPTIONAL, HAS_ELEMENT, AT, MAKE):
        onnx.checker.check_model(onnx.load_from_string(model(text)))
