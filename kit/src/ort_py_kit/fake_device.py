"""The fake device: what the engine's own tests run on, and a reference for authors of device providers.

A device without hardware on which copies, waits, order and lifetimes must be right, because nothing works by luck:
arrays refuse NumPy, work is done only when a caller waits, and freed memory is poison. `fake_memory` holds the device
and its memory, `fake_stream` the order of work, `fake_array` and `fake_module` the arrays and their functions,
`fake_transfer` copies, `fake_kernels` a few operators, `fake_region` and `fake_provider` the provider, `fake_values`
memory for users' values.
"""

from ort_py_kit.fake_array import FakeArray
from ort_py_kit.fake_kernels import fake_kernels
from ort_py_kit.fake_memory import POISON, FakeDevice
from ort_py_kit.fake_module import FakeModule, module_of
from ort_py_kit.fake_provider import FakeBehaviour, FakeFactory, FakeProvider
from ort_py_kit.fake_region import FakeRegion, FakeRegionInstance
from ort_py_kit.fake_stream import FakeEvent, FakeStream
from ort_py_kit.fake_transfer import FakeAllocator, FakeTransfer
from ort_py_kit.fake_values import FakeDeviceMemory

__all__ = [
    "POISON",
    "FakeAllocator",
    "FakeArray",
    "FakeBehaviour",
    "FakeDevice",
    "FakeDeviceMemory",
    "FakeEvent",
    "FakeFactory",
    "FakeModule",
    "FakeProvider",
    "FakeRegion",
    "FakeRegionInstance",
    "FakeStream",
    "FakeTransfer",
    "fake_kernels",
    "module_of",
]
