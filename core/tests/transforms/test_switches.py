"""Transforms switched off by name."""

from __future__ import annotations

import pytest

from ort_py.errors import InvalidArgument
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.switches import ONNXRUNTIME_PASSES, SAME_AS, switched_off

KNOWN = [transform.name for transform in builtin_transforms()]


def test_names_of_ours() -> None:
    assert switched_off(["ConstantFolding", "TransposeMerging"], KNOWN) == ({"ConstantFolding", "TransposeMerging"}, [])


def test_names_of_onnxruntime() -> None:
    """The same name, another name for the same thing, and a pass that has no counterpart here."""
    off, lines = switched_off(["ConvBNFusion", "ConstantSharing", "NchwcTransformer"], KNOWN)
    assert off == {"ConvBNFusion", "DuplicateInitializers"}
    assert lines == ["nothing to switch off: no pass here does what onnxruntime's NchwcTransformer does"]


def test_a_slip_of_the_pen_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no graph transform called 'ConstFolding'") as caught:
        switched_off(["ConstFolding"], KNOWN)
    assert "Did you mean 'ConstantFolding'?" in str(caught.value)


def test_names_like_none() -> None:
    """A line in the report: onnxruntime accepts them without a word."""
    assert switched_off(["Nope"], KNOWN) == (
        set(),
        ["nothing to switch off: there is no graph transform called 'Nope'"],
    )


def test_the_table_names_passes_of_onnxruntime() -> None:
    """Every name on the left exists in onnxruntime, and every name on the right exists here."""
    assert set(SAME_AS) <= ONNXRUNTIME_PASSES
    assert {name for names in SAME_AS.values() for name in names} <= set(KNOWN)
