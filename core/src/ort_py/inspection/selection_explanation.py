"""`ort_py.explain_selection`: which providers a session would get, and why not others, without making one.

Asks the same functions that a session asks, and turns what they raise into a line of the answer. It is independent of
models.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.discovery import CPU_ROLE, Selection, default_catalog, strictness
from ort_py.discovery.environment import compat_mode, requested_providers
from ort_py.discovery.explanation import SelectionExplanation, explained
from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.engine.engine import Engine
from ort_py.engine.provider_choice import choose
from ort_py.errors import InvalidArgument, OrtPyError
from ort_py.options import SessionOptions, additions_of

__all__ = ["SelectionExplanation", "explain_selection", "selection_of"]


def explain_selection(
    providers: Sequence[Any] | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    sess_options: SessionOptions | None = None,
) -> SelectionExplanation:
    """List the providers that were considered, in rank order, with the reason why each is taken or not. Creates no
    provider and no session.

    Returns:
        The answer; where a session would raise, `SelectionExplanation.error` says what.

    Raises:
        OptionError: ``ORT_PY_STRICT`` or another switch of the environment is malformed.
        InvalidArgument: The options have a function that chooses devices: it wants to know the model.
    """
    options = sess_options if sess_options is not None else SessionOptions()
    added = additions_of(options)
    if added.delegate is not None and not providers and not added.providers:
        raise InvalidArgument(
            "The options leave the choice to a function that needs the model.",
            fix="Create the session and call its explain_selection().",
        )
    strict = strictness(options.strict)
    selection, error = None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the answer contains the warnings of a session
        try:
            selection = choose(providers, provider_options, options, source=None, strict=strict, fallback_enabled=True)
        except OrtPyError as failure:
            error = str(failure)
    return _explained(selection, providers, options, strict, (), error)


def selection_of(engine: Engine) -> SelectionExplanation:
    """Explain the selection of an engine's providers."""
    options, selection = engine.options, engine.providers.selection
    strict = strictness(options.strict)
    return _explained(selection, engine.recipe.providers, options, strict, engine.fallback_report, "")


def _explained(
    selection: Selection | None,
    providers: Any,
    options: SessionOptions,
    strict: str,
    fallbacks: Sequence[FallbackRecord],
    error: str,
) -> SelectionExplanation:
    compat = not strict and compat_mode()
    source = _source(providers, options, compat=compat)
    return explained(
        default_catalog().records(),
        selection,
        source=source,
        named=source != _NOBODY if selection is None else not selection.automatic,
        strict=strict,
        compat=compat,
        pin_plain_cpu=options.pin_cpu,
        fallbacks=fallbacks,
        error=error,
    )


_NOBODY = "rank: no providers were named"


def _source(providers: Any, options: SessionOptions, *, compat: bool) -> str:
    """Origin of the wish for providers, in words."""
    added = additions_of(options)
    if providers:
        return "the argument providers"
    if added.providers:
        return "the session options"
    if added.delegate is not None:
        return "a function of the session options"
    if added.policy is not None:
        return f"the policy {added.policy.name}"
    if requested_providers() is not None:
        return "the environment variable ORT_PY_PROVIDERS"
    return f"onnxruntime's default, {CPU_ROLE}" if compat else _NOBODY
