"""The gate between a run and a region's instance: asked for new shapes, by the engine or by the instance itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.constraints import Admissions, Gate
from ort_py.contracts import RegionInstance, RequiredOutputs, RunDeclined
from ort_py.errors import EPFail, KernelInputError, LimitError, Location
from ort_py.execution.admission import AdmittedInstance, admitted
from ort_py.graph.view import ModelGraphView
from ort_py.limits import Limits
from ort_py_kit.graphs import typed_model

SUM = "g (float[N,4] a, float[M,4] b) => (float[K,4] y) { y = Add(a, b) }"
GATHER = "g (float[N,4] a, int64[M] i) => (float[M,4] y) { y = Gather(a, i) }"


class Doubling(RegionInstance):
    """An instance that gives its first input twice its value, and notes what it is asked.

    Args:
        admit: What checks new shapes; None where the engine does.
        shape: Shape of what it makes; that of the first input where it is None.
        dtype: Type of what it makes.
    """

    def __init__(
        self, admit: Callable[..., Any] | None = None, shape: tuple[int, ...] | None = None, dtype: Any = np.float32
    ) -> None:
        self.admit = admit
        self.shape = shape
        self.dtype = dtype
        self.bound: list[tuple[int, ...]] = []
        self.expected: list[Any] = []

    @property
    def admits_shapes(self) -> bool:
        return self.admit is not None

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if self.admit is not None:
            self.expected.append(self.admit(inputs))
        self.bound.append(inputs[0].shape)

    def __call__(self) -> Sequence[Any]:
        return [np.zeros(self.shape or self.bound[-1], self.dtype)]


def admissions_of(text: str, limits: Limits | None = None, *, empty_values: bool = True) -> Admissions:
    """The admissions of a region of all nodes of a model."""
    view = ModelGraphView(typed_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}').graph)
    return Admissions(Gate(view.region(range(len(view.nodes)))), limits, 1, Location(), empty_values=empty_values)


def rows(count: int) -> Any:
    """So many rows of four columns."""
    return np.zeros((count, 4), np.float32)


def test_an_instance_that_checks_shapes_itself_is_not_wrapped() -> None:
    """It is given the gate, and learns which shapes its outputs have to have."""
    instance = admitted(admissions_of(SUM), Doubling, declines=True)
    assert isinstance(instance, Doubling)
    instance.bind([rows(3), rows(1)], [None])
    assert instance.expected == [RequiredOutputs(((3, 4),), (np.dtype(np.float32),))]


def test_an_instance_that_does_not_is_wrapped() -> None:
    """Shapes are then compared by the engine."""
    inner = Doubling()
    instance = admitted(admissions_of(SUM), lambda _: inner, declines=True)
    assert isinstance(instance, AdmittedInstance)
    with pytest.raises(RunDeclined):
        instance.bind([rows(3), rows(2)], [None])
    assert inner.bound == []


def test_regions_whose_elements_are_checked_are_wrapped_whatever_they_can() -> None:
    """Indices may be out of range in a run whose shapes are those of the run before."""
    given: list[Any] = []

    def make(admit: Any) -> Doubling:
        given.append(admit)
        return Doubling(admit)

    instance = admitted(admissions_of(GATHER), make, declines=False)
    assert given == [None]
    instance.bind([rows(3), np.array([2])], [None])
    with pytest.raises(KernelInputError, match="out of range"):
        instance.bind([rows(3), np.array([3])], [None])


RESHAPE = "g (float[N,4] x, int64[2] s) => (float[A,B] y) {y=Reshape(x,s)}"


def test_an_instance_that_compares_what_the_gate_reads_is_not_wrapped() -> None:
    """It is told what follows from the elements of its inputs, and what they may not be."""
    instance = admitted(admissions_of(RESHAPE), Doubling, declines=False, compared=frozenset({1}))
    assert isinstance(instance, Doubling)
    for shape in ((4, 3), (-1, 2), (4, 3)):
        instance.bind([rows(3), np.array(shape)], [None])
    assert [one.shapes for one in instance.expected] == [((4, 3),), ((6, 2),), ((4, 3),)]
    with pytest.raises(KernelInputError, match="12 elements cannot be reshaped to 10"):
        instance.bind([rows(3), np.array([5, 2])], [None])
    assert isinstance(admitted(admissions_of(RESHAPE), Doubling, declines=False), AdmittedInstance)


def test_an_instance_that_compares_what_has_bounds_is_not_wrapped() -> None:
    """It asks about elements that are new to it, and those that are out of range are refused."""
    instance = admitted(admissions_of(GATHER), Doubling, declines=False, compared=frozenset({1}))
    assert isinstance(instance, Doubling)
    instance.bind([rows(3), np.array([2])], [None])
    with pytest.raises(KernelInputError, match="out of range"):
        instance.bind([rows(3), np.array([3])], [None])


def test_nothing_is_checked_without_a_gate() -> None:
    """The instance is used as it is."""
    assert isinstance(admitted(None, lambda _: Doubling(), declines=True), Doubling)


@pytest.mark.parametrize(("declines", "error"), [(True, RunDeclined), (False, KernelInputError)])
def test_refused_shapes_are_left_to_kernels_where_there_are_some(declines: bool, error: type[Exception]) -> None:
    """Otherwise the gate's own words are the error."""
    instance = admitted(admissions_of(SUM), Doubling, declines=declines)
    with pytest.raises(error):
        instance.bind([rows(3), rows(2)], [None])


def test_limits_hold_for_instances_that_check_shapes_themselves() -> None:
    """No kernel may answer what is larger than one allocation may be."""
    instance = admitted(admissions_of(SUM, Limits(single_allocation_bytes=1000)), Doubling, declines=True)
    instance.bind([rows(3), rows(1)], [None])
    with pytest.raises(LimitError):
        instance.bind([rows(100), rows(1)], [None])


@pytest.mark.parametrize("asks", [True, False])
def test_empty_values_are_left_to_kernels_where_the_provider_computes_none(asks: bool) -> None:
    admissions = admissions_of(SUM, empty_values=False)
    instance = admitted(admissions, lambda admit: Doubling(admit if asks else None), declines=True)
    with pytest.raises(RunDeclined, match="is empty"):
        instance.bind([rows(0), rows(1)], [None])


def test_outputs_of_another_shape_are_an_error_of_the_provider() -> None:
    """The first results of new shapes are compared with what the operators give."""
    instance = admitted(admissions_of(SUM), lambda _: Doubling(shape=(2, 4)), declines=True)
    instance.bind([rows(3), rows(1)], [None])
    with pytest.raises(EPFail, match=r"shape \[2, 4\] of float32 where the operators require \[3, 4\] of float32"):
        instance()


def test_outputs_of_another_type_are_an_error_of_the_provider() -> None:
    """So are results of another element type."""
    instance = admitted(admissions_of(SUM), lambda _: Doubling(dtype=np.float64), declines=True)
    instance.bind([rows(3), rows(1)], [None])
    with pytest.raises(EPFail, match=r"of float64 where the operators require \[3, 4\] of float32"):
        instance()
