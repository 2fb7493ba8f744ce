"""What the tests of plug-ins use, in the wheel so that their authors have it. Imported by no other room.

* `kernel_runner`: bind one kernel and call it, without a session; the ONNX reference as its oracle.
* `tolerances`: how far results may differ, per element type: the one table.
* `fake_device`: a device without hardware that shows wrong copies, waits and lifetimes.
* `graphs`: models from ONNX text.
"""

from ort_py.testing.kernel_runner import make_node_spec, reference_outputs, run_kernel
from ort_py.testing.tolerances import TOLERANCES, assert_close, tolerance_of

__all__ = ["TOLERANCES", "assert_close", "make_node_spec", "reference_outputs", "run_kernel", "tolerance_of"]
