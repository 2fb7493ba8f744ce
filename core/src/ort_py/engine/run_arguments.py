"""Checks of a run's arguments besides its feed: the names of outputs, and run options.

Without this, a wrong object would fail somewhere inside, as something else, or be taken for what it is not: a text for
a list of letters, a feed for the names of outputs. Comes before `runner`. It is independent of models: which names
there are, the runner knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ort_py.errors import ArgumentTypeError, UsageError


def name_list(names: Any) -> list[str]:
    """The requested names of outputs, as a list.

    Args:
        names: The argument of a run. Whatever is false stands for all outputs, and gives an empty list.

    Raises:
        ArgumentTypeError: It is not a collection of names; a builtin TypeError too.
    """
    if not names:
        return []
    if isinstance(names, str):
        raise ArgumentTypeError(
            f"output_names must be a list of names, not the string {names!r}.", fix=f"Pass a list: [{names!r}]."
        )
    if not isinstance(names, Iterable) or isinstance(names, bytes | bytearray | memoryview | Mapping):
        raise ArgumentTypeError(
            f"output_names must be a list of names, not {type(names).__name__}.",
            fix="Pass names that get_outputs() lists, or None for all; the feed is the second argument of a run.",
        )
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise not_a_name(name)
    return found


def not_a_name(name: Any) -> ArgumentTypeError:
    """The error for an entry of `output_names` that is not text."""
    return ArgumentTypeError(
        f"output_names contains {name!r}, which is not a name.", fix="Pass names that get_outputs() lists, as texts."
    )


def check_run_options(options: Any, refusal: type[ArgumentTypeError | UsageError] = ArgumentTypeError) -> None:
    """Refuse what is neither None nor a `RunOptions`.

    Args:
        refusal: Class of the error: onnxruntime's binding has another one for runs with a callback.

    Raises:
        ArgumentTypeError, UsageError: It is something else.
    """
    if options is None:
        return
    from ort_py.options import RunOptions  # most runs have no options

    if not isinstance(options, RunOptions):
        raise refusal(
            f"run_options must be a RunOptions, not {type(options).__name__}.",
            fix="Make one with options = ort_py.RunOptions() and set its attributes, or leave it out.",
        )
