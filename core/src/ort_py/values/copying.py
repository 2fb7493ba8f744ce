"""Copying the content of one tensor into the memory of another; nothing is converted or reinterpreted on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.errors import UsageError
from ort_py.values.device_tensor import DeviceTensor, expect_same_elements

if TYPE_CHECKING:
    from ort_py.values.held_value import HeldValue


def copy_tensors(src: Sequence[HeldValue], dst: Sequence[HeldValue], stream: Any = None) -> None:
    """Copy the content of tensors into the memory of others, pair by pair.

    Args:
        src: The values to copy.
        dst: The values to write: as many, each of the shape and element type of its partner.
        stream: Without effect: the copies are complete when this returns.

    Raises:
        UsageError: Nothing to copy, unequal numbers, or a pair that differs in shape or element type.
    """
    if len(src) != len(dst) or not src:
        raise UsageError(
            f"copy_tensors copies pairs of tensors, but {len(src)} source(s) and {len(dst)} target(s) were given.",
            fix="Pass two sequences of the same length.",
        )
    pairs = [
        (source._tensor("copy_tensors"), target._tensor("copy_tensors"))
        for source, target in zip(src, dst, strict=True)
    ]
    for source, target in pairs:
        if source.shape != target.shape:
            raise UsageError(
                "copy_tensors needs tensors of the same shape.",
                why=f"{source.shape} into {target.shape}",
                fix="Make the target with ortvalue_from_shape_and_type().",
            )
    for source, target in pairs:
        if isinstance(target, DeviceTensor):
            target.write(source, "copy_tensors")
        else:
            write_into(source.to_host() if isinstance(source, DeviceTensor) else source, target, "copy_tensors")


def write_into(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any], what: str) -> None:
    """Write an array into the memory of another of the same element type and as many elements.

    Args:
        source: Any byte order and strides.
        target: C-contiguous.
        what: Name of the call, for the message.

    Raises:
        UsageError: Element types or numbers of elements differ.
    """
    expect_same_elements(source, target, what)
    np.copyto(target, source.reshape(target.shape))
