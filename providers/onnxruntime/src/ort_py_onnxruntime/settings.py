"""The options of the bridge's providers, checked against the installed onnxruntime.

Comes after `native`, before `provider`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ort_py.errors import EPFail, Location, OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py_onnxruntime.native import devices_of, native
from ort_py_onnxruntime.routes import CPU, GENERAL

__all__ = ["Settings", "Used", "settings_of_general", "settings_of_one"]


@dataclass(frozen=True, slots=True)
class Used:
    """One of onnxruntime's providers, as its sessions get it.

    Attributes:
        name: Its name.
        options: Its options, as onnxruntime takes them.
        devices: Devices of the plug-in that has it; empty where it is built in.
    """

    name: str
    options: Mapping[str, str]
    devices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that sessions of onnxruntime are made with.

    Attributes:
        providers: In order of preference.
        threads: Of one run.
        completes: Whether onnxruntime's CPU provider may run nodes.
    """

    providers: tuple[Used, ...]
    threads: int
    completes: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the providers."""
        return tuple(used.name for used in self.providers)


def settings_of_one(name: str, options: Mapping[str, Any], threads: int) -> Settings:
    """Return the settings for one of onnxruntime's providers alone.

    Args:
        options: Validated, with an empty text where the user gave none.
        threads: Of the session.

    Raises:
        OptionError: `further_options` is no JSON object.
        EPFail: This onnxruntime does not have the provider, or its plug-in finds no device.
    """
    ours = ("claim_small", "device_values", "further_options")
    given = {key: str(value) for key, value in options.items() if key not in ours and value != ""}
    given |= _object(name, options["further_options"])
    used = _used(name, given)
    if used is None:
        raise EPFail(
            f"The installed onnxruntime {native().get_version_string()} has no {name}.",
            why=f"it has {', '.join(native().get_available_providers())}",
            fix="`ort-py providers` says what to install.",
        )
    return Settings((used,), threads, completes=False)


def settings_of_general(options: Mapping[str, Any], threads: int) -> Settings:
    """Settings for onnxruntime with the providers that are asked for, and its CPU provider behind them.

    Raises:
        OptionError: The installed onnxruntime has no provider of a name, or an option is wrong.
        EPFail: The plug-in of a provider does not register, or finds no device.
    """
    names = [name.strip() for name in options["providers"].split(",") if name.strip()]
    given = _objects(options["provider_options"], len(names))
    providers = []
    for name, one in zip(names, given, strict=True):
        used = _used(name, one)
        if used is None:
            raise OptionError(
                f"The installed onnxruntime {native().get_version_string()} has no {name}.",
                where=Location(provider=GENERAL),
                why=f"it has {', '.join(native().get_available_providers())}",
                fix="Name one of these in option 'providers', or install the package that has it.",
            )
        providers.append(used)
    built_in = [used.name for used in providers if not used.devices and used.name != CPU]
    if built_in and len(built_in) < len([used for used in providers if used.name != CPU]):
        raise OptionError(
            f"Option 'providers' of {GENERAL} mixes providers of plug-ins and others.",
            where=Location(provider=GENERAL),
            why=f"{', '.join(built_in)} would be left out: a session of onnxruntime takes one kind or the other",
            fix="Name one kind here, and the other providers by their own names in the list of the session.",
        )
    if CPU not in names:
        providers.append(Used(CPU, {}))
    return Settings(tuple(providers), options["threads"] or threads, completes=True)


def _used(name: str, options: Mapping[str, str]) -> Used | None:
    # A plug-in is asked first: registered, its provider is in the list of those that are built in, too.
    devices = devices_of(name)
    if devices:
        return Used(name, options, tuple(devices))
    return Used(name, options) if name in native().get_available_providers() else None


def _object(name: str, text: str) -> dict[str, str]:
    found, reason = _parsed(text or "{}")
    if not isinstance(found, dict):
        raise OptionError(
            f"Option 'further_options' of {name} is no JSON object.",
            where=Location(provider=name),
            why=reason,
            fix='Write {"option": "value"}.',
        )
    return _texts(found)


def _objects(text: str, count: int) -> list[dict[str, str]]:
    found, reason = _parsed(text) if text else ([{}] * count, "")
    if not isinstance(found, list) or len(found) != count or not all(isinstance(entry, dict) for entry in found):
        raise OptionError(
            f"Option 'provider_options' of {GENERAL} is not a list of objects, one a provider.",
            where=Location(provider=GENERAL),
            why=reason,
            fix=f"Write {json.dumps([{}] * count)}, with the options of each inside.",
        )
    return [_texts(entry) for entry in found]


def _parsed(text: str) -> tuple[Any, str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        return None, str(error)
    return found, f"it holds {found!r}"


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options as onnxruntime takes them: text, with truth values as 1 and 0; what is nested is JSON."""
    return {name: _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)
