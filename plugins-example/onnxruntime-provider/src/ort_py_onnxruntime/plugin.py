"""The target of the entry point: the factory. Looks for onnxruntime without importing it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import ApiRange, Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl

__all__ = ["NAME", "OnnxruntimeFactory", "ort_py_providers"]

NAME = "OnnxruntimeExecutionProvider"

_OPTIONS = (
    OptionSpec(
        "providers",
        str,
        "CPUExecutionProvider",
        "onnxruntime's providers in order, separated by commas; its CPUExecutionProvider completes",
    ),
    OptionSpec("provider_options", str, "", "their options: a JSON list with one object a provider"),
    OptionSpec("threads", int, 0, "threads of one run; as many as the session has where 0"),
)


class OnnxruntimeFactory(ProviderFactory):
    """Names, describes and probes the provider."""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return NAME

    @property
    def api_range(self) -> ApiRange:
        """Contract versions this was written for and tested with."""
        return ApiRange(1, 1)

    @property
    def automatic(self) -> bool:
        """Never chosen unless named: it is another runtime, there to reach its devices and to compare with."""
        return False

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """Options that choose and configure onnxruntime's providers."""
        return _OPTIONS

    def probe(self) -> Availability:
        """Whether a package `onnxruntime` is there; it is not imported."""
        try:
            found = importlib.util.find_spec("onnxruntime")
        except ValueError:  # a module somebody made by hand
            found = None
        if found is None or found.origin is None:
            return Availability(
                False, "there is no package onnxruntime", "pip install onnxruntime, or one of its variants"
            )
        if _is_ort_py(found.origin):
            return Availability(
                False,
                "in this process `import onnxruntime` gives ort-py",
                "start the program without `python -m ort_py.as_onnxruntime`",
            )
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is onnxruntime imported.

        Raises:
            OptionError: The installed onnxruntime has no provider of a name that is asked for, or an option is wrong.
        """
        from ort_py_onnxruntime.provider import OnnxruntimeProvider
        from ort_py_onnxruntime.settings import settings_of

        return OnnxruntimeProvider(settings_of(options, context.threads))


def _is_ort_py(origin: str) -> bool:
    """Whether a module lies inside ort-py itself, which can stand in for onnxruntime."""
    import ort_py.contracts as ours

    root = str(ours.__file__).replace("\\", "/").rpartition("/contracts/")[0]
    return origin.replace("\\", "/").startswith(root + "/")


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Hand the factory to ort-py."""
    return [OnnxruntimeFactory()]
