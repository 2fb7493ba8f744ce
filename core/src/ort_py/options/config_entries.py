"""The table of config entries: options that are set by a key and a text, for sessions and for runs.

Keys are onnxruntime's, and some are ort-py's own. Entries without effect are listed in `ignored_entries`, those that
name a vendor in `discovery.known_names`. `config_checks` checks keys and values. Data only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ort_py.discovery.known_names import KNOWN_RUN_ENTRIES, KNOWN_SESSION_ENTRIES
from ort_py.errors import Fail, InvalidArgument, OptionError, OrtPyError, UsageError
from ort_py.options.ignored_entries import IGNORED_RUN_ENTRIES, IGNORED_SESSION_ENTRIES
from ort_py.options.spec import TEXT, Effect, EngineOption, Kind, engine_option

__all__ = ["RUN_ENTRIES", "SESSION_ENTRIES", "effect_of"]


def _entry(
    key: str, effect: Effect, text: str, *, kind: Kind[str] = TEXT, default: str = "", own: bool = False
) -> EngineOption:
    return engine_option(key, kind, default, text, effect, own=own)


def _matching(pattern: str, title: str, refusal: type[OrtPyError]) -> Kind[str]:
    """The kind of texts that match a pattern; others are refused as onnxruntime refuses them."""
    matches: Callable[[str], object] = re.compile(pattern).fullmatch

    def check(value: str, key: str) -> None:
        if not matches(value):
            raise refusal(
                f"The config entry '{key}' is {value!r}.",
                why=f"it takes {title}",
                fix="Correct the value, or leave it out.",
            )

    return TEXT.checked(check, title)


_SWITCH: Kind[str] = Kind("'0' or '1'", (str,))
"""Any other text is taken for `0`, as onnxruntime does."""

_STRICT_SWITCH = _matching("[01]", "'0' or '1'", InvalidArgument)
_GROUP = r"\s*\d+(-\d+)?(,\d+(-\d+)?)*\s*"

_CHECKED: dict[str, Kind[str]] = {
    "gpu_graph_id": _matching(r"\s*[+-]?\d+", "a whole number", InvalidArgument),
    "optimization.minimal_build_optimizations": _matching("|save|apply", "'save' or 'apply'", InvalidArgument),
    "session.dynamic_block_base": _matching(r"(?s)\s*[+-]?\d.*", "a whole number", OptionError),
    "session.intra_op_thread_affinities": _matching(
        f"{_GROUP}(;{_GROUP})*", "processors from 1 for each thread, like '1,2;3-4'", UsageError
    ),
    "session.qdq_matmulnbits_accuracy_level": _matching(r"\s*0*[0-4]\s*", "0 to 4", Fail),
}
"""Entries without effect whose values are checked nevertheless, as onnxruntime does."""

_SESSION = (
    _entry(
        "ep.context_enable",
        Effect.RUNS,
        "Asks onnxruntime to write a compiled model. ort-py keeps compiled parts in its cache instead and only checks "
        "that there would be a place for the file.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "ep.context_file_path",
        Effect.RUNS,
        "The file for the compiled model; needed with `ep.context_enable` where the model is given as bytes.",
    ),
    _entry(
        "optimization.disable_specified_optimizers",
        Effect.PROGRAM,
        "Names of graph transforms that are not run, separated by semicolons; they are added to `disabled_transforms`.",
    ),
    _entry(
        "session.disable_cpu_ep_fallback",
        Effect.PROGRAM,
        "`1` makes it an error if a node can only run on the CPU.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "session.fallback_failures",
        Effect.RUNS,
        "The number of failed runs after which a provider is left out. Earlier failures are handled by repeating "
        "the run.",
        default="1",
        own=True,
    ),
    _entry(
        "session.fallback_retry_seconds",
        Effect.RUNS,
        "Seconds until a provider that was left out is tried again; `0` for never.",
        default="60",
        own=True,
    ),
    _entry(
        "session.fast_math",
        Effect.PROGRAM,
        "`1` does the same as the attribute `fast_math`.",
        kind=_STRICT_SWITCH,
        default="0",
        own=True,
    ),
    _entry(
        "session.keep_model_bytes",
        Effect.RUNS,
        "Whether a session keeps the bytes of its model for pickling: `1` always, `0` never. If it is not set, "
        "bytes of up to 64 MiB are kept, not counting large constants.",
        own=True,
    ),
    _entry(
        "session.load_model_format",
        Effect.RUNS,
        "`ORT` asks for onnxruntime's own format of models, which is refused.",
        default="ONNX",
    ),
    _entry(
        "session.model_cache",
        Effect.RUNS,
        "Whether the prepared model is kept in the cache: `1` always, even if it was prepared quickly or given as "
        "bytes; `0` never.",
        own=True,
    ),
    _entry(
        "session.model_external_initializers_file_folder_path",
        Effect.MACHINE,
        "The folder with the external data of a model that is given as bytes; `external_data_folder` takes precedence.",
    ),
    _entry(
        "session.optimized_model_external_initializers_file_name",
        Effect.RUNS,
        "A file next to `optimized_model_filepath` that large constants are written to.",
    ),
    _entry(
        "session.optimized_model_external_initializers_min_size_in_bytes",
        Effect.RUNS,
        "The size in bytes from which a constant counts as large.",
        default="1024",
    ),
    _entry(
        "session.placement",
        Effect.PROGRAM,
        "Names of the providers to use, in order, separated by commas. This overrides what `ort-py tune` measured. "
        "`order` means all providers in their own order.",
        own=True,
    ),
    _entry(
        "session.plugin_kernels_override",
        Effect.PROGRAM,
        "`1` lets kernels of plug-ins take the place of the providers' own; otherwise they are only used where a "
        "provider has none.",
        kind=_SWITCH,
        default="0",
        own=True,
    ),
    _entry(
        "session.record_ep_graph_assignment_info",
        Effect.RUNS,
        "`1` makes `InferenceSession.get_provider_graph_assignment_info` available. `placement` has more "
        "information and is always available.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "session.save_model_format",
        Effect.RUNS,
        "`ORT` asks to write the optimised model in onnxruntime's own format, which is refused.",
        default="ONNX",
    ),
    _entry(
        "session.trim_when_memory_is_short",
        Effect.RUNS,
        "`0` prevents the session from releasing unused memory when the process has little left.",
        kind=_SWITCH,
        default="1",
        own=True,
    ),
)

_RUN = (
    _entry(
        "memory.enable_memory_arena_shrinkage",
        Effect.RUNS,
        "Devices whose unused memory is released after the run, like `cpu:0`.",
        kind=_matching(r";*(?:(?:cpu|gpu):\d+(?:;+|$))*", "devices like 'cpu:0;gpu:0'", InvalidArgument),
    ),
)


def _without_effect(names: dict[str, str]) -> tuple[EngineOption, ...]:
    return tuple(_entry(key, Effect.NONE, text, kind=_CHECKED.get(key, TEXT)) for key, text in names.items())


SESSION_ENTRIES: dict[str, EngineOption] = {
    spec.name: spec for spec in (*_SESSION, *_without_effect({**IGNORED_SESSION_ENTRIES, **KNOWN_SESSION_ENTRIES}))
}
"""Config entries of a session by key."""

RUN_ENTRIES: dict[str, EngineOption] = {
    spec.name: spec for spec in (*_RUN, *_without_effect({**IGNORED_RUN_ENTRIES, **KNOWN_RUN_ENTRIES}))
}
"""Config entries of a run by key."""


def effect_of(key: str) -> Effect:
    """The effect of a config entry; none if the key is unknown."""
    spec = SESSION_ENTRIES.get(key) or RUN_ENTRIES.get(key)
    return Effect.NONE if spec is None else spec.effect
