"""The tests run against the installed package; in a checkout where it is not installed, against the sources.

The conformance kit is left out there: it wants the entry point. `tests/packaging` installs the package and runs all.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

collect_ignore: list[str] = []
if importlib.util.find_spec("ort_py_hello") is None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
    collect_ignore.append("test_conformance.py")
