"""Notes in the session's report about a requested precision: the providers that compute in it, and the reasons of those
that do not.

Comes after the providers were created. What computing in it means is each provider's own business.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ort_py.contracts import IExecutionProvider

__all__ = ["precision_notes"]

_logger = logging.getLogger("ort_py.session")


def precision_notes(providers: Sequence[IExecutionProvider], precision: str) -> list[str]:
    """Return a line for each provider that does not compute in the requested precision. If none does, log a warning.

    Args:
        providers: The session's, in rank order.
        precision: `SessionOptions.precision`.
    """
    refusals = {provider.name: _refusal(provider, precision) for provider in providers}
    if precision != "float32" and refusals and None not in refusals.values():
        _logger.warning("precision '%s' has no effect: no provider of this session computes in it", precision)
    return [f"{name} leaves float32 models in float32: {reason}" for name, reason in refusals.items() if reason]


def _refusal(provider: IExecutionProvider, precision: str) -> str | None:
    try:
        return provider.precision_refusal(precision)
    except Exception as error:  # a plug-in's code: whatever it raises, the session is made
        return f"asking it raised {type(error).__name__}: {error}"
