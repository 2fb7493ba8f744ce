"""The folder that a file is made in, before it is complete. Knows nothing of models and providers."""

from __future__ import annotations

import contextlib
import gc
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

__all__ = ["folder_beside"]


@contextlib.contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """A hidden folder beside a file for what it is made of. It is gone at the end, also where that failed."""
    with tempfile.TemporaryDirectory(prefix=".ort-py-", dir=target.parent, ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            if sys.platform == "win32":  # it keeps files that are mapped
                _let_go(sys.exception())


def _let_go(error: BaseException | None) -> None:
    """Free what only frames of an exception or cycles hold, such as a closed engine."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
    gc.collect()
