"""The provider's options, checked against the installed onnxruntime. Comes before `provider`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnxruntime

from ort_py.errors import OptionError

__all__ = ["CPU", "Settings", "settings_of"]

CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of onnxruntime's sessions.

    Attributes:
        providers: Its providers with their options, in order; its own CPU provider is among them.
        threads: Threads of one run.
    """

    providers: tuple[tuple[str, dict[str, Any]], ...]
    threads: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its providers."""
        return tuple(name for name, _ in self.providers)


def settings_of(options: Mapping[str, Any], threads: int) -> Settings:
    """Settings of the provider's options.

    Args:
        options: Each option of the factory's schema.
        threads: Threads the session has.

    Raises:
        OptionError: As `OnnxruntimeFactory.create`.
    """
    names = [name.strip() for name in options["providers"].split(",") if name.strip()] or [CPU]
    there = onnxruntime.get_available_providers()
    missing = [name for name in names if name not in there]
    if missing:
        raise OptionError(
            f"The installed onnxruntime {onnxruntime.__version__} has no {', '.join(missing)}.",
            where="option 'providers' of OnnxruntimeExecutionProvider",
            why=f"it has {', '.join(there)}",
            fix="Install the variant of onnxruntime that has it, say onnxruntime-directml or onnxruntime-qnn.",
        )
    given = _parsed(options["provider_options"], len(names))
    pairs = list(zip(names, given, strict=True))
    if CPU not in names:
        pairs.append((CPU, {}))
    return Settings(tuple(pairs), options["threads"] or threads)


def _parsed(text: str, count: int) -> list[dict[str, Any]]:
    if not text:
        return [{} for _ in range(count)]
    try:
        given = json.loads(text)
    except ValueError as error:
        given, reason = None, str(error)
    else:
        reason = f"it holds {given!r}"
    if not isinstance(given, list) or len(given) != count or not all(isinstance(entry, dict) for entry in given):
        raise OptionError(
            "Option 'provider_options' of OnnxruntimeExecutionProvider is not a list of objects, one a provider.",
            why=reason,
            fix=f"Write {json.dumps([{}] * count)}, with the options of each inside.",
        )
    return given
