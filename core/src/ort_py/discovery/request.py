"""The user's ``providers`` and ``provider_options``, in every shape onnxruntime takes, as one list.

Comes before `selection`. It does not depend on what is installed. Shapes that onnxruntime mistakes for something else
are refused: a bare string is a list of letters to it, and a set has no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ort_py.discovery.environment import requested_providers
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import ArgumentTypeError, OptionError
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One provider the user asks for, with the options as given."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_request(
    providers: Iterable[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None = None
) -> list[ProviderRequest] | None:
    """The requested providers in order, each once, or None if the choice is left to ort-py.

    Where `providers` is None or empty, ``ORT_PY_PROVIDERS`` counts.

    Raises:
        OptionError: One of the arguments has a shape that cannot be meant.
        ArgumentTypeError: `providers` is nothing to go through; a builtin TypeError too, as in onnxruntime.
    """
    if isinstance(providers, str):
        raise OptionError(f"providers is the string {providers!r}.", fix=f"Pass a list: providers=[{providers!r}].")
    if isinstance(providers, Mapping | set | frozenset):
        raise OptionError(
            f"providers is a {type(providers).__name__}.", fix="Pass a list: the order is the order of preference."
        )
    entries: list[Any] = [] if providers is None else _as_list(providers)
    options = _option_list(provider_options)
    if not entries:
        if any(options):
            raise OptionError("provider_options is given without providers.", fix="Pass both, of one length.")
        named = requested_providers()
        return None if named is None else _unique([ProviderRequest(name) for name in named])
    if options and len(options) != len(entries):
        raise OptionError(
            f"provider_options has {len(options)} entries and providers has {len(entries)}.",
            fix="Pass one mapping for each provider, or (name, options) pairs in providers.",
        )
    requests = [_request(entry) for entry in entries]
    if options:
        if any(request.options for request in requests):
            raise OptionError(
                "Options are given twice: in providers and in provider_options.", fix="Use one of the two places."
            )
        requests = [ProviderRequest(request.name, given) for request, given in zip(requests, options, strict=True)]
    return _unique(requests)


def _as_list(providers: Any) -> list[Any]:
    try:
        return list(providers)
    except TypeError:
        raise ArgumentTypeError(
            f"providers is {providers!r}.", fix="Pass a list of names or of (name, options) pairs."
        ) from None


def _option_list(provider_options: Any) -> list[Mapping[str, Any]]:
    if provider_options is None:
        return []
    if isinstance(provider_options, Mapping | str) or not isinstance(provider_options, Iterable):
        raise OptionError(
            f"provider_options is a {type(provider_options).__name__}.", fix="Pass a list with one mapping a provider."
        )
    options = list(provider_options)
    for given in options:
        if not isinstance(given, Mapping):
            raise OptionError(f"provider_options contains {given!r}.", fix="Its entries are mappings of options.")
    return options


def _request(entry: Any) -> ProviderRequest:
    if isinstance(entry, str):
        return ProviderRequest(str(entry))  # NumPy has texts of its own class
    match entry:
        case (str() as name, Mapping() as options):
            return ProviderRequest(str(name), options)
    raise OptionError(
        f"providers contains {entry!r}.", fix="Its entries are names, or pairs like ('NameExecutionProvider', {...})."
    )


def _unique(requests: Sequence[ProviderRequest]) -> list[ProviderRequest]:
    found: dict[str, ProviderRequest] = {}
    for request in requests:
        if request.name in found:
            warn_user(f"The provider {request.name} is named twice; its first place and options count.", UserWarning)
        else:
            found[request.name] = request
    return list(found.values())
