"""Engines that are opened to be examined: they write no file, use no cache, and no provider of them is replaced."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.opening import open_engine
from ort_py.engine.recipe import ProviderArgument
from ort_py.options import SessionOptions


def examining_options(options: SessionOptions | None) -> SessionOptions:
    """A copy of options for a session that is examined: no file, no profile, no cache, no verification.

    Args:
        options: The options; the defaults where None.
    """
    plain = SessionOptions() if options is None else copy.copy(options)
    plain.cache_dir = "off"
    plain.optimized_model_filepath = ""
    plain.enable_profiling = False
    plain.verify = 0.0
    return plain


def open_examined(
    model: str | os.PathLike[str] | bytes | Any,
    options: SessionOptions | None,
    providers: ProviderArgument | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
) -> Engine:
    """Open an engine to examine it.

    A provider that fails in a run is not replaced by another one: what was to be examined would be gone.
    """
    engine = open_engine(model, examining_options(options), providers, provider_options)
    engine.policy.enabled = False
    return engine
