"""Facts that a manager needs about the sessions it shares: the files they were made from, and the memory they take.

Comes before `session_manager`. It may use the inside of sessions, which the manager does not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ort_py.api.session import InferenceSession
from ort_py.files import FileSnapshot
from ort_py.graph.ir import Weight
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.accounting import named_weights, weight_bytes


def model_file(source: GivenModel) -> list[FileSnapshot]:
    """The model's own file, where it has one."""
    if not source.path:
        return []
    try:
        return [FileSnapshot(os.path.abspath(source.path))]  # noqa: PTH100 - links stay as they are
    except (OSError, ValueError):
        return []  # creating the session says what is wrong with it


def external_data(session: InferenceSession) -> list[FileSnapshot]:
    """The files of external data that a session read."""
    files = session.engine.external_files
    return [FileSnapshot(os.path.abspath(path), identity) for path, identity in files]  # noqa: PTH100 - as above


def memory_of(sessions: Sequence[InferenceSession]) -> int:
    """Bytes of some sessions: constants that several share once, everything else added up."""
    shared: dict[str, Weight] = {}
    own = 0
    for session in sessions:
        report = session.memory_report()
        own += report.total - report.weights
        model = session.engine.model
        if model is not None:
            shared.update((weight.key, weight) for _, weight in named_weights(model).values())
    bytes_of = weight_bytes(shared.values())
    return own + bytes_of.held + bytes_of.mapped
