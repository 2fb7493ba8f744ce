"""Whether a kernel fits a node: versions, types, and every reason why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import KernelDef, NodeSpec, tensors
from ort_py.dtypes import DataType
from ort_py.kernels.registry import KernelRegistry, match_kernel, overlap, refusal_of
from ort_py_kit.kernel_runner import make_node_spec


def definition(since: int = 1, until: int | None = None, **types: frozenset[str]) -> KernelDef:
    """A kernel of Add that is never called."""
    return KernelDef("Add", lambda _ctx: max, since=since, until=until, types=types)


def add(dtype: Any = np.float32, opset: int = 21) -> NodeSpec:
    """An Add node; opset 21 means schema version 14, opset 7 means 7."""
    return make_node_spec("Add", [np.ones(2, dtype), np.ones(2, dtype)], opset=opset)


FLOAT, INT32 = tensors(DataType.FLOAT), tensors(DataType.INT32)


@pytest.mark.parametrize(
    ("since", "until", "fits"), [(14, None, True), (7, 14, True), (7, None, False), (7, 13, False)]
)
def test_an_open_end_covers_only_the_first_version(since: int, until: int | None, fits: bool) -> None:
    """`until=None` means `since` only: a new revision is unsupported until somebody widens the range."""
    assert (refusal_of(definition(since, until), add()) is None) == fits


def test_the_schema_version_decides_not_the_opset() -> None:
    """A node of opset 13 with Add's schema version 13 is not one of version 14."""
    assert refusal_of(definition(13), add(opset=13)) is None
    assert "needs version 13" in str(refusal_of(definition(14), add(opset=13)))


def test_a_refusal_names_version_and_types_together() -> None:
    """Both reasons of one candidate are in one line with the kernel."""
    text = refusal_of(definition(7, T=INT32), add())
    assert text == "kernel Add(7) [T: tensor(int32)]: the node needs version 14, T is tensor(float)"


def test_types_that_are_not_restricted_or_not_known_fit() -> None:
    """An unrestricted variable, or one whose type inference did not find, refuses nothing."""
    unknown = make_node_spec("Add", [None, None], opset=21)
    assert refusal_of(definition(14), add()) is None
    assert refusal_of(definition(14, T=INT32), unknown) is None


def test_every_refusal_is_listed() -> None:
    """A failed match has one line for each candidate."""
    match = match_kernel([definition(7, 13), definition(14, T=INT32)], add())
    assert match.kernel is None
    assert len(match.refusals) == 2
    assert "needs version 14" in match.refusals[0]
    assert "T is tensor(float)" in match.refusals[1]


def test_no_candidate_is_a_reason_too() -> None:
    """The refusal says that there is no kernel, and names a domain other than ONNX's."""
    node = make_node_spec("Frob", [], domain="com.example", opset=1)
    assert match_kernel([], add()).refusals == ("no kernel for Add",)
    assert match_kernel([], node).refusals == ("no kernel for com.example.Frob",)


def test_the_first_that_fits_is_taken() -> None:
    """Candidates that do not fit are passed over."""
    good = definition(14, T=FLOAT)
    assert match_kernel([definition(7), good], add()).kernel is good


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        (definition(7, 13), definition(14), None),
        (definition(7, 14), definition(14), "version 14 for every type"),
        (definition(7, 14), definition(13, 16), "versions 13 to 14 for every type"),
        (definition(14, T=FLOAT), definition(14, T=INT32), None),
        (definition(14, T=FLOAT | INT32), definition(14, T=INT32), "version 14 for T: tensor(int32)"),
        (definition(14, T=FLOAT), definition(14, T1=INT32), "version 14 for every type"),
    ],
)
def test_overlap_says_what_two_kernels_share(left: KernelDef, right: KernelDef, shared: str | None) -> None:
    """Versions and types both kernels claim, in words; None where no node could match both."""
    assert overlap(left, right) == shared
    assert overlap(right, left) == shared


def _no_training(node: NodeSpec) -> str | None:
    return "training_mode is 1" if node.attributes.get("training_mode") else None


def test_a_kernel_may_refuse_by_attribute() -> None:
    """Its reason follows the kernel's title; version and types are looked at first."""
    refusing = definition(7, 14).replace(refuses=_no_training)
    training = replace(add(), attributes={"training_mode": 1})
    assert refusal_of(refusing, add()) is None
    assert refusal_of(refusing, training) == "kernel Add(7-14): training_mode is 1"
    assert refusal_of(refusing.replace(until=7), training) == "kernel Add(7): the node needs version 14"


def test_a_refusal_that_raises_is_a_reason() -> None:
    """The exception becomes a reason, and other providers may take the node."""

    def broken(node: NodeSpec) -> str | None:
        raise LookupError("no such attribute")

    text = refusal_of(definition(14).replace(refuses=broken), add())
    assert text == "kernel Add(14): its function `refuses` raised LookupError: no such attribute"


def test_a_registry_asks_for_each_node() -> None:
    """Nodes of one version and of the same types may be answered differently."""
    registry = KernelRegistry()
    registry.register("A", [definition(14).replace(refuses=_no_training)], "test")
    training = replace(add(), attributes={"training_mode": 1})
    assert registry.find("A", add()).kernel is not None
    assert registry.find("A", training).kernel is None
    assert registry.find("A", add()).kernel is not None
