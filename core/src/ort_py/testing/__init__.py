"""What the tests of plug-ins use, in the wheel so that their authors have it. Imported by no other room.

* `suites`: the conformance tests of providers, allocators, data transfers and transforms, for authors to subclass; they
  need pytest (``pip install ort-py-core[testing]``). ``pytest --pyargs ort_py.testing --provider NAME`` runs them.
* `kernel_runner`: bind one kernel and call it, without a session; the ONNX reference as its oracle.
* `tolerances`: how far results may differ, per element type: the one table.
* `fake_device`: a device without hardware that shows wrong copies, waits and lifetimes.
* `graphs`, `rules`: models from ONNX text, and transforms applied to them; `random_graphs` draws models.

Names are imported when they are first used, so that those without pytest work where it is not installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ort_py.testing.kernel_runner import make_node_spec, reference_outputs, run_kernel
    from ort_py.testing.samples import Sample, sample_from_text
    from ort_py.testing.suites.allocator import AllocatorSuite
    from ort_py.testing.suites.provider import ProviderSuite
    from ort_py.testing.suites.transfer import DataTransferSuite
    from ort_py.testing.suites.transform import TransformSuite
    from ort_py.testing.tolerances import TOLERANCES, assert_close, tolerance_of

__all__ = [
    "TOLERANCES",
    "AllocatorSuite",
    "DataTransferSuite",
    "ProviderSuite",
    "Sample",
    "TransformSuite",
    "assert_close",
    "make_node_spec",
    "reference_outputs",
    "run_kernel",
    "sample_from_text",
    "tolerance_of",
]

_HOMES = {
    "TOLERANCES": "tolerances",
    "AllocatorSuite": "suites.allocator",
    "DataTransferSuite": "suites.transfer",
    "ProviderSuite": "suites.provider",
    "Sample": "samples",
    "TransformSuite": "suites.transform",
    "assert_close": "tolerances",
    "make_node_spec": "kernel_runner",
    "reference_outputs": "kernel_runner",
    "run_kernel": "kernel_runner",
    "sample_from_text": "samples",
    "tolerance_of": "tolerances",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
