"""The interface to a runtime that the pipeline needs, and the factory that implements it with ort-py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

__all__ = ["Session", "SessionFactory", "open_with_ort_py"]


class Session(Protocol):
    """The part of onnxruntime's `InferenceSession` that is used here; ort-py's has it too."""

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], /) -> Sequence[Any]:
        """Run the model; None asks for all outputs."""

    def get_modelmeta(self) -> Any:
        """The model's metadata; `custom_metadata_map` holds the recogniser's alphabet."""


SessionFactory: TypeAlias = Callable[[Path], Session]


def open_with_ort_py(path: Path) -> Session:
    """A session on every provider that is installed and usable here, fastest first."""
    import ort_py as ort

    session: Session = ort.InferenceSession(path)
    return session
