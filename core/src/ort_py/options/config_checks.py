"""Checks of config entries by the table `config_entries`: of keys when they are set, of values when they are used.

A key of the table is accepted. A key close to one of the table is a misspelling and refused; any other gets one
warning. In compatibility mode all keys are accepted silently, as in onnxruntime, which checks values late as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.discovery.environment import compat_mode
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import InvalidArgument, OptionError, UsageError
from ort_py.suggestions import close_names, question

_CLOSE = 0.88
"""Likeness of a misspelling and the key that is meant; keys share long beginnings, so any two of them look alike."""

_FAMILIES = ("ep.", "mlas.")
"""Beginnings of keys that belong to a provider or a kernel library: what follows is theirs to know."""

_AFFINITIES = "session.intra_op_thread_affinities"
_SHRINK = "memory.enable_memory_arena_shrinkage"


def check_key(key: str, scope: str) -> None:
    """Refuse a misspelt config key, and warn about an unknown one.

    Args:
        scope: ``"session"`` or ``"run"``.

    Raises:
        OptionError: The key is close to one that is known, and the program does not run in compatibility mode.
    """
    from ort_py.options.config_entries import RUN_ENTRIES, SESSION_ENTRIES

    if key in SESSION_ENTRIES or key in RUN_ENTRIES or compat_mode():
        return
    known = RUN_ENTRIES if scope == "run" else SESSION_ENTRIES
    hint = question(close_names(key, sorted(known), cutoff=_CLOSE))
    if hint:
        raise OptionError(
            f"There is no {scope} config key '{key}'.",
            why="onnxruntime has no key of this name, but one with a similar name",
            fix=f"{hint} Set ORT_PY_COMPAT=1 to have unknown keys ignored.",
        )
    if not key.startswith(_FAMILIES):
        warn_user(f"There is no {scope} config key '{key}'; it is ignored.", UserWarning)


def check_session_entries(entries: Mapping[str, str], threads: int) -> None:
    """Refuse values that a session cannot accept, with onnxruntime's class of error.

    Raises:
        UsageError: Thread affinities are malformed, or not one for each thread but the first.
        OptionError, InvalidArgument, Fail: Another value is malformed.
    """
    if not entries:
        return
    from ort_py.options.config_entries import SESSION_ENTRIES

    for key, value in entries.items():
        if key in SESSION_ENTRIES:
            SESSION_ENTRIES[key].values.accepted(value, key)
    groups = entries.get(_AFFINITIES)
    if groups is not None and threads > 1 and len(groups.split(";")) != threads - 1:
        raise UsageError(
            f"The config entry '{_AFFINITIES}' is {groups!r}.",
            why=f"it needs {threads - 1} groups, one for each of the {threads} threads except the first",
            fix="Correct the value, or leave it out.",
        )


def check_run_entries(entries: Mapping[str, str]) -> bool:
    """Refuse values that a run cannot accept, and return whether memory is to be given back after the run.

    Raises:
        InvalidArgument: A value is malformed, or names a device whose memory is not kept here.
    """
    from ort_py.options.config_entries import RUN_ENTRIES

    for key, value in entries.items():
        if key in RUN_ENTRIES:
            RUN_ENTRIES[key].values.accepted(value, key)
    devices = entries.get(_SHRINK, "").strip(";")
    if devices and not devices.startswith("cpu:") and ";cpu:" not in devices:
        raise InvalidArgument(
            f"The config entry '{_SHRINK}' is {entries[_SHRINK]!r}.",
            why="the only device whose memory is kept here is 'cpu:0'",
            fix="Correct the value, or leave it out.",
        )
    return bool(devices)
