"""A folder of temporary files that ends with the object that owns it, and with the process that made it.

A forked child has the object as well, and must leave the folder to its parent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["Folder"]


class Folder:
    """A new folder.

    Attributes:
        path: Its path.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ort-py-coreml-"))
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Delete it now; in a forked child, leave it."""
        self._end()


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
