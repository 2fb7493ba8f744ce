"""The table of session options: each attribute of `SessionOptions` with its type, default, effect and documentation.

The order is onnxruntime's attributes first, then ort-py's own. `session_options` adds the methods, `config_entries` the
options that are set as config entries.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Self, overload

from ort_py.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from ort_py.limits import Limits
from ort_py.options.option_set import Option, OptionSet
from ort_py.options.spec import FLAG, NUMBER, PATH, TEXT, Effect, Kind, member_of, one_of
from ort_py.options.verify_share import check_share

_NAMES: Kind[Collection[str]] = Kind("tuple, list or set of str", (tuple, list, set, frozenset))
_LIMITS: Kind[Limits] = Kind("Limits", (Limits,))
_BYTES: Kind[int | None] = NUMBER.optional()
_SHARE: Kind[float] = Kind("float", (float, int), check=check_share)

_USE_LOGGING = "ort-py logs with Python's `logging`: configure the loggers below `ort_py` instead."


class _TotalMemory(Option[int | None]):
    """A view of `Limits.total_memory_bytes`; it has no value of its own."""

    stored = False

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: OptionSet, owner: type) -> int | None: ...

    def __get__(self, instance: OptionSet | None, owner: type) -> Self | int | None:
        if instance is None:
            return self
        limits: Limits = instance._values["limits"]
        return limits.total_memory_bytes

    def __set__(self, instance: OptionSet, value: int | None) -> None:
        instance._values["limits"] = replace(instance._values["limits"], total_memory_bytes=value)


class SessionAttributes(OptionSet):
    """The attributes of `SessionOptions`."""

    __slots__ = ()

    enable_cpu_mem_arena = Option(
        FLAG,
        True,
        "Lets the process keep memory that runs have released, so that the next run does not have to request it "
        "from the system. `InferenceSession.trim` releases it.",
        effect=Effect.RUNS,
    )
    enable_mem_pattern = Option(
        FLAG,
        True,
        "Together with `enable_mem_reuse`, lets runs with shapes that occurred before use memory that is reserved "
        "for these shapes.",
        effect=Effect.RUNS,
    )
    enable_mem_reuse = Option(
        FLAG,
        True,
        "Together with `enable_mem_pattern`, lets results take the place of earlier ones that are no longer needed, in "
        "memory that is reserved for the shapes of a run.",
        effect=Effect.RUNS,
    )
    enable_profiling = Option(
        FLAG,
        False,
        "Records the time of every step. `InferenceSession.end_profiling` writes the file, which Chrome and Perfetto "
        "read.",
        effect=Effect.RUNS,
        guarded=True,
        carried=True,
    )
    execution_mode = Option(
        member_of(ExecutionMode),
        ExecutionMode.ORT_SEQUENTIAL,
        "`ORT_PARALLEL` lets steps that do not depend on each other run at the same time, on at most "
        "`inter_op_num_threads` of a run's threads, if that is faster. `InferenceSession.threads` shows whether "
        "this happens.",
        effect=Effect.PROGRAM,
        carried=True,
    )
    execution_order = Option(
        member_of(ExecutionOrder),
        ExecutionOrder.DEFAULT,
        "Chooses one of the possible orders of the nodes. ort-py always uses its own order.",
        effect=Effect.NONE,
    )
    graph_optimization_level = Option(
        member_of(GraphOptimizationLevel),
        GraphOptimizationLevel.ORT_ENABLE_ALL,
        "How far the graph is rewritten before it runs. Members are onnxruntime's; plain numbers are refused.",
        effect=Effect.PROGRAM,
        carried=True,
    )
    inter_op_num_threads = Option(
        NUMBER,
        0,
        "Steps of one run that may run at the same time with `ORT_PARALLEL`; 0 for as many as the run has threads.",
        effect=Effect.MACHINE,
        carried=True,
    )
    intra_op_num_threads = Option(
        NUMBER,
        0,
        "Threads of one run. 0 takes as many as the processors, quotas and environment variables allow; "
        "`InferenceSession.threads` has the number and the reason.",
        effect=Effect.MACHINE,
        carried=True,
    )
    log_severity_level = Option(NUMBER, -1, f"The lowest severity that is logged. {_USE_LOGGING}", effect=Effect.NONE)
    log_verbosity_level = Option(NUMBER, 0, f"The level of detail of verbose logs. {_USE_LOGGING}", effect=Effect.NONE)
    logid = Option(TEXT, "", f"A name that appears in each line of the log. {_USE_LOGGING}", effect=Effect.NONE)
    optimized_model_filepath = Option(
        PATH,
        "",
        "Writes the graph to this file, as it was optimised and divided among the providers. If it is empty, "
        "nothing is written.",
        effect=Effect.RUNS,
        guarded=True,
    )
    profile_file_prefix = Option(
        PATH,
        "onnxruntime_profile_",
        "The beginning of the path of the profile, see `enable_profiling`.",
        effect=Effect.RUNS,
        guarded=True,
    )
    use_deterministic_compute = Option(
        FLAG,
        False,
        "Asks the providers for results that do not depend on timing or on the number of threads.",
        effect=Effect.PROGRAM,
    )
    use_per_session_threads = Option(
        FLAG,
        True,
        "Gives a session threads of its own. In ort-py, sessions with the same number of threads always share one "
        "pool.",
        effect=Effect.NONE,
    )

    limits = Option(
        _LIMITS,
        Limits(),
        "Limits on the resources that a model may use. Use `Limits.untrusted()` for models that you do not trust.",
        effect=Effect.MACHINE,
        own=True,
    )
    memory_limit_bytes = _TotalMemory(
        _BYTES,
        None,
        "Bytes that the session may hold: constants and the arrays of one run; None for no limit. If it is "
        "exceeded, `MemoryLimitError` is raised and the session stays usable. This is the field "
        "`total_memory_bytes` of `limits`.",
        effect=Effect.MACHINE,
        own=True,
    )
    precision = Option(
        one_of("float32", "bfloat16", "float16"),
        "float32",
        "The type in which providers may compute float32 models. The load report lists the providers that still use "
        "float32, with the reason.",
        effect=Effect.PROGRAM,
        own=True,
    )
    fast_math = Option(
        FLAG,
        False,
        "Allows compiled regions to return a number where the specification requires NaN. Also allows constants to "
        "be merged if intermediate results may then overflow, underflow or be rounded differently. The config entry "
        "`session.fast_math` does the same.",
        effect=Effect.PROGRAM,
        own=True,
    )
    strict = Option(
        one_of("", "provider", "node").optional(),
        None,
        'Turns fallbacks into errors. With `"provider"` it is an error if a requested provider cannot be '
        'used; with `"node"`, no CPU provider is added for the nodes that no other provider runs. `""` allows both. '
        "None leaves it to the environment variable `ORT_PY_STRICT`.",
        effect=Effect.PROGRAM,
        own=True,
    )
    pin_cpu = Option(
        FLAG,
        False,
        "Lets only the plain NumPy provider fill the role of `CPUExecutionProvider`.",
        effect=Effect.PROGRAM,
        own=True,
    )
    disabled_transforms = Option(
        _NAMES, (), "Names of graph transforms that are not run.", effect=Effect.PROGRAM, own=True
    )
    cost_model = Option(
        one_of("transfer", "always"),
        "transfer",
        '`"transfer"` gives nodes to a provider only where this is faster, including the copies; `"always"` gives '
        "them wherever it can run them, in the order of the providers.",
        effect=Effect.PROGRAM,
        own=True,
    )
    cache_dir = Option(
        PATH,
        "",
        'The folder of the cache; `"off"` turns it off. If it is empty, the environment variable '
        "`ORT_PY_CACHE` decides.",
        effect=Effect.RUNS,
        own=True,
    )
    external_data_folder = Option(
        PATH,
        "",
        "The folder with the external data of a model that is given as bytes.",
        effect=Effect.MACHINE,
        own=True,
    )
    verify = Option(
        _SHARE.optional(),
        None,
        "The share of runs, from 0 to 1, that the NumPy provider repeats in the background to compare the results. "
        "None leaves it to the environment variable `ORT_PY_VERIFY`.",
        effect=Effect.RUNS,
        own=True,
    )
    verify_action = Option(
        one_of("log", "pin"),
        "log",
        'What happens when a verified result is wrong: `"log"` reports it, `"pin"` also moves the session to NumPy.',
        effect=Effect.RUNS,
        own=True,
    )
