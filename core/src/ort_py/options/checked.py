"""Attributes with a type each, and config entries: what both kinds of options have in common.

Comes before `session_options` and `run_options`, which list the attributes. Knows neither.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np

from ort_py.errors import OptionError, UsageError
from ort_py.options.config_keys import check_key
from ort_py.suggestions import did_you_mean

__all__ = ["PATH", "CheckedOptions", "values_of"]

PATH = (str, os.PathLike)
"""Types of attributes that are paths; onnxruntime takes texts only."""

_INT32 = range(-(2**31), 2**31)
_MAX_KEY = 1024


class CheckedOptions:
    """Attributes with a type each; anything else is refused by name."""

    __slots__ = ("_config", "_values")

    _DEFAULTS: ClassVar[dict[str, Any]]
    _TYPES: ClassVar[dict[str, tuple[type, ...]]]
    _CHOICES: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(self._DEFAULTS))
        object.__setattr__(self, "_config", {})

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(self._unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            raise AttributeError(self._unknown(name))
        allowed = self._TYPES[name]
        value = _as_onnxruntime_takes_it(value, allowed)
        # bool is an int in Python, and a plain int is no enum: both are mistakes worth naming.
        wrong_bool = isinstance(value, bool) and bool not in allowed
        wrong_size = type(value) is int and value not in _INT32
        if not isinstance(value, allowed) or wrong_bool or wrong_size:
            expected = " or ".join(kind.__name__ for kind in allowed) + (" of 32 bits" if wrong_size else "")
            raise TypeError(f"{type(self).__name__}.{name} takes {expected}, not {value!r} ({type(value).__name__}).")
        choices = self._CHOICES.get(name)
        if choices is not None and value not in choices:
            raise OptionError(
                f"{type(self).__name__}.{name} cannot be {value!r}.",
                why=f"allowed: {', '.join(map(repr, choices))}",
                fix="Use one of these.",
            )
        self._values[name] = value

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._DEFAULTS])

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self._values.items() if value != self._DEFAULTS[name]]
        changed += [f"{key!r}: {value!r}" for key, value in self._config.items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def copied(self) -> Self:
        """An independent copy."""
        twin = type(self)()
        twin._values.update(self._values)
        twin._config.update(self._config)
        return twin

    def __copy__(self) -> Self:
        return self.copied()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copied()

    def is_set(self, key: str) -> bool:
        """Whether a config entry is switched on: set, and not to ``"0"`` or ``""``."""
        return self._config.get(key, "0") not in ("", "0")

    def entry(self, key: str, default: str = "") -> str:
        """A config entry, or a default where it was never set."""
        found: str = self._config.get(key, default)
        return found

    def entries(self) -> dict[str, str]:
        """A copy of all config entries."""
        return dict(self._config)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), dict(self._values), dict(self._config)))

    def _unknown(self, name: str) -> str:
        return f"{type(self).__name__} has no option '{name}'. {did_you_mean(name, self._DEFAULTS)}".rstrip()

    def _add_entry(self, key: str, value: str, scope: str) -> None:
        key, value = _text(key), _text(value)
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"Config entries are strings, not {key!r}: {value!r}.")
        if not key or len(key) > _MAX_KEY:
            raise UsageError(
                f"A config key has 1 to {_MAX_KEY} characters, this one has {len(key)}.",
                fix="Use a key of the documentation.",
            )
        check_key(key, scope)
        self._config[key] = value

    def _get_entry(self, key: str) -> str:
        key = _text(key)
        if not isinstance(key, str):
            raise TypeError(f"Config keys are strings, not {key!r}.")
        if key not in self._config:
            raise UsageError(
                f"There is no config entry '{key}' in these {type(self).__name__}.",
                why=f"set are: {', '.join(self._config)}" if self._config else "none is set",
                fix="Set it first.",
            )
        found: str = self._config[key]
        return found


def _as_onnxruntime_takes_it(value: Any, allowed: tuple[type, ...]) -> Any:
    """Values of other types that mean the same there: 0 and 1 for a bool, NumPy's numbers, bytes for a text."""
    if str in allowed:
        return value if bytes in allowed else _text(value)
    if allowed == (bool,) and isinstance(value, int | np.integer | np.bool_):
        return bool(value) if value in (0, 1) else value
    if allowed == (int,) and isinstance(value, np.integer):
        return int(value)
    return value


def _text(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def values_of(options: CheckedOptions) -> dict[str, Any]:
    """Every attribute of some options with its value; no method, because onnxruntime's options have none."""
    return dict(options._values)


def _restore(cls: type[CheckedOptions], values: dict[str, Any], config: dict[str, str]) -> CheckedOptions:
    options = cls()
    options._values.update(values)
    options._config.update(config)
    return options
