"""The record of one option: its name, type, default, effect and documentation.

Every fact about an option stands in its `EngineOption` and nowhere else. The attributes of `SessionOptions` and
`RunOptions` (`option_set`), the config entries (`config_entries`), the checks of values, the load report, the key of
the cache, the fingerprint of a session and the page ``docs/user/options.md`` are all made of these records. It does not
depend on particular options.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from types import NoneType
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ort_py.contracts import OptionSpec
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass

T = TypeVar("T")

FIRST_VERSION = "0.1.0"
"""Version of ort-py that an option has been in from the beginning."""

_INT32 = range(-(2**31), 2**31)


class Effect(Enum):
    """The effect of an option."""

    NONE = "nothing"
    """The option is accepted because onnxruntime has it, and changes nothing. The load report names it where it is
    set."""

    RUNS = "runs"
    """How models run: memory, files that are written, checks. The prepared model is the same, so the option
    is no part of its key in the cache, nor of the session's fingerprint."""

    PROGRAM = "program"
    """The program that a session makes of a model. The key in the cache and the fingerprint both contain the option."""

    MACHINE = "program on this machine"
    """Like `PROGRAM`, but set differently on machines that run the same, so the fingerprint does not contain it."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """The type of an option's values, and the checks of one.

    Attributes:
        title: The type in words, for messages and documentation.
        choices: All values that are allowed; empty where there are too many to list.
        check: Called with a value of the right type and the option's name as users write it. Raises an `OrtPyError`
            where the value is out of bounds.
    """

    title: str
    types: tuple[type, ...]
    choices: tuple[Any, ...] = ()
    check: Callable[[Any, str], object] | None = None

    def accepted(self, value: Any, name: str) -> T:
        """Check a value and convert what onnxruntime also takes: 0 and 1 for a bool, NumPy's numbers, bytes for text.

        Args:
            name: The option as users write it, for messages.

        Returns:
            The value that is kept.

        Raises:
            TypeError: The value has another type, or is an integer of more than 32 bits.
            OptionError: The value is not among the choices, or out of bounds.
        """
        found: Any = value if type(value) in self.types else self._converted(value)
        # A bool is an int in Python, and a plain int is not an enum: both are mistakes worth naming.
        wrong_bool = isinstance(found, bool) and bool not in self.types
        wrong_size = type(found) is int and found not in _INT32
        if not isinstance(found, self.types) or wrong_bool or wrong_size:
            expected = self.title + (" of 32 bits" if wrong_size else "")
            raise TypeError(f"{name} takes {expected}, not {found!r} ({type(found).__name__}).")
        if self.choices and found not in self.choices:
            raise OptionError(
                f"{name} cannot be {found!r}.",
                why=f"allowed: {', '.join(map(repr, self.choices))}",
                fix="Use one of these.",
            )
        if self.check is not None and found is not None:
            self.check(found, name)
        return cast("T", found)

    def optional(self) -> Kind[T | None]:
        """The same kind, which also takes None."""
        return Kind(
            f"{self.title} or None", (*self.types, NoneType), (None, *self.choices) if self.choices else (), self.check
        )

    def checked(self, check: Callable[[T, str], object], title: str = "") -> Kind[T]:
        """The same kind with a check of its values, and another title where one is given."""
        return replace(self, check=check, title=title or self.title)

    def carried(self, value: Any) -> Any:
        """Convert a value from a model's metadata, where members of enumerations are numbers."""
        kind = self.types[0]
        return kind(value) if issubclass(kind, Enum) else value

    def _converted(self, value: Any) -> Any:
        if str in self.types:
            return value.decode("utf-8") if isinstance(value, bytes) else value
        if self.types == (bool,) and isinstance(value, int | np.integer | np.bool_):
            return bool(value) if value in (0, 1) else value
        if int in self.types and isinstance(value, np.integer):
            return int(value)
        return value


FLAG: Kind[bool] = Kind("bool", (bool,))
NUMBER: Kind[int] = Kind("int", (int,))
TEXT: Kind[str] = Kind("str", (str,))
PATH: Kind[str | os.PathLike[str]] = Kind("str or os.PathLike", (str, os.PathLike))
"""onnxruntime takes texts only."""


def one_of(*choices: str) -> Kind[str]:
    """The kind of an option that takes some texts only."""
    return Kind("str", (str,), choices)


def member_of(enumeration: type[T]) -> Kind[T]:
    """The kind of an option whose values are members of an enumeration; plain numbers are refused."""
    return Kind(enumeration.__name__, (enumeration,))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOption(OptionSpec):
    """An option of sessions or runs, or a config entry: an `OptionSpec`, and what the engine has to know about it.

    `default` is the value if it is not set; for a config entry, what an absent entry means. `help` says in full
    sentences what the option does; for an option without effect, what it does in onnxruntime, and what ort-py does
    instead. Make one with `engine_option`.

    Attributes:
        onnxruntime_name: Its name in onnxruntime, None where onnxruntime has no such option.
        since: Version of ort-py that first had it.
        guarded: Whether it may not be set through interfaces that pass on untrusted input, such as ONNX's backend
            interface: it writes files, or makes runs fail.
        carried: Whether a model may carry a value of it in its metadata.
    """

    values: Kind[Any]
    effect: Effect
    onnxruntime_name: str | None = None
    since: str = FIRST_VERSION
    guarded: bool = False
    carried: bool = False

    @property
    def title(self) -> str:
        return self.values.title

    def documentation(self) -> str:
        """The text that `help` shows: what the option does, its type, default and effect."""
        default = str(self.default) if isinstance(self.default, Enum) else repr(self.default)
        facts = [f"{self.title}, {default} by default"]
        if self.choices:
            facts.append(f"one of {', '.join(map(repr, self.choices))}")
        if self.effect is Effect.NONE:
            facts.append("without effect here")
        facts.append("as in onnxruntime" if self.onnxruntime_name else "an option of ort-py")
        return f"{self.help}\n\n{'; '.join(facts)}."


def engine_option(
    name: str, values: Kind[Any], default: Any, text: str, effect: Effect, *, own: bool = False, **facts: Any
) -> EngineOption:
    """Make the record of an option whose type and choices are those of its values.

    Args:
        name: The attribute or config key, as users write it.
        own: Whether it is ort-py's own; onnxruntime has an option of the same name otherwise.
        **facts: `since`, `guarded`, `carried` of `EngineOption`.
    """
    return EngineOption(
        name=name,
        kind=values.types[0],
        default=default,
        help=text,
        choices=values.choices,
        values=values,
        effect=effect,
        onnxruntime_name=None if own else name,
        **facts,
    )
