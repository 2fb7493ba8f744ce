"""Check a provider's options against what it declares, and convert them.

An option it does not declare is: accepted, ignored and reported, where onnxruntime knows it for any provider; refused
with "did you mean" where it is close to a known name; otherwise one warning. Values are converted from strings, since
onnxruntime passes nothing else; a value of a wrong kind is refused. A wrong option never leads to a fallback.

Comes before `selection`. It does not depend on records.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.contracts import OptionSpec
from ort_py.discovery.known_names import KNOWN_OPTIONS
from ort_py.discovery.suggestions import did_you_mean
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import Location, OptionError
from ort_py.lazy_dataclass import dataclass

_BOOLS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """Options as a provider gets them.

    Attributes:
        values: Every declared option with its default or the user's converted value.
        ignored: Options given that have no effect, with the reason.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)


def check_options(
    provider: str, schema: Sequence[OptionSpec], given: Mapping[str, Any], *, lenient: bool = False
) -> CheckedOptions:
    """Validate and convert the options given for a provider.

    Args:
        lenient: A misspelt option is a warning, as other unknown ones are.

    Raises:
        OptionError: A name is misspelt, or a value has a wrong kind or is not among the choices.
    """
    specs = {spec.name: spec for spec in schema}
    values = {spec.name: spec.default for spec in schema}
    ignored: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise OptionError(
                f"An option name of {provider} is {name!r}.", fix="Names of options are strings.", where=_at(provider)
            )
        spec = specs.get(name)
        if spec is not None:
            values[name] = _convert(provider, spec, value)
        elif name in KNOWN_OPTIONS:
            ignored[name] = f"onnxruntime has this option, but {provider} does not"
        else:
            _unknown(provider, name, specs, lenient=lenient)
            ignored[name] = f"{provider} has no such option"
    return CheckedOptions(values, ignored)


def _unknown(provider: str, name: str, specs: Mapping[str, OptionSpec], *, lenient: bool) -> None:
    hint = did_you_mean(name, specs) or did_you_mean(name, sorted(KNOWN_OPTIONS))
    has = f"{provider} has {', '.join(sorted(specs))}." if specs else f"{provider} has no options."
    if hint and not lenient:
        raise OptionError(f"{provider} has no option '{name}'.", where=_at(provider), why=has, fix=hint)
    warn_user(f"{provider} has no option '{name}'; it is ignored. {has}", UserWarning)


def _convert(provider: str, spec: OptionSpec, value: Any) -> Any:
    if value is None and spec.default is None:
        return None
    try:
        value = value.item() if isinstance(value, np.generic) else value
        converted = _CONVERTERS.get(spec.kind, _as_is)(value)
    except (TypeError, ValueError):
        converted = None
    if converted is None:
        raise OptionError(
            f"The option '{spec.name}' of {provider} is {value!r}.",
            where=_at(provider),
            why=f"It must be {_KINDS.get(spec.kind, spec.kind.__name__)}, not {type(value).__name__}.",
            fix=spec.help,
        )
    if spec.choices and converted not in spec.choices:
        hint = did_you_mean(str(value), [str(choice) for choice in spec.choices])
        raise OptionError(
            f"The option '{spec.name}' of {provider} is {value!r}.",
            where=_at(provider),
            why=f"It must be one of {', '.join(repr(choice) for choice in spec.choices)}.",
            fix=hint or spec.help,
        )
    return converted


def _to_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return _BOOLS.get(value.strip().lower())
    number = operator.index(value)  # bools and integers, not floats
    return bool(number) if number in {0, 1} else None


def _to_int(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value.strip(), 10)
    return None if isinstance(value, bool) else operator.index(value)


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _to_str(value: Any) -> str | None:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value) if isinstance(value, str | int | float) else None


def _as_is(value: Any) -> Any:
    return value


def _at(provider: str) -> Location:
    return Location(provider=provider)


_CONVERTERS: dict[type, Any] = {bool: _to_bool, int: _to_int, float: _to_float, str: _to_str}
_KINDS = {bool: "a truth value (1, 0, true, false)", int: "a whole number", float: "a number", str: "text"}
