"""Environment variables that steer the choice of providers, read when a question is asked and checked.

A malformed value is the operator's mistake and raises; it never falls back. An argument or session option beats its
variable. (`hooks.switches` reads those that keep plug-ins out.)
"""

from __future__ import annotations

import os

from ort_py.discovery.suggestions import did_you_mean
from ort_py.errors import OptionError

_LEVELS = ("", "provider", "node")
_DEFAULT_PROBE_SECONDS = 2.0


def requested_providers() -> list[str] | None:
    """Names in ``ORT_PY_PROVIDERS``, None where it is unset or empty."""
    return [name.strip() for name in os.environ.get("ORT_PY_PROVIDERS", "").split(",") if name.strip()] or None


def strictness(argument: str | None = None) -> str:
    """``""``, ``"provider"`` or ``"node"``: the argument, else ``ORT_PY_STRICT``.

    Raises:
        OptionError: It is none of these.
    """
    level = os.environ.get("ORT_PY_STRICT", "").strip() if argument is None else argument
    if level not in _LEVELS:
        source = "The environment variable ORT_PY_STRICT" if argument is None else "The option 'strict'"
        hint = did_you_mean(str(level), _LEVELS[1:])
        raise OptionError(f"{source} is {level!r}.", fix=f"{hint} Use 'provider', 'node', or leave it empty.".strip())
    return level


def compat_mode(argument: bool | None = None) -> bool:
    """Return whether onnxruntime's leniency is requested: the argument, else ``ORT_PY_COMPAT``.

    Raises:
        OptionError: The variable is neither a yes nor a no.
    """
    if argument is not None:
        return argument
    value = os.environ.get("ORT_PY_COMPAT", "").strip().lower()
    if value in {"", "0", "false", "no", "off"}:
        return False
    if value in {"1", "true", "yes", "on"}:
        return True
    raise OptionError(f"The environment variable ORT_PY_COMPAT is {value!r}.", fix="Use 1 or 0.")


def probe_seconds() -> float:
    """Time limit of one probe: ``ORT_PY_PROBE_TIMEOUT``, else 2 seconds.

    Raises:
        OptionError: It is not a positive number.
    """
    value = os.environ.get("ORT_PY_PROBE_TIMEOUT", "").strip()
    if not value:
        return _DEFAULT_PROBE_SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise OptionError(
            f"The environment variable ORT_PY_PROBE_TIMEOUT is {value!r}.",
            fix="Use a number of seconds above 0 and up to 3600.",
        )
    return seconds
