"""What the session's report says of a precision that was asked for: who computes in it, and who does not, and why.

Comes after the providers were created. What computing in it means is each provider's own business.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ort_py.contracts import IExecutionProvider

__all__ = ["precision_notes"]

_logger = logging.getLogger("ort_py.session")


def precision_notes(providers: Sequence[IExecutionProvider], precision: str) -> list[str]:
    """A line for each provider that does not compute as it was asked to; a warning is logged where nobody does.

    Args:
        providers: The session's, in rank order.
        precision: `SessionOptions.precision`.
    """
    refusals = {provider.name: _refusal(provider, precision) for provider in providers}
    if precision != "float32" and refusals and None not in refusals.values():
        _logger.warning("precision '%s' is without effect: no provider of this session computes in it", precision)
    return [f"{name} leaves float32 models in float32: {reason}" for name, reason in refusals.items() if reason]


def _refusal(provider: IExecutionProvider, precision: str) -> str | None:
    try:
        return provider.precision_refusal(precision)
    except Exception as error:  # a plug-in's code: whatever it raises, the session is made
        return f"asking it raised {type(error).__name__}: {error}"
