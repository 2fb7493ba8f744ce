"""RunOptions: the table of a run's options, with onnxruntime's methods.

Comes before `session.run`, which looks at `terminate` between two steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from ort_py.errors import ArgumentTypeError, OptionError
from ort_py.options.config_checks import check_run_entries
from ort_py.options.option_set import Option, OptionSet
from ort_py.options.spec import FLAG, NUMBER, TEXT, Effect

if TYPE_CHECKING:
    import numpy as np

_USE_LOGGING = "ort-py logs with Python's `logging`: configure the loggers below `ort_py` instead."


class Adapter(Protocol):
    """Parameters that replace initializers in single runs; `LoraAdapter` reads them from a file."""

    @property
    def parameters(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Arrays by the name of the initializer that they replace."""


def _check_axis(axis: int, name: str) -> None:
    if axis < 0:
        raise OptionError(
            f"{name} cannot be {axis}.",
            why="an axis counted from the end differs between inputs of different ranks",
            fix="Count from the first axis, which is 0.",
        )


class RunOptions(OptionSet):
    """Options of one run: onnxruntime's attributes and methods with its defaults, and those of ort-py.

    Attributes are checked when they are set. ``docs/user/options.md`` lists all attributes and config entries.
    """

    __slots__ = ("_adapters",)

    log_severity_level = Option(NUMBER, -1, f"The lowest severity that is logged. {_USE_LOGGING}", effect=Effect.NONE)
    log_verbosity_level = Option(NUMBER, 0, f"The level of detail of verbose logs. {_USE_LOGGING}", effect=Effect.NONE)
    logid = Option(TEXT, "", f"A name that appears in each line of the log. {_USE_LOGGING}", effect=Effect.NONE)
    only_execute_path_to_fetches = Option(
        FLAG,
        False,
        "Runs only the nodes that the requested outputs need. ort-py runs the whole model in any case.",
        effect=Effect.NONE,
    )
    terminate = Option(
        FLAG,
        False,
        "Stops the run before its next step. It may be set from another thread; the run then raises `Fail`.",
        effect=Effect.RUNS,
        guarded=True,
    )
    batch_axis = Option(
        NUMBER.checked(_check_axis).optional(),
        None,
        "The axis of all inputs and outputs, from 0 on, along which items do not depend on each other. A run that "
        "finds memory short is repeated in parts along it, and the results are put together in order.",
        effect=Effect.RUNS,
        own=True,
    )

    _adapters: list[Adapter]

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_adapters", [])

    def __copy__(self) -> Self:
        """Copy the options; both have the same adapters."""
        twin = super().__copy__()
        twin._adapters.extend(self._adapters)
        return twin

    def add_run_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry of the run.

        Raises:
            TypeError: Key or value is not a string.
            UsageError: The key is empty or longer than 1024 characters; a builtin RuntimeError too.
            OptionError: The key is close to a known one.
        """
        self._add_entry(key, value, "run")

    def get_run_config_entry(self, key: str, /) -> str:
        """Return a config entry.

        Raises:
            UsageError: It was never set; a builtin RuntimeError too.
        """
        return self._get_entry(key)

    def add_active_adapter(self, adapter: Adapter, /) -> None:
        """Let an adapter's parameters replace initializers of the same names in runs with these options.

        Args:
            adapter: Loaded or not: one without parameters replaces nothing. The first one added wins.

        Raises:
            ArgumentTypeError: It is not an adapter; a builtin TypeError too.
        """
        if not isinstance(getattr(adapter, "parameters", None), Mapping):
            raise ArgumentTypeError(
                f"An adapter must be a LoraAdapter, not a {type(adapter).__name__}.",
                fix="Make one with adapter = LoraAdapter(); adapter.Load(path).",
            )
        self._adapters.append(adapter)


class _Overlay(dict[str, Any]):
    """Values that were set here, and below them those of other options, as they are when they are read."""

    __slots__ = ("_below",)

    def __init__(self, below: RunOptions) -> None:
        super().__init__()
        self._below = below

    def __missing__(self, name: str) -> Any:
        return getattr(self._below, name)  # no look-up in its values: a subclass may have a property of this name


def overlay_of(options: RunOptions | None) -> RunOptions:
    """Return options that show the values of others until an attribute of theirs is set.

    The engine sets `terminate` of an overlay to stop a run that it has started for a caller, whose options stay
    as they are, and the caller may set `terminate` as well.

    Args:
        options: The caller's options; None for the defaults.
    """
    overlay = RunOptions()
    if options is not None:
        object.__setattr__(overlay, "_values", _Overlay(options))
        object.__setattr__(overlay, "_config", options._config)
        object.__setattr__(overlay, "_adapters", options._adapters)
    return overlay


def with_adapters(options: RunOptions, feed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a feed together with the parameters of the adapters, which win over the caller's; else the feed itself."""
    if not options._adapters:
        return feed
    merged = dict(feed)
    for adapter in reversed(options._adapters):
        merged.update(adapter.parameters)
    return merged


def shrinks_memory(options: RunOptions) -> bool:
    """Check the config entries, and return whether memory is to be given back after the run.

    Raises:
        InvalidArgument: A value is malformed, or names a device whose memory is not kept here.
    """
    return bool(options._config) and check_run_entries(options._config)
