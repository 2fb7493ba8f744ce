"""onnxruntime's function that loads vendors' libraries ahead of time, and its parameters' names, which are vendors'."""

from __future__ import annotations

import os


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | os.PathLike[str] | None = None
) -> None:
    """Does nothing: each provider finds its vendor's libraries in the packages it depends on, when it is used.

    Args:
        cuda, cudnn, msvc, directory: Accepted for compatibility.
    """
