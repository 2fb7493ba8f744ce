"""Providers of a session that exists: other ones, and what onnxruntime lets an application tell them later.

Comes after `session`, which calls this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ort_py.api.program_changes import settle
from ort_py.api.reopening import FileReference, expect_same_model, external_files, with_content
from ort_py.discovery import CPU_ROLE
from ort_py.discovery.ep_devices import OrtEpDevice, get_ep_devices
from ort_py.engine.construction import construct
from ort_py.errors import InvalidArgument, UsageError
from ort_py.execution.frame import session_closed

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["check_dynamic_options", "check_tuning_results", "input_devices", "rebuild"]

_TUNING_KEYS = ("ep", "results", "validators")


def rebuild(session: InferenceSession, providers: Any, provider_options: Any) -> None:
    """Replace a session's construction by one with other providers.

    The new one is made first: where that raises, nothing has changed. Runs under way in other threads end with the old
    one, which is released afterwards.

    Raises:
        InvalidArgument: The session is closed, its model was not kept, or the model's file is another one now.
        OrtPyError: As for a new session.
    """
    if session._runner is None:
        raise session_closed()
    recipe = session._recipe
    source, reference = recipe.source, None
    if isinstance(source, FileReference):
        reference, source = with_content(source, session), source.path
    if source is None:
        raise InvalidArgument(
            "The providers of this session cannot be changed.", why=recipe.reason, fix="Create another session."
        )
    # As in onnxruntime, a wrong request raises here also where the session was made with fallback.
    built = construct(
        source, session._options, providers, provider_options, session_id=session._id, fallback_enabled=False
    )
    if reference is not None:
        try:
            expect_same_model(reference, built.fingerprint, external_files(built))
        except InvalidArgument:
            built.close()
            raise
    built.policy.enabled = session._built.policy.enabled
    with session._lock.held():
        runner, former = session._runner, session._built
        if runner is None:
            built.close()
            raise session_closed()
        session._built = built
        session._recipe = replace(recipe, providers=providers, provider_options=provider_options)
        session._install()
    runner.pool.close()
    runner.pool.wait()
    settle(former)
    former.close()


def input_devices(count: int) -> list[OrtEpDevice]:
    """The host's device once for each input: feeds are the host's arrays, whoever reads them."""
    host = [device for device in get_ep_devices() if device.ep_name == CPU_ROLE]
    return host[:1] * count


def check_dynamic_options(options: Any) -> None:
    """Refuse what is no set of options.

    Raises:
        TypeError: It is no mapping.
        UsageError: It is empty.
    """
    if not isinstance(options, Mapping):
        raise TypeError(f"Dynamic options are a mapping, not {options!r}.")
    if not options:
        raise UsageError("There are no dynamic options to set.", fix="Pass at least one option.")


def check_tuning_results(results: Any, *, error_on_invalid: bool) -> None:
    """Refuse what is no list of tuning results.

    Raises:
        TypeError: It is no list, or a part of a result is no mapping.
        KeyError: A result lacks one of its parts.
        ValueError: The number of a kernel is none.
        UsageError: There is one, `error_on_invalid` is set, and no provider here takes any.
    """
    if not isinstance(results, list):
        raise TypeError(f"Tuning results are a list, not {results!r}.")
    for result in results:
        _expect_tuning_result(result)
    for result in results:
        if error_on_invalid:
            raise UsageError(
                f"The tuning results of {result['ep']} cannot be used.",
                why="no provider of this session takes tuning results",
                fix="Leave them out, or pass error_on_invalid=False.",
            )


def _expect_tuning_result(result: Any) -> None:
    for key in _TUNING_KEYS:
        if key not in result:
            raise KeyError(key)
    for kernels in _mapping("results", result["results"]).values():
        for number in _mapping("results", kernels).values():
            int(number)
    _mapping("validators", result["validators"])


def _mapping(part: str, given: Any) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"The part '{part}' of a tuning result is a mapping, not {given!r}.")
    return given
