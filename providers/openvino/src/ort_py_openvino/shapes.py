"""The option `reshape_input`: sizes of inputs that the caller promises, which OpenVINO compiles for.

Comes before `build`, which gives them to OpenVINO's model. It does not depend on models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ort_py.errors import OptionError

__all__ = ["Bounds", "bounds_of", "partial_shape"]

Bounds = tuple[tuple[int, int | None], ...]
"""Least and largest size of each axis; None where there is no largest."""

_INPUT = re.compile(r"\s*(?P<name>[^\[\],]+?)\s*\[(?P<sizes>[^\[\]]*)\]\s*(?:,|$)")
_SIZE = re.compile(r"\s*(?:(?P<least>\d+)(?:\s*\.\.\s*(?P<most>\d+))?|(?P<any>\?|-1))\s*")


def bounds_of(text: str) -> Mapping[str, Bounds]:
    """The bounds of each input.

    Args:
        text: As onnxruntime's users write it: ``"ids[1,1..128],picture[1,3,?,?]"``.

    Raises:
        OptionError: It is not written like that.
    """
    found: dict[str, Bounds] = {}
    place = 0
    while place < len(text):
        entry = _INPUT.match(text, place)
        if entry is None:
            raise _unread(text)
        found[entry["name"]] = tuple(_size(one, text) for one in entry["sizes"].split(",")) if entry["sizes"] else ()
        place = entry.end()
    return found


def partial_shape(openvino: Any, bounds: Bounds) -> Any:
    """OpenVINO's form of them."""
    dims = [
        openvino.Dimension() if (least, most) == (0, None) else openvino.Dimension(least, most)
        for least, most in bounds
    ]
    return openvino.PartialShape(dims)


def _size(text: str, whole: str) -> tuple[int, int | None]:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise _unread(whole)
    if found["any"]:
        return 0, None
    least = int(found["least"])
    most = least if found["most"] is None else int(found["most"])
    if most < least:
        raise _unread(whole)
    return least, most


def _unread(text: str) -> OptionError:
    return OptionError(
        f"reshape_input={text!r} cannot be read.",
        fix="write each input with its sizes, a range or a question mark: 'ids[1,1..128],picture[1,3,?,?]'",
    )
