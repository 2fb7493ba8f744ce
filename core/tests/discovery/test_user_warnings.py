"""Warnings point at the user's line."""

from __future__ import annotations

import warnings

from ort_py.discovery import parse_request


def test_the_line_is_the_caller_s() -> None:
    """Not one inside ort-py, however deep the warning arises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse_request(["A", "A"])
    assert [warning.filename for warning in caught] == [__file__]
