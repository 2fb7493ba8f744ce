"""onnxruntime's names of devices and of memory on them: a table of data, vendors' names included.

Applications pass these names and numbers and read them back; nothing here says that such a device exists.
"""

from __future__ import annotations

from enum import IntEnum

from ort_py.light_tuple import NamedTuple
from ort_py.value_enums import OrtDeviceMemoryType


class OrtDeviceVendorId(IntEnum):
    """Numbers of device makers, as on the PCI bus; an ordinary `IntEnum` in onnxruntime too."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


DEVICE_TYPES = {"cpu": 0, "gpu": 1, "cuda": 1, "webgpu": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 4}
"""Number of each device kind, as the static methods of `OrtDevice` give it."""


SPARSE_COPY_METHOD = "to_cuda"
"""The method of `SparseTensor` that copies it to a device."""


class DeviceRow(NamedTuple):
    """The meaning of a name for `OrtDevice.make`: number of the kind, and of the vendor if none is given."""

    device_type: int
    vendor_id: int


DEVICES = {
    "cpu": DeviceRow(0, OrtDeviceVendorId.NONE),
    "cuda": DeviceRow(1, OrtDeviceVendorId.NVIDIA),
    "cann": DeviceRow(3, OrtDeviceVendorId.HUAWEI),
    "dml": DeviceRow(1, OrtDeviceVendorId.MICROSOFT),
    "webgpu": DeviceRow(1, OrtDeviceVendorId.NONE),
    "gpu": DeviceRow(1, OrtDeviceVendorId.NONE),
    "npu": DeviceRow(3, OrtDeviceVendorId.NONE),
}


class MemoryRow(NamedTuple):
    """The meaning of a name for `OrtMemoryInfo`: the name it shows, the vendor, and the kind of memory."""

    shown: str
    vendor_id: int
    memory: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT


_HOST_ACCESSIBLE = OrtDeviceMemoryType.HOST_ACCESSIBLE

MEMORY_NAMES = {
    "Cpu": MemoryRow("Cpu", OrtDeviceVendorId.NONE),
    "Cuda": MemoryRow("Cuda", OrtDeviceVendorId.NVIDIA),
    "CudaPinned": MemoryRow("CudaPinned", OrtDeviceVendorId.NVIDIA, _HOST_ACCESSIBLE),
    "Hip": MemoryRow("Hip", OrtDeviceVendorId.AMD),
    "HipPinned": MemoryRow("HipPinned", OrtDeviceVendorId.AMD, _HOST_ACCESSIBLE),
    "DML": MemoryRow("DML", OrtDeviceVendorId.MICROSOFT),
    "OpenVINO_GPU": MemoryRow("OpenVINO_GPU", OrtDeviceVendorId.INTEL),
    "OpenVINO_RT_NPU": MemoryRow("OpenVINO_RT_NPU", OrtDeviceVendorId.INTEL),
    "QnnHtpShared": MemoryRow("QnnHtpShared", OrtDeviceVendorId.QUALCOMM, _HOST_ACCESSIBLE),
    "WebGPU_Buf": MemoryRow("WebGPU_Buf", OrtDeviceVendorId.NONE),
    "WebGPU_Buffer": MemoryRow("WebGPU_Buf", OrtDeviceVendorId.NONE),
    "WebNN_Ten": MemoryRow("WebNN_Ten", OrtDeviceVendorId.NONE),
    "WebNN_Tensor": MemoryRow("WebNN_Ten", OrtDeviceVendorId.NONE),
}
"""Memory that onnxruntime knows by name; others are described with `OrtMemoryInfo.create_v2`."""
