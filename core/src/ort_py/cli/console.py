"""The only way to standard output and standard error: nothing gets through that could steer a terminal.

Names and texts of a model are a stranger's. Imports a leaf alone, so that ``ort-py --version`` is quick.
"""

from __future__ import annotations

import sys

from ort_py.printable import printable


def say(text: str) -> None:
    """Print results to standard output."""
    print(printable(text))


def tell(text: str) -> None:
    """Print remarks to standard error."""
    print(printable(text), file=sys.stderr, flush=True)
