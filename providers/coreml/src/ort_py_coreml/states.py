"""Pairs of an input and an output of a model that become states of a package, such as a decoder's cache.

ONNX has a model's cache among its inputs and outputs, where callers see it; Core ML keeps states itself and hands them
from one prediction to the next. Which inputs and outputs belong together is the caller's to say, so only packages that
are written for applications have states.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.contracts import RegionView, ValueSpec
from ort_py.dtypes import DataType
from ort_py.errors import OptionError
from ort_py_coreml.options import check_package, unfit_package

__all__ = ["check_states", "states_of"]

_FORM = (
    "write pairs such as past_key=present_key, separated by commas; a * stands for the same characters on both sides"
)

_refused = partial(unfit_package, "states", fix=_FORM)


def check_states(options: Mapping[str, Any], *, written: str) -> None:
    """Check the option `states`.

    Args:
        options: Validated options.
        written: The ending of the file that is written; empty in sessions that run models.

    Raises:
        OptionError: It is malformed, or packages with states cannot be written so.
    """
    text = str(options["states"])
    if not text:
        return
    _pairs(text)
    check_package("states", written, "callers of a session see a model's cache among its inputs and outputs")
    if options["deployment_target"] == "macOS14":
        raise OptionError(
            "states is set, and packages are written for macOS 14.",
            why="Core ML has states from macOS 15 on",
            fix="set deployment_target to macOS15",
        )


def states_of(text: str, region: RegionView) -> dict[int, int]:
    """Return the place of an output for the place of each input that is a state.

    Args:
        text: The option `states`.
        region: The region.

    Raises:
        EPFail: A pair names nothing, or values that cannot be states.
    """
    outputs = {value.name: place for place, value in enumerate(region.outputs)}
    found: dict[int, int] = {}
    for past, present in _pairs(text):
        pattern = re.compile("(.*)".join(map(re.escape, past.split("*"))))
        some = False
        for place, value in enumerate(region.inputs):
            match = pattern.fullmatch(value.name)
            if match is None:
                continue
            name = present.replace("*", match[1]) if "*" in past else present
            if name not in outputs:
                raise _refused(f"'{value.name}' would be a state, and there is no output '{name}'")
            reason = _unfit(value, region.outputs[outputs[name]])
            if reason is not None:
                raise _refused(reason)
            if outputs[name] in found.values():
                raise _refused(f"two states end as '{name}'")
            found[place] = outputs[name]
            some = True
        if not some:
            raise _refused(
                f"what is written has no input '{past}'; without states, an error names the nodes that are not taken"
            )
    if len(found) == len(region.outputs):
        raise _refused("all outputs would be states, and Core ML has no program without outputs")
    return found


def _pairs(text: str) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for part in text.split(","):
        past, _, present = (one.strip() for one in part.partition("="))
        if not past or not present or past.count("*") != present.count("*") or past.count("*") > 1:
            raise OptionError(f"states has '{part.strip()}'.", why="it is no pair of names", fix=_FORM)
        found.append((past, present))
    return found


def _unfit(past: ValueSpec, present: ValueSpec) -> str | None:
    if past.data_type is not DataType.FLOAT or present.data_type is not DataType.FLOAT:
        return f"'{past.name}' or '{present.name}' is not float32"
    if past.shape is None or not all(isinstance(size, int) for size in past.shape):
        return f"the sizes of '{past.name}' are not all known, and Core ML's states have fixed sizes"
    if past.shape != present.shape:
        return f"'{past.name}' and '{present.name}' have other sizes: {past.shape} and {present.shape}"
    return None
