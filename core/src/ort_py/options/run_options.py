"""RunOptions: options of one run. Comes before `session.run`, which reads `terminate` between steps."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ort_py.errors import ArgumentTypeError, OptionError
from ort_py.options.checked import CheckedOptions
from ort_py.options.config_values import check_run_entries

if TYPE_CHECKING:
    from ort_py.values.adapters import LoraAdapter

__all__ = ["RunOptions"]


class RunOptions(CheckedOptions):
    """Options of one run: `log_severity_level`, `log_verbosity_level`, `logid`, `only_execute_path_to_fetches`,
    `terminate`. Setting `terminate` from another thread stops the run between two steps; the others have no effect.

    `batch_axis`, ort-py's own, names the axis of inputs and outputs along which items do not depend on each other, from
    0 on: a run that finds memory short is then repeated in parts, whose results are put together in order.

    The config entry ``memory.enable_memory_arena_shrinkage`` gives back, after the run, what is kept for speed.
    """

    __slots__ = ("_adapters",)

    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "batch_axis": None,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    _TYPES: ClassVar[dict[str, tuple[type, ...]]] = {
        "batch_axis": (int, NoneType),
        "log_severity_level": (int,),
        "log_verbosity_level": (int,),
        "logid": (str,),
        "only_execute_path_to_fetches": (bool,),
        "terminate": (bool,),
    }

    _adapters: list[LoraAdapter]

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_adapters", [])

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "batch_axis" and value is not None and value < 0:
            self._values[name] = None
            raise OptionError(
                f"RunOptions.batch_axis cannot be {value}.",
                why="counted from the end, it would be another axis for inputs of another rank",
                fix="Count from the first axis, which is 0.",
            )

    def add_run_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry of the run.

        Raises:
            TypeError: Key or value is no string.
            UsageError: The key is empty or longer than 1024 characters; a builtin RuntimeError too.
            OptionError: The key is close to a known one.
        """
        self._add_entry(key, value, "run")

    def get_run_config_entry(self, key: str, /) -> str:
        """A config entry.

        Raises:
            UsageError: It was never set; a builtin RuntimeError too.
        """
        return self._get_entry(key)

    def add_active_adapter(self, adapter: LoraAdapter, /) -> None:
        """Let an adapter's parameters replace initializers of the same names in runs with these options.

        Args:
            adapter: Loaded or not: one without parameters replaces nothing. The first one added wins.

        Raises:
            ArgumentTypeError: It is no adapter; a builtin TypeError too.
        """
        from ort_py.values.adapters import LoraAdapter

        if not isinstance(adapter, LoraAdapter):
            raise ArgumentTypeError(
                f"An adapter is a LoraAdapter, not a {type(adapter).__name__}.",
                fix="Make one with adapter = LoraAdapter(); adapter.Load(path).",
            )
        self._adapters.append(adapter)

    def active_adapters(self) -> tuple[LoraAdapter, ...]:
        """Adapters whose parameters replace initializers in runs with these options."""
        return tuple(self._adapters)

    def with_adapters(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """A feed together with the parameters of the adapters, which win over the caller's; without any, the feed."""
        if not self._adapters:
            return feed
        merged = dict(feed)
        for adapter in reversed(self._adapters):
            merged.update(adapter.parameters)
        return merged

    def copied(self) -> Self:
        """An independent copy with the same adapters."""
        twin = super().copied()
        twin._adapters.extend(self._adapters)
        return twin

    def shrinks_memory(self) -> bool:
        """Check the config entries, and say whether memory is to be given back after the run.

        Raises:
            InvalidArgument: A value is malformed, or names a device whose memory is not kept here.
        """
        return bool(self._config) and check_run_entries(self._config)
