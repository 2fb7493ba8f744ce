"""The package that onnxruntime's tools see under their own name: ort-py, but for the optimiser that they ask for.

A tool that sets `optimized_model_filepath` wants onnxruntime's graph optimiser and its nodes, which fusions of other
tools look for. So that file is written by the installed onnxruntime; the session is ort-py's, as all of them are.
Comes after `native`, before `tools`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from ort_py_onnxruntime.native import native, severity
from ort_py_onnxruntime.sessions import Wrapped

__all__ = ["Facade"]


class Facade(ModuleType):
    """A package with all names of another one, and sessions and options of its own.

    Args:
        package: ort-py under onnxruntime's name.
    """

    def __init__(self, package: ModuleType) -> None:
        super().__init__(package.__name__, package.__doc__)
        self._package = package
        self.SessionOptions = _options_class(package)
        self.InferenceSession = _session_class(package)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._package, name)

    def __dir__(self) -> list[str]:
        return dir(self._package)


def _options_class(package: ModuleType) -> type:
    class SessionOptions(package.SessionOptions):  # type: ignore[misc,name-defined]
        """ort-py's options, which remember the entries, and the constants that are given from outside."""

        def add_session_config_entry(self, key: str, value: str, /) -> None:
            super().add_session_config_entry(key, value)
            self.__dict__.setdefault("entries", {})[key] = value

        def add_external_initializers(self, names: Sequence[str], values: Sequence[Any], /) -> None:
            super().add_external_initializers(names, values)
            self.__dict__.setdefault("outside", {}).update(zip(names, values, strict=True))

    return SessionOptions


def _session_class(package: ModuleType) -> type:
    class InferenceSession(package.InferenceSession):  # type: ignore[misc,name-defined]
        """ort-py's session; onnxruntime writes the optimised model."""

        def __init__(
            self,
            path_or_bytes: Any,
            sess_options: Any = None,
            providers: Any = None,
            provider_options: Any = None,
            **keywords: Any,
        ) -> None:
            target = "" if sess_options is None else os.fspath(sess_options.optimized_model_filepath)
            if target:
                names = [one if isinstance(one, str) else one[0] for one in providers or ()]
                _write(path_or_bytes, sess_options, names, keywords.get("disabled_optimizers") or ())
                sess_options.optimized_model_filepath = ""
            try:
                super().__init__(path_or_bytes, sess_options, providers, provider_options, **keywords)
            finally:
                if target:
                    sess_options.optimized_model_filepath = target

    return InferenceSession


def _write(model: Any, options: Any, providers: Iterable[str], disabled: Iterable[str]) -> None:
    """Let onnxruntime write its optimised model.

    Args:
        options: ort-py's.
        providers: onnxruntime's providers that are wanted; those that it has are used.
        disabled: Names of its optimisers that are not.

    Raises:
        Exception: Whatever onnxruntime raises.
    """
    real = native()
    theirs = real.SessionOptions()
    theirs.log_severity_level = severity()
    theirs.optimized_model_filepath = os.fspath(options.optimized_model_filepath)
    levels = {int(level): level for level in real.GraphOptimizationLevel.__members__.values()}
    theirs.graph_optimization_level = levels[int(options.graph_optimization_level)]
    for key, value in vars(options).get("entries", {}).items():
        theirs.add_session_config_entry(key, value)
    outside = vars(options).get("outside", {})
    host = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
    held = {name: real.OrtValue.ortvalue_from_numpy(one.numpy(), host) for name, one in outside.items()}
    if held:
        theirs.add_external_initializers(list(held), [Wrapped(value) for value in held.values()])
    by_path = not isinstance(model, bytes)
    session = real.InferenceSession(theirs, os.fspath(model) if by_path else model, by_path, False)
    used = [name for name in providers if name in real.get_available_providers()]
    session.initialize_session(used, [{}] * len(used), set(disabled))
