"""The gate of a region: what it settles, what it checks in a run, and what it says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ort_py.constraints import Admissions, Gate, check_elements
from ort_py.contracts.graph_view import RegionView
from ort_py.errors import KernelInputError, LimitError, Location
from ort_py.graph.view import ModelGraphView
from ort_py.limits import Limits
from ort_py_kit.graphs import model_from_text, typed_model

HEAD = '<ir_version: 10, opset_import: ["" : OPSET, "org.example" : 1]> '


def gate_of(text: str, opset: int = 21) -> Gate:
    """The gate of a region of all nodes of a model."""
    return Gate(region_of(text, opset))


def region_of(text: str, opset: int = 21) -> RegionView:
    """All nodes of a model as a region."""
    view = ModelGraphView(typed_model(HEAD.replace("OPSET", str(opset)) + text).graph)
    return view.region(range(len(view.nodes)))


def floats(*shape: int) -> Any:
    """Zeroes."""
    return np.zeros(shape, np.float32)


def test_shapes_of_outputs_and_inner_values() -> None:
    """An admission has the shape of each output, and the bytes of the largest value inside."""
    gate = gate_of("g (float[N,8] x, float[8,K] w) => (float[N,M] y) {a=MatMul(x,w) b=Concat<axis=1>(a,a) y=Relu(b)}")
    admission = gate.admit([floats(3, 8), floats(8, 5)])
    assert admission.outputs == ((3, 10),)
    assert admission.largest[0] == 3 * 10 * 4
    assert admission.work == 3 * 8 * 5


def test_what_holds_for_all_shapes_is_not_checked_again() -> None:
    """A sum of a value with a function of itself broadcasts whatever its shape is."""
    gate = gate_of("g (float[N,M] x) => (float[N,M] y) {a=Sigmoid(x) y=Mul(a,x)}")
    assert gate.record()["programs"][0]["predicates"] == []


@pytest.mark.parametrize("operator", ["Max", "Mean", "Min", "Sum"])
def test_operators_of_many_inputs_do_not_broadcast_in_old_opsets(operator: str) -> None:
    """Before opset 8 the operands have one shape, which is compared in each run."""
    text = f"g (float[N,4] a, float[M,4] b, float[N,4] c) => (float[N,4] y) {{y={operator}(a,b,c)}}"
    old, new = gate_of(text, opset=7), gate_of(text, opset=8)
    arrays = [floats(3, 4), floats(1, 4), floats(3, 4)]
    assert new.admit(arrays).outputs == ((3, 4),)
    assert old.admit([floats(3, 4)] * 3).outputs == ((3, 4),)
    with pytest.raises(KernelInputError, match="input 1 has 1 entries along axis 0 instead of 3"):
        old.admit(arrays)


def test_a_reshape_to_another_count_is_refused() -> None:
    """Counts are compared in each run, and the message has the numbers and the node."""
    gate = gate_of("g (float[N,4] x) => (float[2,K] y) <int64[2] s={2,6}> {y=Reshape(x,s)}")
    assert gate.admit([floats(3, 4)]).outputs == ((2, 6),)
    with pytest.raises(KernelInputError, match="8 elements cannot be reshaped to 12"):
        gate.admit([floats(2, 4)])


def test_an_open_size_beside_a_size_of_zero_is_refused() -> None:
    """The elements of a tensor that has none do not tell what -1 stands for; other empty tensors are reshaped."""
    gate = gate_of("g (float[N,4,3] x) => (float[N,K] y) <int64[2] s={0,-1}> {y=Reshape(x,s)}")
    assert gate.admit([floats(2, 4, 3)]).outputs == ((2, 12),)
    with pytest.raises(KernelInputError, match="0 elements cannot be divided into parts of 0"):
        gate.admit([floats(0, 4, 3)])
    rest = gate_of("g (float[N,4,3] x) => (float[M,12] y) <int64[2] s={-1,12}> {y=Reshape(x,s)}")
    assert rest.admit([floats(0, 4, 3)]).outputs == ((0, 12),)


def test_a_shape_that_is_computed_inside() -> None:
    """Shape, Gather and Concat inside of the region are followed."""
    gate = gate_of(
        "g (float[N,C,H,W] x) => (float[N,K] y) <int64[1] i={0}, int64[1] r={-1}> "
        "{s=Shape(x) n=Gather(s,i) t=Concat<axis=0>(n,r) y=Reshape(x,t)}"
    )
    assert gate.unchecked == ()
    assert gate.admit([floats(2, 3, 4, 5)]).outputs == ((2, 60),)


def test_a_shape_that_is_fed() -> None:
    """Elements of a short input that decides a shape are read in each run."""
    gate = gate_of("g (float[N,M] x, int64[2] s) => (float[A,B] y) {y=Reshape(x,s)}")
    assert gate.reads == (1,)
    assert gate.admit([floats(4, 6), np.array([3, -1])]).outputs == ((3, 8),)
    assert gate.admit([floats(4, 6), np.array([0, 6])]).outputs == ((4, 6),)
    for wrong in ([5, -1], [-1, -1], [-2, 12], [4, 7]):
        with pytest.raises(KernelInputError):
            gate.admit([floats(4, 6), np.array(wrong)])
    with pytest.raises(KernelInputError):
        gate.admit([floats(0, 6), np.array([0, -1])])
    assert gate.admit([floats(0, 6), np.array([5, -1])]).outputs == ((5, 0),)


def test_indices_are_compared_in_each_run() -> None:
    """Indices that arrive at the border have to lie in the axis, whatever shape it has in the run."""
    gate = gate_of("g (float[N,4] x, int64[M] i) => (float[M,4] y) {y=Gather<axis=0>(x,i)}")
    arrays = [floats(3, 4), np.array([0, -3, 2])]
    admission = gate.admit(arrays)
    check_elements(gate, admission, arrays)
    arrays[1] = np.array([0, 3, 2])
    with pytest.raises(KernelInputError, match="3 is not between -3 and 2"):
        check_elements(gate, admission, arrays)


def test_no_indices_are_in_range() -> None:
    """A list of indices without elements is fine."""
    gate = gate_of("g (float[N,4] x, int64[M] i) => (float[M,4] y) {y=Gather<axis=0>(x,i)}")
    arrays = [floats(3, 4), np.zeros(0, np.int64)]
    check_elements(gate, gate.admit(arrays), arrays)


def test_contradictions_are_found_at_once() -> None:
    """Nodes that no input can satisfy are named when the gate is made."""
    gate = gate_of("g (float[N,4,H,W] x, float[6,2,3,3] w) => (float[N,6,A,B] y) {y=Conv<group=0>(x,w)}")
    assert [finding.node for finding in gate.violations] == [0]
    assert "group is 0" in gate.violations[0].text


def test_what_cannot_be_checked_is_named() -> None:
    """Operators without constraints and sizes that data decide are listed with the reason."""
    gate = gate_of("g (float[N] x) => (float[M] y) {i=NonZero(x) j=Squeeze(i) y=Gather(x,j)}")
    assert 0 in {finding.node for finding in gate.unchecked}


def test_empty_values_are_named() -> None:
    """An admission names the first input or inner value without elements, also where arrays are not as typed."""
    gate = gate_of(
        "g (float[N,4] x) => (float[4] y) <int64[1] s={2}, int64[1] e={9}> {v=Slice(x,s,e) y=ReduceSum<keepdims=0>(v)}"
    )
    assert gate.admit([floats(3, 4)]).empty == ""
    assert gate.admit([floats(2, 4)]).empty == "v"
    assert gate.admit([floats(0, 4)]).empty == "x"
    assert gate.admit([floats(2, 5)]).empty == "v"
    assert gate.admit([floats(5, 0)]).empty == "x"


def test_operands_that_are_repeated_late_are_named() -> None:
    """A size of 1 that is repeated counts if it was open; one that the model's types have does not."""
    gate = gate_of("g (float[A,N] x, float[A,M] z, float[A,1] o) => (float[A,K] y) {s=Add(x,z) t=Add(s,o) y=Mul(s,t)}")
    one, many = floats(3, 1), floats(3, 4)
    assert gate.admit([many, many, one]).late == ""
    assert gate.admit([one, one, one]).late == ""
    assert gate.admit([one, many, one]).late == "Add"
    assert gate.admit([many, one, one]).late == "Add"


def test_sizes_that_nobody_can_tell_are_named_once() -> None:
    """The node that makes a size out of the data of a run is named; those that only pass the size on are not."""
    gate = gate_of(
        "g (float[N] x) => (float[M] y) <int64[1] z={0}> {i=NonZero(x) f=Squeeze(i,z) a=Cast<to=1>(f) y=Abs(a)}"
    )
    assert [finding.node for finding in gate.unsized] == [0]
    assert gate.unsized[0].text == "the size of 'i' depends on the data of a run"
    assert gate_of("g (float[N,M] x) => (float[M,N] y) {t=Transpose(x) y=Abs(t)}").unsized == ()


def test_types_that_were_wrong() -> None:
    """Arrays of other shapes than the model's types promise are checked by their own numbers."""
    gate = gate_of("g (float[2,4] x, float[2,4] z) => (float[2,4] y) {y=Add(x,z)}")
    assert gate.admit([floats(3, 4), floats(3, 4)]).outputs == ((3, 4),)
    with pytest.raises(KernelInputError, match="do not broadcast"):
        gate.admit([floats(3, 4), floats(2, 4)])


def test_one_name_for_two_sizes() -> None:
    """The operator allows a symbolic size that differs between two inputs."""
    gate = gate_of("g (float[N,4] x, float[N,4] z) => (float[M,4] y) {y=Concat<axis=0>(x,z)}")
    assert gate.admit([floats(3, 4), floats(2, 4)]).outputs == ((5, 4),)


def test_images_that_were_promised_to_be_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program answers for other images, too, also where it comes from a record: constraints are not walked again."""
    text = (
        "g (float[N,3,S,S] x, float[4,3,3,3] w) => (float[N,4,A,B] y) "
        "{c=Conv<strides=[2,2]>(x,w) s=Sigmoid(c) y=Mul(c,s)}"
    )
    gate = gate_of(text)
    restored = Gate(region_of(text), json.loads(json.dumps(gate.record())))
    monkeypatch.setattr("ort_py.constraints.gate_walk.walk_numbers", None)
    weights = floats(4, 3, 3, 3)
    for one in (gate, restored):
        assert one.admit([floats(2, 3, 9, 9), weights]).outputs == ((2, 4, 4, 4),)
        assert one.admit([floats(2, 3, 9, 21), weights]).outputs == ((2, 4, 4, 10),)
        with pytest.raises(KernelInputError, match="Conv"):
            one.admit([floats(2, 3, 9, 2), weights])


def test_question_marks_are_sizes_without_a_name() -> None:
    """Some exporters write one for each unknown size: they promise no squares, and one walk is enough."""
    model = model_from_text(HEAD.replace("OPSET", "21") + "g (float[N,3,S,T] x) => (float[N,3,A,B] y) {y=Relu(x)}")
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "?"
    gate = Gate(ModelGraphView(typed_model(model).graph).region(range(1)))
    assert gate.admit([floats(2, 3, 9, 21)]).outputs == ((2, 3, 9, 21),)
    assert len(gate.record()["programs"]) == 1


def test_sizes_never_overflow() -> None:
    """Numbers beyond 64 bits are compared as they are."""
    gate = gate_of("g (float[N,M] x, int64[2] r) => (float[A,B] y) {y=Tile(x,r)}")
    admission = gate.admit([floats(4, 4), np.array([2**40, 2**40])])
    assert admission.largest[0] == 4 * 2**82 * 4


def test_large_values_are_refused() -> None:
    """A value inside of a region that is larger than one allocation may be is a LimitError before anything runs."""
    gate = gate_of("g (float[N,M] x, int64[2] r) => (float[1] y) {t=Tile(x,r) y=ReduceMax<keepdims=0>(t)}")
    admissions = Admissions(gate, Limits(single_allocation_bytes=1 << 20), 1, Location())
    arrays = [floats(4, 4), np.array([4, 4])]
    assert admissions.admit("small", arrays).largest[0] == 16 * 16 * 4
    with pytest.raises(LimitError, match=r"1\.0 GiB"):
        admissions.admit("large", [floats(4, 4), np.array([4096, 4096])])


def test_long_work_is_refused() -> None:
    """Native code is not begun where its multiplications cannot be done in the time of a run."""
    gate = gate_of("g (float[N,M] x, float[M,K] w) => (float[N,K] y) {y=MatMul(x,w)}")
    shaped = [np.broadcast_to(np.float32(0), shape) for shape in ((10**6, 10**6), (10**6, 10**6))]
    limits = Limits(single_allocation_bytes=None, run_seconds=1.0)
    admissions = Admissions(gate, limits, 2, Location(), rate=2e11)
    with pytest.raises(LimitError, match="multiplications"):
        admissions.admit("long", shaped)


def test_admissions_are_remembered_and_bounded() -> None:
    """The same key is admitted once; an endless variety of shapes costs no endless memory."""
    gate = gate_of("g (float[N] x) => (float[N] y) {y=Relu(x)}")
    admissions = Admissions(gate, None, 1, Location())
    first = admissions.admit(0, [floats(1)])
    assert admissions.admit(0, [floats(1)]) is first
    for size in range(1, 600):
        admissions.admit(size, [floats(size)])
    assert len(admissions._known) <= 256


RECURRENT = """g (float[] x, float[1,9,2] w, float[1,9,3] r, float[] state) => (float[K,1,M,3] y)
    {y, h = GRU<hidden_size=3>(x,w,r,,,state)}"""


def test_an_input_of_unknown_rank_has_the_rank_that_its_operator_demands() -> None:
    """A recurrent layer takes sequences of three axes, whether or not the model says so."""
    gate = gate_of(RECURRENT)
    assert gate.unchecked == gate.violations == ()
    admission = gate.admit([floats(5, 4, 2), floats(1, 9, 2), floats(1, 9, 3), floats(1, 4, 3)])
    assert admission.outputs == ((5, 1, 4, 3),)


@pytest.mark.parametrize(
    ("x", "state", "message"),
    [((4, 2), (1, 4, 3), "input 0 has 2 axes"), ((5, 4, 2), (4, 3), "an initial state, has 2 axes instead of 3")],
)
def test_a_run_with_another_rank_than_demanded_is_refused(x: Any, state: Any, message: str) -> None:
    """Each run compares its rank with the assumed one."""
    with pytest.raises(KernelInputError, match=message):
        gate_of(RECURRENT).admit([floats(*x), floats(1, 9, 2), floats(1, 9, 3), floats(*state)])


def test_a_node_that_takes_any_rank_is_not_checked_where_the_rank_is_unknown() -> None:
    """Nothing is assumed where an operator takes several ranks."""
    assert [finding.text for finding in gate_of("g (float[] x) => (float[] y) {y=Softmax(x)}").unchecked] == [
        "the rank of input 0 is not known"
    ]


@pytest.mark.parametrize(
    ("text", "arrays", "wrong"),
    [
        (
            "g (float[N,8] x, float[8,K] w) => (float[N,M] y) {a=MatMul(x,w) b=Concat<axis=1>(a,a) y=Relu(b)}",
            [floats(3, 8), floats(8, 5)],
            [floats(3, 8), floats(7, 5)],
        ),
        (
            "g (float[N,M] x, int64[2] s) => (float[A,B] y) {a=Relu(x) y=Reshape(a,s)}",
            [floats(4, 6), np.array([8, -1])],
            [floats(4, 6), np.array([7, -1])],
        ),
        (
            "g (float[N,4] x) => (float[A,B] y) {w=Constant<value=float[4,2]{1,2,3,4,5,6,7,8}>() y=MatMul(x,w)}",
            [floats(2, 3, 4)],
            [floats(2, 3, 5)],
        ),
    ],
)
def test_a_gate_made_of_a_record_answers_as_the_walk_does(
    text: str, arrays: list[np.ndarray[Any, Any]], wrong: list[np.ndarray[Any, Any]]
) -> None:
    """The cache keeps the record as JSON. Arrays of another rank than promised are answered for, too."""
    view = region_of(text)
    gate = Gate(view)
    restored = Gate(view, json.loads(json.dumps(gate.record())))
    assert restored.admit(arrays) == gate.admit(arrays)
    assert (restored.reads, restored.reads_elements) == (gate.reads, gate.reads_elements)
    for one in (gate, restored):
        with pytest.raises(KernelInputError):
            one.admit(wrong)


def test_the_largest_value_that_no_input_decides_is_known_before_a_run() -> None:
    """Sizes that an input decides are known in a run only."""
    text = """g (float[N] x) => (float[K] y) <int64[1] size = {3000}, int64[1] one = {1}> {
        zeroes = ConstantOfShape(size) wide = Concat<axis = 0>(zeroes, zeroes) y = Concat<axis = 0>(wide, x)
    }"""
    view = region_of(text)
    gate = Gate(view)
    assert gate.largest == (24000, "wide")
    assert Gate(view, json.loads(json.dumps(gate.record()))).largest == gate.largest


def test_work_of_an_unknown_rate_is_begun() -> None:
    """Nothing is known of how fast other devices are."""
    gate = gate_of("g (float[N,M] x, float[M,K] w) => (float[N,K] y) {y=MatMul(x,w)}")
    shaped = [np.broadcast_to(np.float32(0), shape) for shape in ((10**6, 10**6), (10**6, 10**6))]
    limits = Limits(single_allocation_bytes=None, run_seconds=1.0)
    Admissions(gate, limits, 2, Location()).admit("key", shaped)
