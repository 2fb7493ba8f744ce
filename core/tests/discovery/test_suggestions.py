"""Suggestions for unknown names."""

from __future__ import annotations

import pytest

from ort_py.discovery.suggestions import close_names, did_you_mean

KNOWN = ["CPUExecutionProvider", "CUDAExecutionProvider", "HelloExecutionProvider"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cpu", "CPUExecutionProvider"),
        ("CUDA", "CUDAExecutionProvider"),
        ("cudaexecutionprovider", "CUDAExecutionProvider"),
        ("HelloExecutionProvidr", "HelloExecutionProvider"),
        ("HelloEexcutionProvider", "HelloExecutionProvider"),
        ("Helo", "HelloExecutionProvider"),
    ],
)
def test_the_closest_comes_first(name: str, meant: str) -> None:
    """Case, a missing suffix and slips of the finger are seen through."""
    assert close_names(name, KNOWN)[0] == meant


def test_text() -> None:
    """A question, or nothing where nothing is close."""
    assert did_you_mean("hello", KNOWN) == "Did you mean 'HelloExecutionProvider'?"
    assert did_you_mean("device_ids", ["device_id", "device_is"]) == "Did you mean 'device_is' or 'device_id'?"
    assert did_you_mean("QuuxExecutionProvider", KNOWN) == ""
