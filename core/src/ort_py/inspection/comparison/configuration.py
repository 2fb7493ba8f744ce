"""Conversion of a comparison's arguments from the short forms that a caller may write: sides, feeds and tolerances.

`compare` and `bisection` use the results. Sessions check the contents of feeds themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ort_py.api.session import InferenceSession
from ort_py.dtypes import DataType
from ort_py.engine.metadata import NodeArg
from ort_py.engine.recipe import ProviderArgument
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import ArgumentTypeError, InvalidArgument
from ort_py.inspection.comparison.engines import examining_options
from ort_py.inspection.comparison.measuring import Tolerances
from ort_py.inspection.generated_inputs import InputRecipe, generate
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions
from ort_py.suggestions import did_you_mean
from ort_py.tolerances import TOLERANCES

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
        """Open a session to examine: it writes no file, profiles and verifies nothing, and uses no cache.

        A provider that fails in a run is not replaced by another one, because that provider is being examined.
        """
        session = InferenceSession(model, self.settings(), self.providers, self.provider_options)
        session.disable_fallback()
        return session

    def settings(self) -> SessionOptions:
        return examining_options(self.options)

    def at(self, level: GraphOptimizationLevel, disabled: Sequence[str] = ()) -> SessionConfiguration:
        """Return a copy with another optimisation level and with further transforms switched off."""
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
    """Convert one side of a comparison to a configuration.

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


Feeds: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One feed, several, or None for generated values."""


def feeds_of(given: Feeds, declared: Sequence[NodeArg], seed: int) -> list[Mapping[str, Any]]:
    """Convert the caller's argument to feeds.

    Args:
        declared: Inputs that the model requires.

    Raises:
        ArgumentTypeError: It is neither a mapping nor a list of mappings; a builtin TypeError too.
        InvalidArgument: The list is empty, or an input cannot be generated.
    """
    if given is None:
        recipe = InputRecipe(seed=seed)
        return [{argument.name: generate(argument, recipe).value for argument in declared}]
    if isinstance(given, Mapping):
        return [given]
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise ArgumentTypeError(
            f"inputs cannot be a {type(given).__name__}.",
            why="a feed must be a mapping of input names to values",
            fix="Pass one feed, a list of feeds, or None for generated values.",
        )
    if not given:
        raise InvalidArgument(
            "There are no feeds to compare with.", fix="Pass at least one, or None for generated values."
        )
    return list(given)


_BY_NAME = {one.onnx_name: one for one in DataType if one is not DataType.UNDEFINED}


def tolerances_of(given: Mapping[str, tuple[float, float]] | None) -> Tolerances:
    """Return the table of `ort_py.tolerances` with some entries replaced.

    Args:
        given: (relative, absolute) by the name of an element type, e.g. ``"float16"``.

    Raises:
        InvalidArgument: The type does not exist, or the value is not a pair of numbers of at least 0.
    """
    table = dict(TOLERANCES)
    for name, pair in (given or {}).items():
        if name not in _BY_NAME:
            raise InvalidArgument(
                f"The element type '{name}' of a tolerance does not exist.",
                why=f"there are {', '.join(_BY_NAME)}",
                fix=did_you_mean(name, _BY_NAME) or "Use the names of types in ONNX.",
            )
        try:
            relative, absolute = (float(number) for number in pair)
        except (TypeError, ValueError):
            relative = absolute = -1.0
        if not (relative >= 0 and absolute >= 0):
            raise InvalidArgument(
                f"The tolerance of {name} is {pair!r}.",
                why="a tolerance is a pair of a relative and an absolute error, each at least 0",
                fix=f'Write e.g. {{"{name}": (1e-3, 1e-4)}}.',
            )
        table[_BY_NAME[name]] = (relative, absolute)
    return table
