"""Tests and helpers for authors of plug-ins, and ``ort-py new``.

* `suites`: the conformance tests of providers, allocators, data transfers and transforms, for authors to subclass.
  ``pytest --pyargs ort_py_kit --provider NAME`` runs them.
* `versions`: cases of single operators at every version of their schemas.
* `kernel_runner`: bind one kernel and call it, without a session; the ONNX reference as its oracle.
* `tolerances`: how far results may differ, per element type: the one table.
* `fake_device`: a device without hardware that shows wrong copies, waits and lifetimes.
* `faults`: any provider, made to fail to order.
* `graphs`, `rules`: models from ONNX text, and transforms applied to them; `random_graphs` draws models.
* `scaffold`, `cli`: new packages from templates, and the command that writes them.

Names are imported when they are first used: pytest and ort-py import this package in every process, for entry points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.lazy_names import lazy_names

if TYPE_CHECKING:
    from ort_py_kit.kernel_runner import make_node_spec as make_node_spec
    from ort_py_kit.kernel_runner import reference_outputs as reference_outputs
    from ort_py_kit.kernel_runner import run_kernel as run_kernel
    from ort_py_kit.samples import Sample as Sample
    from ort_py_kit.samples import sample_from_text as sample_from_text
    from ort_py_kit.suites.allocator import AllocatorSuite as AllocatorSuite
    from ort_py_kit.suites.provider import ProviderSuite as ProviderSuite
    from ort_py_kit.suites.transfer import DataTransferSuite as DataTransferSuite
    from ort_py_kit.suites.transform import TransformSuite as TransformSuite
    from ort_py_kit.tolerances import TOLERANCES as TOLERANCES
    from ort_py_kit.tolerances import assert_close as assert_close
    from ort_py_kit.tolerances import tolerance_of as tolerance_of

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = lazy_names(
        globals(),
        {
            "ort_py_kit.kernel_runner": "make_node_spec reference_outputs run_kernel",
            "ort_py_kit.samples": "Sample sample_from_text",
            "ort_py_kit.suites.allocator": "AllocatorSuite",
            "ort_py_kit.suites.provider": "ProviderSuite",
            "ort_py_kit.suites.transfer": "DataTransferSuite",
            "ort_py_kit.suites.transform": "TransformSuite",
            "ort_py_kit.tolerances": "TOLERANCES assert_close tolerance_of",
        },
    )
