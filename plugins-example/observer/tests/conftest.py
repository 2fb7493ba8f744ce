"""The tests run against the installed package; in a checkout where it is not installed, against the sources."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("ort_py_observer") is None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
