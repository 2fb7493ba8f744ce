"""The tests run against the installed package, as ort-py finds providers by their entry points.

In a checkout where it is not installed they are left out; `tests/packaging` builds it with its C module, installs it,
and runs them.
"""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("ort_py_native_region") is not None else ["test_*.py"]
