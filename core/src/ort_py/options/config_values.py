"""Values of config entries: those a session or a run cannot accept are refused as onnxruntime refuses them.

Values are checked when they are used, as there, and not when they are set. Knows nothing of what a value then does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ort_py.errors import Fail, InvalidArgument, OptionError, OrtPyError, UsageError

__all__ = ["check_run_entries", "check_session_entries"]

_AFFINITIES = "session.intra_op_thread_affinities"
_GROUP = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_SHRINK = "memory.enable_memory_arena_shrinkage"
_ACCURACY_LEVELS = 4


def check_session_entries(entries: Mapping[str, str], threads: int) -> None:
    """Refuse values that mean nothing.

    Args:
        entries: Config entries of a session.
        threads: Its `intra_op_num_threads`.

    Raises:
        UsageError: Thread affinities are malformed, or not one for each thread but the first.
        OptionError: A number is none.
        InvalidArgument, Fail: A value is not among those there are.
    """
    if _AFFINITIES in entries:
        _check_affinities(entries[_AFFINITIES], threads)
    base = entries.get("session.dynamic_block_base")
    if base is not None and not re.match(r"\s*[+-]?\d", base):
        raise _refusal(OptionError, "session.dynamic_block_base", base, "a whole number")
    level = entries.get("session.qdq_matmulnbits_accuracy_level", "0").strip()
    if not level.isascii() or not level.isdigit() or int(level) > _ACCURACY_LEVELS:
        raise _refusal(Fail, "session.qdq_matmulnbits_accuracy_level", level, f"0 to {_ACCURACY_LEVELS}")
    fast = entries.get("session.fast_math", "0")
    if fast not in ("0", "1"):
        raise _refusal(InvalidArgument, "session.fast_math", fast, "'0' or '1'")
    minimal = entries.get("optimization.minimal_build_optimizations", "")
    if minimal not in ("", "save", "apply"):
        raise _refusal(InvalidArgument, "optimization.minimal_build_optimizations", minimal, "'save' or 'apply'")


def check_run_entries(entries: Mapping[str, str]) -> bool:
    """Refuse values that mean nothing, and say whether memory is to be given back after the run.

    Raises:
        InvalidArgument: A value is malformed, or names a device whose memory is not kept here.
    """
    graph = entries.get("gpu_graph_id")
    if graph is not None and not re.fullmatch(r"\s*[+-]?\d+", graph):
        raise _refusal(InvalidArgument, "gpu_graph_id", graph, "a whole number")
    wanted = entries.get(_SHRINK, "")
    devices = [device for device in wanted.split(";") if device]
    for device in devices:
        if not re.fullmatch(r"(cpu|gpu):\d+", device):
            raise _refusal(InvalidArgument, _SHRINK, wanted, "devices like 'cpu:0;gpu:0'")
    if devices and not any(device.startswith("cpu:") for device in devices):
        raise _refusal(InvalidArgument, _SHRINK, wanted, "a device whose memory is kept here: 'cpu:0'")
    return bool(devices)


def _check_affinities(text: str, threads: int) -> None:
    groups = text.split(";")
    wrong = [group for group in groups if not _GROUP.fullmatch(group.strip())]
    if wrong:
        raise _refusal(UsageError, _AFFINITIES, text, "processors from 1 for each thread, like '1,2;3-4'")
    if threads > 1 and len(groups) != threads - 1:
        raise _refusal(
            UsageError, _AFFINITIES, text, f"{threads - 1} groups: one for each of the {threads} threads but the first"
        )


def _refusal(kind: type[OrtPyError], key: str, value: str, wanted: str) -> OrtPyError:
    return kind(
        f"The config entry '{key}' is {value!r}.", why=f"it takes {wanted}", fix="Correct the value, or leave it out."
    )
