"""One side of a comparison: which providers with which options, from the short forms that a caller may write.

Comes before `compare` and `bisection`, which open sessions of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ort_py.api.session import InferenceSession
from ort_py.engine.recipe import ProviderArgument
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import ArgumentTypeError, InvalidArgument
from ort_py.inspection.comparison.examining import examining_options
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions
from ort_py.suggestions import did_you_mean

LEVELS: Mapping[str, GraphOptimizationLevel] = {
    "disable": GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
}
"""Optimisation levels by the words that a comparison takes for them."""


@dataclass(frozen=True, slots=True)
class SessionConfiguration:
    """Settings for a session of a model.

    Attributes:
        options: Its options; the defaults where None.
        providers: Names, or (name, options) pairs, in order of preference; None for every usable provider by rank.
        provider_options: One mapping a provider, where `providers` has names only.
    """

    options: SessionOptions | None = None
    providers: ProviderArgument | None = None
    provider_options: Sequence[Mapping[str, Any]] | None = None

    def open(self, model: str | os.PathLike[str] | bytes | Any) -> InferenceSession:
        """A session for examining: it writes no file, profiles and verifies nothing, and neither reads nor fills
        the cache.

        A provider that fails in a run is not replaced by another one: what was to be examined would be gone.
        """
        session = InferenceSession(model, self.settings(), self.providers, self.provider_options)
        session.disable_fallback()
        return session

    def settings(self) -> SessionOptions:
        return examining_options(self.options)

    def at(self, level: GraphOptimizationLevel, disabled: Sequence[str] = ()) -> SessionConfiguration:
        """The same at another optimisation level, with further transforms switched off."""
        options = self.settings()
        options.graph_optimization_level = level
        options.disabled_transforms = (*options.disabled_transforms, *disabled)
        return SessionConfiguration(options, self.providers, self.provider_options)

    def __str__(self) -> str:
        level = GraphOptimizationLevel(self.settings().graph_optimization_level).name
        if self.providers is None:
            return f"all usable providers at {level}"
        names = [one if isinstance(one, str) else one[0] for one in self.providers]
        return f"{', '.join(names)} at {level}"


ConfigurationLike: TypeAlias = (
    SessionConfiguration | SessionOptions | GraphOptimizationLevel | str | Sequence[str | tuple[str, Mapping[str, Any]]]
)
"""Forms that a side can be given in: options, a level or the word for one (``"basic"``), one provider or several."""


def configuration_of(given: ConfigurationLike, side: str) -> SessionConfiguration:
    """The configuration that a caller means.

    Raises:
        ArgumentTypeError: It has no permitted form; a builtin TypeError too.
        InvalidArgument: A word is neither a level nor a provider's name.
    """
    if isinstance(given, SessionConfiguration):
        return given
    if isinstance(given, SessionOptions):
        return SessionConfiguration(given)
    if isinstance(given, GraphOptimizationLevel):
        return SessionConfiguration().at(given)
    if isinstance(given, str):
        if given in LEVELS:
            return SessionConfiguration().at(LEVELS[given])
        hint = did_you_mean(given, LEVELS)
        if hint or not given.endswith("ExecutionProvider"):
            raise InvalidArgument(
                f"{side}={given!r} is neither an optimisation level nor a provider.",
                why=f"levels are {', '.join(LEVELS)}; names of providers end in ExecutionProvider",
                fix=hint or f"If it is the name of a provider, write {side}=['{given}'].",
            )
        return SessionConfiguration(providers=[given])
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return SessionConfiguration(providers=list(given))
    raise ArgumentTypeError(
        f"{side} cannot be a {type(given).__name__}.",
        why="the argument describes how to create a session",
        fix=f'Pass a level ({side}="basic"), a list of providers, SessionOptions, or a SessionConfiguration with both.',
    )
