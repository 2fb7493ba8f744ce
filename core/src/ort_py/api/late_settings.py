"""Checks of settings that an application passes to the providers of a session after it was made.

No provider takes any of them yet, but wrong arguments are refused as onnxruntime refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.errors import UsageError

_TUNING_KEYS = ("ep", "results", "validators")


def check_dynamic_options(options: Any) -> None:
    """Check that the argument is a set of options.

    Raises:
        TypeError: It is not a mapping.
        UsageError: It is empty.
    """
    if not isinstance(options, Mapping):
        raise TypeError(f"Dynamic options must be a mapping, not {options!r}.")
    if not options:
        raise UsageError("There are no dynamic options to set.", fix="Pass at least one option.")


def check_tuning_results(results: Any, *, error_on_invalid: bool) -> None:
    """Check that the argument is a list of tuning results.

    Raises:
        TypeError: It is not a list, or a part of a result is not a mapping.
        KeyError: A result lacks one of its parts.
        ValueError: The number of a kernel is not a number.
        UsageError: There is a result, `error_on_invalid` is set, and no provider here accepts any.
    """
    if not isinstance(results, list):
        raise TypeError(f"Tuning results must be a list, not {results!r}.")
    for result in results:
        _expect_tuning_result(result)
    for result in results:
        if error_on_invalid:
            raise UsageError(
                f"The tuning results of {result['ep']} cannot be used.",
                why="no provider of this session takes tuning results",
                fix="Leave them out, or pass error_on_invalid=False.",
            )


def _expect_tuning_result(result: Any) -> None:
    for key in _TUNING_KEYS:
        if key not in result:
            raise KeyError(key)
    for kernels in _mapping("results", result["results"]).values():
        for number in _mapping("results", kernels).values():
            int(number)
    _mapping("validators", result["validators"])


def _mapping(part: str, given: Any) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"The part '{part}' of a tuning result must be a mapping, not {given!r}.")
    return given
