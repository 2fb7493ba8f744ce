"""onnxruntime in another process: for tests in an emulated process, in which onnxruntime's own wheel does not run.

`python -m tests.support.host_peer SOCKET` serves the installed onnxruntime. In the process of the tests,
`-p tests.support.host_peer` puts a module `onnxruntime` in place whose objects are those of the server; the variable
`ORT_PY_HOST_PEER` names the socket. Arrays and plain values travel, everything else is referred to. This file knows
nothing of emulators, nor of which parts of onnxruntime tests use.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

__all__ = ["VARIABLE", "serve"]

VARIABLE = "ORT_PY_HOST_PEER"
"""Names the socket of the server."""

_PLAIN = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic)


class _Reference(NamedTuple):
    """An object of the server, by its number there."""

    number: int


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with its parts changed, if it is a list, a tuple or a dictionary."""
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, _Reference):
        return type(value)(_mapped(part, change) for part in value)
    return change(value)


def serve(socket: str) -> None:
    """Answer the processes that connect to a socket, each in a thread, until this process is ended."""
    import onnxruntime

    with Listener(socket) as listener:
        while True:
            Thread(target=_answer, args=(listener.accept(), [onnxruntime]), daemon=True).start()


def _answer(connection: Connection, objects: list[Any]) -> None:
    """Get attributes, set them and call objects, until the other side ends."""

    def shown(value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return value
        objects.append(value)
        return _Reference(len(objects) - 1)

    def meant(value: Any) -> Any:
        return objects[value.number] if isinstance(value, _Reference) else value

    while True:
        try:
            verb, *operands = connection.recv()
        except EOFError:
            return
        try:
            owner, *rest = _mapped(operands, meant)
            if verb == "call":
                result = owner(*rest[0], **rest[1])
            else:
                result = (getattr if verb == "get" else setattr)(owner, *rest)
        except Exception as error:
            connection.send((False, f"{type(error).__name__}: {error}"))
        else:
            connection.send((True, _mapped(result, shown)))


class _Remote:
    """An object of the server."""

    def __init__(self, ask: Callable[..., Any], reference: _Reference) -> None:
        self.__dict__.update(_ask=ask, _reference=reference)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask("get", self._reference, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", self._reference, name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._ask("call", self._reference, arguments, keywords)


def _asking(connection: Connection) -> Callable[..., Any]:
    def ask(*request: Any) -> Any:
        connection.send(_mapped(request, lambda value: value._reference if isinstance(value, _Remote) else value))
        done, result = connection.recv()
        if not done:
            raise RuntimeError(result)
        return _mapped(result, lambda value: _Remote(ask, value) if isinstance(value, _Reference) else value)

    return ask


def _install(socket: str) -> None:
    """Put the module in place."""
    module: Any = types.ModuleType("onnxruntime")
    root = _Remote(_asking(Client(socket)), _Reference(0))
    module.__getattr__ = root.__getattr__
    sys.modules["onnxruntime"] = module


if os.environ.get(VARIABLE):
    _install(os.environ[VARIABLE])

if __name__ == "__main__":
    # By the module's own name: references are pickled, and the other process knows no `__main__` of this kind.
    from tests.support import host_peer

    host_peer.serve(sys.argv[1])
