"""Conversion of the arguments of ``InferenceSession(...)`` to options: onnxruntime's keyword arguments, and
the settings that a model may carry.

Comes first in a session's life, before providers are chosen.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

from ort_py.discovery.environment import compat_mode
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import ArgumentTypeError, Fail, InvalidArgument, Location, UsageError
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions, entries_of, entry_of, specs_of
from ort_py.options.config_checks import check_session_entries
from ort_py.options.verify_share import share_of
from ort_py.suggestions import did_you_mean

_ARGUMENTS = ("enable_fallback", "disabled_optimizers", "read_config_from_model")
_VARIABLE = "ORT_LOAD_CONFIG_FROM_MODEL"
_CONFIG_KEY = "ort_config"


def fallback_enabled(arguments: Mapping[str, Any]) -> bool:
    """Return whether another provider may take over after a failure.

    Raises:
        ValueError, TypeError: `enable_fallback` is not a number, as in onnxruntime.
    """
    return int(arguments.get("enable_fallback", 1)) == 1


def session_options(source: GivenModel, given: Any, arguments: Mapping[str, Any]) -> SessionOptions:
    """A session's own options.

    Args:
        source: The model as given.
        given: A `SessionOptions`, or a falsy value for none.
        arguments: Keyword arguments of the session.

    Raises:
        ArgumentTypeError: `given` is something else, or the model cannot be one; a builtin TypeError too.
        TypeError: Optimisers are not names.
        UsageError: The model's settings, or config entries, are malformed; a builtin RuntimeError too.
        InvalidArgument, Fail: Config entries contradict the model.
        OptionError: The environment's share of runs to verify is none.
    """
    if given is not None and not isinstance(given, SessionOptions):
        if given:
            raise ArgumentTypeError(
                f"sess_options must be a SessionOptions, not {type(given).__name__}.",
                fix="Make one with options = ort_py.SessionOptions() and set its attributes.",
            )
        given = None  # a falsy value counts as none, as in onnxruntime
    _warn_of_unknown(arguments)
    options = SessionOptions() if given is None else copy.copy(given)
    disabled = list(arguments.get("disabled_optimizers") or ())
    if not all(isinstance(name, str) for name in disabled):
        raise TypeError(f"disabled_optimizers must be names, not {disabled!r}.")
    disabled += entry_of(options, "optimization.disable_specified_optimizers").split(";")
    if any(disabled):
        options.disabled_transforms = (*options.disabled_transforms, *filter(None, disabled))
    if _reads_config(arguments):
        _take_config(options, source)
    check_session_entries(entries_of(options), options.intra_op_num_threads)
    share_of(options.verify)
    _check_formats(options, source)
    return options


def _warn_of_unknown(arguments: Mapping[str, Any]) -> None:
    for name in arguments:
        if name not in _ARGUMENTS and not compat_mode():
            hint = did_you_mean(name, ("sess_options", "providers", "provider_options", *_ARGUMENTS))
            warn_user(f"InferenceSession has no argument '{name}'; it is ignored. {hint}".rstrip(), UserWarning)


def _check_formats(options: SessionOptions, source: GivenModel) -> None:
    """Refuse what onnxruntime's own file format, and its format of compiled models, would be needed for."""
    if entry_of(options, "session.load_model_format").upper() == "ORT":
        raise Fail(
            "The config entry 'session.load_model_format' asks for onnxruntime's own format.",
            why="only onnxruntime reads it",
            fix="Leave the entry out, and load the .onnx file the model was made from.",
        )
    target = os.fspath(options.optimized_model_filepath)
    if target and (entry_of(options, "session.save_model_format").upper() == "ORT" or target.lower().endswith(".ort")):
        raise Fail(
            "The optimised model cannot be written in onnxruntime's own format.",
            where=Location(file=target),
            why="only onnxruntime writes and reads it",
            fix="Give SessionOptions.optimized_model_filepath a name that ends in .onnx.",
        )
    on_disk = bool(source.path) or entry_of(options, "ep.context_file_path")
    if entry_of(options, "ep.context_enable") == "1" and not on_disk:
        raise InvalidArgument(
            "A compiled model was requested, but there is no path to write it to.",
            why="the model was given as bytes, and the config entry 'ep.context_file_path' is not set",
            fix="Set 'ep.context_file_path', or give the model's path.",
        )


def _reads_config(arguments: Mapping[str, Any]) -> bool:
    if "read_config_from_model" in arguments:
        return int(arguments["read_config_from_model"]) == 1
    return os.environ.get(_VARIABLE) == "1"


def _take_config(options: SessionOptions, source: GivenModel) -> None:
    """Let settings that the model carries in its metadata replace those of the options, as onnxruntime does."""
    from ort_py.graph.reading.sources import read_source

    proto = read_source(source.content, options.limits, None).proto
    text = next((entry.value for entry in proto.metadata_props if entry.key == _CONFIG_KEY), None)
    if text is None:
        return
    try:
        import json  # most sessions are given nothing in it

        config = json.loads(text)
        settings = config.get("session_options", {})
        for spec in specs_of(SessionOptions):
            if spec.carried and spec.name in settings:
                setattr(options, spec.name, spec.values.carried(settings[spec.name]))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"The settings that the model carries in its metadata under '{_CONFIG_KEY}' are malformed.",
            why=f"{type(error).__name__}: {error}",
            fix="Pass read_config_from_model=0 to ignore them, or export the model again.",
        ) from error
