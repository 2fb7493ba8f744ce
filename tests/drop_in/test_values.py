"""OrtValue, SparseTensor, devices, memory descriptions and enumerations, on both runtimes."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ort_py
from ort_py import InvalidArgument, OrtSparseFormat, OrtValue, SparseTensor, UsageError
from tests.drop_in.both_runtimes import OURS, THEIRS, Case, each, expect_agreement, expect_difference, session

ACCESSORS = (
    "data_type",
    "element_type",
    "shape",
    "tensor_size_in_bytes",
    "device_name",
    "has_value",
    "is_tensor",
    "is_sparse_tensor",
    "is_tensor_sequence",
)
DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def floats(*shape: int) -> Any:
    """0, 1, 2, … as float32."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def made(ort: Any, array: Any, *device: Any) -> Any:
    """The value of an array."""
    return ort.OrtValue.ortvalue_from_numpy(array, *device)


def described(value: Any) -> Any:
    """The results of every accessor, and the content."""
    return [*(getattr(value, name)() for name in ACCESSORS), value.numpy()]


def of_type(ort: Any, element_type: Any, shape: Any = (2, 3), *device: Any) -> Any:
    """Description of an uninitialised value."""
    value = ort.OrtValue.ortvalue_from_shape_and_type(shape, element_type, *device)
    return [value.data_type(), value.element_type(), value.shape(), value.tensor_size_in_bytes()]


def retyped(ort: Any, array: Any, number: int) -> Any:
    """Description of an array read as another type."""
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number)
    return [value.data_type(), value.shape(), value.element_type(), value.tensor_size_in_bytes()]


def shared(ort: Any) -> Any:
    array = floats(2, 3)
    value = made(ort, array)
    array[0, 0] = 9
    view = value.numpy()
    view[1, 1] = -1
    address = value.data_ptr() == array.ctypes.data
    del value
    return array, view.copy(), address, view.flags.writeable, view.flags.owndata


def retyped_shares(ort: Any) -> Any:
    array = np.zeros(4, np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, 16).data_ptr() == array.ctypes.data


def updated(ort: Any, target: Any, source: Any, wrap: bool = False) -> Any:
    array = target.copy()
    value = made(ort, array)
    address = value.data_ptr()
    value.update_inplace(made(ort, source) if wrap else source)
    return array, value.shape(), value.data_ptr() == address


def exported(ort: Any, array: Any) -> Any:
    value = made(ort, array)
    return value.__dlpack_device__(), type(value.__dlpack__()).__name__, np.from_dlpack(value)


def imported(ort: Any, source: Any) -> Any:
    value = ort.OrtValue.from_dlpack(source)
    address = value.data_ptr() == source.ctypes.data if isinstance(source, np.ndarray) else None
    return value.data_type(), value.shape(), value.numpy(), value.numpy().flags.writeable, address


def sequence_value(ort: Any) -> Any:
    found = session(ort, "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct(x, x) }")
    return found.run_with_ort_values(None, {"x": made(ort, floats(2))})[0]


def host(ort: Any) -> Any:
    return ort.OrtDevice.make("cpu", 0)


def coo(ort: Any, values: Any = None, indices: Any = (0, 5), shape: Any = (3, 3), device: str = "cpu") -> Any:
    values = floats(2) + 1 if values is None else values
    place = ort.OrtDevice.make(device, 0)
    return ort.SparseTensor.sparse_coo_from_numpy(shape, values, np.array(indices, np.int64), place)


def csr(ort: Any, inner: Any = (0, 2), outer: Any = (0, 1, 2, 2), shape: Any = (3, 3), values: Any = None) -> Any:
    values = floats(2) + 1 if values is None else values
    indices = (np.array(inner, np.int64), np.array(outer, np.int64))
    return ort.SparseTensor.sparse_csr_from_numpy(list(shape), values, *indices, host(ort))


def sparse_described(tensor: Any) -> Any:
    return [tensor.format(), tensor.dense_shape(), tensor.data_type(), tensor.device_name(), tensor.values()]


def coo_described(ort: Any, **arguments: Any) -> Any:
    tensor = coo(ort, **arguments)
    return [*sparse_described(tensor), tensor.as_coo_view().indices(), tensor.values().flags.writeable]


def csr_described(ort: Any) -> Any:
    view = csr(ort).as_csrc_view()
    return [*sparse_described(csr(ort)), view.inner(), view.outer()]


def sparse_value(ort: Any) -> Any:
    return ort.OrtValue.ort_value_from_sparse_tensor(coo(ort))


def sparse_value_described(ort: Any) -> Any:
    value = sparse_value(ort)
    names = ("data_type", "element_type", "shape", "device_name", "has_value", "is_tensor", "is_sparse_tensor")
    return [*(getattr(value, name)() for name in names), sparse_described(value.as_sparse_tensor())]


def device_numbers(ort: Any, *arguments: Any) -> Any:
    device = ort.OrtDevice.make(*arguments)
    return [device.device_type(), device.device_id(), device.device_vendor_id(), device.device_mem_type()]


MEMORY = ("name", "device_id", "mem_type", "device_mem_type", "device_vendor_id", "allocator_type")


def memory(ort: Any, name: str, index: int = 0) -> Any:
    kinds = (ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, ort.OrtMemType.CPU_INPUT)
    return ort.OrtMemoryInfo(name, kinds[0], index, kinds[1])


def memory_numbers(ort: Any, name: str, index: int = 0) -> Any:
    found = memory(ort, name, index)
    return [getattr(found, attribute) for attribute in MEMORY]


def memory_v2(ort: Any, kind: str = "HOST_ACCESSIBLE", device: str = "GPU") -> Any:
    return ort.OrtMemoryInfo.create_v2(
        "Mine",
        getattr(ort.OrtMemoryInfoDeviceType, device),
        0x8086,
        1,
        getattr(ort.OrtDeviceMemoryType, kind),
        64,
        ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
    )


def arena(ort: Any, *arguments: Any) -> Any:
    found = ort.OrtArenaCfg(*arguments)
    return {name: getattr(found, name) for name in dir(ort_py.OrtArenaCfg) if not name.startswith("_")}


def arena_set(ort: Any) -> Any:
    found = ort.OrtArenaCfg({})
    found.max_mem = 77
    return found.max_mem


ONE = np.array([1, 2, 3], np.float32)

AGREE: dict[str, Case] = {
    **each("from_numpy {}", DTYPES, lambda ort, name: described(made(ort, np.ones((2, 3), name)))),
    "from_numpy scalar array": lambda ort: described(made(ort, np.array(2.5))),
    "from_numpy zero size": lambda ort: described(made(ort, np.zeros((0, 3), np.int64))),
    "from_numpy strided": lambda ort: described(made(ort, floats(4, 6)[::2, ::3])),
    "from_numpy transposed": lambda ort: described(made(ort, floats(2, 3).T)),
    "from_numpy shares memory, numpy() is a view": shared,
    "from_numpy list": lambda ort: made(ort, [1.0]),
    "from_numpy number": lambda ort: made(ort, 1.0),
    "from_numpy datetime": lambda ort: made(ort, np.zeros(2, "datetime64[D]")),
    "from_numpy by keyword": lambda ort: ort.OrtValue.ortvalue_from_numpy(numpy_obj=ONE),
    **each("on {}", ("cuda", "dml", "gpu", "npu"), lambda ort, name: made(ort, ONE, name, 0)),
    "on an unknown device": lambda ort: made(ort, ONE, "nowhere", 0),
    "on CPU in capitals": lambda ort: made(ort, ONE, "CPU", 0),
    "on another host": lambda ort: made(ort, ONE, "cpu", 1).device_name(),
    "on the host of a maker": lambda ort: made(ort, ONE, "cpu", 0, 5).device_name(),
    **each(
        "element type {}",
        (np.float32, np.dtype("int8"), "float64", float, int, bool, 1, 9, 10, 16, 17, 22, None, "i4"),
        of_type,
    ),
    **each("no element type {}", (0, 99, "nonsense"), of_type),
    "shape as a list": lambda ort: of_type(ort, 1, [2]),
    "shape as an array": lambda ort: of_type(ort, 1, np.array([2, 3])),
    "shape of a scalar": lambda ort: of_type(ort, 1, []),
    "shape with zero": lambda ort: of_type(ort, 1, [0, 3]),
    "shape negative": lambda ort: of_type(ort, 1, [-1, 3]),
    "shape larger than any memory": lambda ort: of_type(ort, 1, [2**40, 2**40]),
    "shape of floats": lambda ort: of_type(ort, 1, [2.0]),
    "shape a number": lambda ort: of_type(ort, 1, 2),
    "shape and type on another device": lambda ort: of_type(ort, 1, [2], "cuda", 0),
    "memory of another device": lambda ort: ort.OrtValue.ortvalue_from_shape_and_type(
        [2], np.float32, memory_info=memory_v2(ort)
    ),
    "bfloat16 from uint16": lambda ort: retyped(ort, np.zeros((2, 2), np.uint16), 16),
    "float8 from uint8": lambda ort: retyped(ort, np.zeros(4, np.uint8), 17),
    "float from int32": lambda ort: retyped(ort, np.zeros(4, np.int32), 1),
    "int4 from uint8": lambda ort: retyped(ort, np.zeros(4, np.uint8), 22),
    "uint2 from uint8": lambda ort: retyped(ort, np.zeros(4, np.uint8), 25),
    "bfloat16 from strided": lambda ort: retyped(ort, np.zeros(6, np.uint16)[::2], 16),
    "bfloat16 shares memory": retyped_shares,
    "bfloat16 from float32": lambda ort: retyped(ort, ONE, 16),
    "float from float64": lambda ort: retyped(ort, np.zeros(2), 1),
    "strings from bytes": lambda ort: retyped(ort, np.zeros(2, np.uint8), 8),
    "no such type": lambda ort: retyped(ort, ONE, 99),
    "undefined type": lambda ort: retyped(ort, ONE, 0),
    "another type of a list": lambda ort: retyped(ort, [1], 16),
    "update": lambda ort: updated(ort, ONE, ONE * 2),
    "update with a value": lambda ort: updated(ort, ONE, ONE * 2, wrap=True),
    "update with another shape": lambda ort: updated(ort, ONE, (ONE * 2).reshape(3, 1)),
    "update with a value of another shape": lambda ort: updated(ort, ONE, (ONE * 2).reshape(3, 1), wrap=True),
    "update strided": lambda ort: updated(ort, ONE, floats(6)[::2]),
    "update with another count": lambda ort: updated(ort, ONE, floats(4)),
    "update with a value of another type": lambda ort: updated(ort, ONE, ONE.astype(np.float64), wrap=True),
    "update with a list": lambda ort: updated(ort, ONE, [1, 2, 3]),
    "asarray": lambda ort: np.asarray(made(ort, ONE)),
    "asarray of another type": lambda ort: np.asarray(made(ort, ONE), np.float64),
    "array copied": lambda ort: np.array(made(ort, ONE), copy=True),
    "array not copied": lambda ort: np.asarray(made(ort, ONE), copy=False),
    "array of another type not copied": lambda ort: np.asarray(made(ort, ONE), np.float64, copy=False),
    "DLPack out": lambda ort: exported(ort, ONE)[:2],
    "DLPack out, stream": lambda ort: type(made(ort, ONE).__dlpack__(stream=None)).__name__,
    "DLPack in": lambda ort: imported(ort, floats(2, 3)),
    "DLPack in, scalar": lambda ort: imported(ort, np.array(2.0)),
    "DLPack in, zero size": lambda ort: imported(ort, np.zeros((0, 3), np.int64))[:4],
    "DLPack in, capsule": lambda ort: imported(ort, floats(2, 3).__dlpack__()),
    "DLPack in, value": lambda ort: imported(ort, made(ort, ONE)),
    "DLPack in, value of booleans": lambda ort: imported(ort, made(ort, np.array([True, False])))[:2],
    "DLPack in, strided": lambda ort: imported(ort, floats(6)[::2]),
    "DLPack in, transposed": lambda ort: imported(ort, floats(2, 3).T),
    "DLPack in, list": lambda ort: imported(ort, [1.0]),
    "DLPack in, None": lambda ort: imported(ort, None),
    **each(
        "sequence {}",
        (*ACCESSORS, "numpy", "data_ptr", "as_sparse_tensor", "__dlpack__", "__dlpack_device__"),
        lambda ort, name: getattr(sequence_value(ort), name)(),
    ),
    "sparse value": sparse_value_described,
    **each(
        "sparse {}",
        ("numpy", "data_ptr", "tensor_size_in_bytes", "__dlpack__", "__dlpack_device__"),
        lambda ort, name: getattr(sparse_value(ort), name)(),
    ),
    "sparse of a dense value": lambda ort: made(ort, ONE).as_sparse_tensor(),
    "COO linear": coo_described,
    "COO pairs": lambda ort: coo_described(ort, indices=[[0, 0], [1, 2]]),
    "COO pairs, flat": lambda ort: coo_described(ort, indices=[0, 0, 1, 2]),
    "COO shape as an array": lambda ort: coo_described(ort, shape=np.array([3, 3])),
    "COO empty": lambda ort: coo_described(ort, values=np.zeros(0, np.float32), indices=[]),
    "COO texts": lambda ort: coo_described(ort, values=np.array(["a", "b"]))[:5],
    "COO int64 values": lambda ort: coo_described(ort, values=np.array([5, 6])),
    "COO wrong count": lambda ort: coo(ort, indices=[0, 5, 6]),
    "COO list of values": lambda ort: coo(ort, values=[1.0, 2.0]),
    "COO values of rank 2": lambda ort: coo(ort, values=floats(2, 1)),
    "COO values strided": lambda ort: coo(ort, values=floats(4)[::2]),
    "COO on another device": lambda ort: coo(ort, device="cuda"),
    "COO as CSR": lambda ort: coo(ort).as_csrc_view(),
    "COO as blocks": lambda ort: coo(ort).as_blocksparse_view(),
    "COO to a device": lambda ort: coo(ort).to_cuda(ort.OrtDevice.make("cuda", 0)),
    "CSR": csr_described,
    "CSR as COO": lambda ort: csr(ort).as_coo_view(),
    "CSR wrong outer": lambda ort: csr(ort, outer=[0, 1, 2]),
    "CSR wrong inner": lambda ort: csr(ort, inner=[0]),
    "CSR of a vector": lambda ort: csr(ort, shape=[3]),
    "SparseTensor of nothing": lambda ort: ort.SparseTensor(3),
    "OrtValue of nothing": lambda ort: ort.OrtValue(3),
    "OrtValue of the inner value": lambda ort: described(ort.OrtValue(made(ort, ONE)._ortvalue)),
    "copy": lambda ort: described(copy.copy(made(ort, ONE))),
    "copy_tensors of nothing": lambda ort: ort.copy_tensors([], []),
    "copy_tensors of unequal numbers": lambda ort: ort.copy_tensors([made(ort, ONE)], []),
    **each(
        "device {}",
        ("cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu", "nowhere", "CPU"),
        lambda ort, name: device_numbers(ort, name, 3),
    ),
    "device of a maker": lambda ort: device_numbers(ort, "gpu", 1, ort.OrtDeviceVendorId.AMD),
    "device with a text for a number": lambda ort: device_numbers(ort, "gpu", "1"),
    "device with a number for a name": lambda ort: device_numbers(ort, 1, 1),
    "device of nothing": lambda ort: ort.OrtDevice(3),
    **each(
        "memory {}",
        (
            *("Cpu", "Cuda", "CudaPinned", "DML", "Hip", "HipPinned", "OpenVINO_GPU", "OpenVINO_RT_NPU"),
            *("QnnHtpShared", "WebGPU_Buf", "WebGPU_Buffer", "WebNN_Tensor", "cpu", "Gpu"),
        ),
        lambda ort, name: memory_numbers(ort, name, 2),
    ),
    **each(
        "memory v2 {0[0]} {0[1]}",
        itertools.product(("DEFAULT", "HOST_ACCESSIBLE"), ("CPU", "GPU", "NPU", "FPGA")),
        lambda ort, kinds: [getattr(memory_v2(ort, *kinds), name) for name in MEMORY],
    ),
    "memory with numbers for enumerations": lambda ort: ort.OrtMemoryInfo("Cpu", 0, 0, 0),
    "memory is read-only": lambda ort: setattr(memory(ort, "Cpu"), "name", "x"),
    "arena": lambda ort: arena(ort, 1, 2, 3, 4),
    "arena of an empty dict": lambda ort: arena(ort, {}),
    "arena of a dict": lambda ort: arena(ort, {"max_mem": 5, "initial_growth_chunk_size_bytes": 8}),
    "arena attribute": arena_set,
    "arena unknown key": lambda ort: arena(ort, {"bogus": 1}),
    "arena text for a number": lambda ort: arena(ort, {"max_mem": "x"}),
    "arena keyword": lambda ort: ort.OrtArenaCfg(max_mem=1),
    "arena float": lambda ort: arena(ort, 1.5, 2, 3, 4),
    "allocator": lambda ort: ort.create_and_register_allocator(memory(ort, "Cpu"), ort.OrtArenaCfg({})),
    "allocator without arena": lambda ort: ort.create_and_register_allocator(memory(ort, "Cpu"), None),
    "allocator of a device": lambda ort: ort.create_and_register_allocator(memory_v2(ort), ort.OrtArenaCfg({})),
    "allocator v2": lambda ort: ort.create_and_register_allocator_v2(
        "CPUExecutionProvider", memory(ort, "Cpu"), {}, ort.OrtArenaCfg({})
    ),
    "allocator v2 of nobody": lambda ort: ort.create_and_register_allocator_v2(
        "Nobody", memory(ort, "Cpu"), {}, ort.OrtArenaCfg({})
    ),
}


@pytest.mark.parametrize("name", AGREE)
def test_values_are_those_of_onnxruntime(name: str) -> None:
    """The same results, the same kinds of refusal."""
    expect_agreement(AGREE[name])


def copied(ort: Any) -> Any:
    target = ort.OrtValue.ortvalue_from_shape_and_type([3], np.float32)
    ort.copy_tensors([made(ort, ONE)], [target])
    return target.numpy()


BRAIN = np.array([1, 2.5], ml_dtypes.bfloat16)
TRUTH = np.array([True, False])

DIFFER: dict[str, tuple[Case, Any, str]] = {
    "strings": (lambda ort: described(made(ort, np.array(["a"])))[0], "tensor(string)", "every ONNX type goes in"),
    "ml_dtypes": (lambda ort: made(ort, BRAIN).numpy(), BRAIN, "every ONNX type goes in and out"),
    "complex": (
        lambda ort: made(ort, np.ones(1, complex)).data_type(),
        "tensor(complex128)",
        "every ONNX type goes in",
    ),
    "NumPy scalar": (lambda ort: made(ort, np.float32(1)).shape(), [], "a NumPy scalar is an array of rank 0"),
    "big endian": (lambda ort: made(ort, ONE.astype(">f4")).numpy(), ONE, "byte order is converted"),
    "type of strings": (lambda ort: of_type(ort, str)[0], "tensor(string)", "every ONNX type goes in"),
    "type of ml_dtypes": (
        lambda ort: of_type(ort, ml_dtypes.bfloat16)[0],
        "tensor(bfloat16)",
        "every ONNX type goes in",
    ),
    "NumPy number of a type": (
        lambda ort: of_type(ort, np.int32(1))[0],
        "tensor(float)",
        "an integer is an ONNX number",
    ),
    "bfloat16 to NumPy": (
        lambda ort: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(BRAIN.view(np.uint16), 16).numpy(),
        BRAIN,
        "types NumPy lacks come out as ml_dtypes",
    ),
    "update of another type": (
        lambda ort: updated(ort, ONE, np.array([1.0, 2.0, 3.0])),
        UsageError,
        "bytes are never reinterpreted",
    ),
    "DLPack booleans out": (lambda ort: np.from_dlpack(made(ort, TRUTH)), TRUTH, "booleans stay booleans"),
    "DLPack booleans in": (lambda ort: imported(ort, TRUTH)[2], TRUTH, "booleans stay booleans"),
    "DLPack second generation": (
        lambda ort: repr(made(ort, ONE).__dlpack__(max_version=(1, 0))).split('"')[1],
        "dltensor_versioned",
        "both generations of the protocol",
    ),
    "DLPack out is writable": (
        lambda ort: np.from_dlpack(made(ort, ONE)).flags.writeable,
        True,
        "the second generation says that memory may be written to",
    ),
    "copy_tensors on the host": (copied, ONE, "the host copies too"),
    "COO index outside": (lambda ort: coo(ort, indices=[0, 50]), UsageError, "an index outside is refused"),
    "COO object texts": (
        lambda ort: coo(ort, values=np.array(["a", "b"], object)).values(),
        np.array(["a", "b"], object),
        "texts may come as objects",
    ),
    "equal devices": (lambda ort: host(ort) == host(ort), True, "devices compare by what they are"),
    "pickle": (lambda ort: pickle.loads(pickle.dumps(made(ort, ONE))).numpy(), ONE, "values can be sent elsewhere"),
}


@pytest.mark.parametrize("name", DIFFER)
def test_deliberate_differences_of_values(name: str) -> None:
    """Values that onnxruntime refuses, or gets wrong, are right or refused here; the table has the reasons."""
    case, expected, _reason = DIFFER[name]
    expect_difference(case, expected)


ENUMS = (
    *("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtAllocatorType", "OrtMemType"),
    *("OrtDeviceMemoryType", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtDeviceVendorId"),
    *("OrtHardwareDeviceType", "OrtExecutionProviderDevicePolicy", "OrtCompileApiFlags"),
)


@pytest.mark.parametrize("name", ENUMS)
def test_enumerations_are_those_of_onnxruntime(name: str) -> None:
    """Members, numbers, names, texts, comparison with numbers and pickling."""

    def described_members(ort: Any) -> Any:
        members = getattr(ort, name).__members__
        return {
            key: [member.name, int(member), member.value, str(member), f"{member}", repr(member)]
            for key, member in members.items()
        }

    assert described_members(OURS) == described_members(THEIRS)
    # onnxruntime's ExecutionOrder alone is not equal to its numbers.
    assert all(member == int(member) for member in getattr(OURS, name).__members__.values())
    members = list(getattr(OURS, name).__members__.values())
    assert pickle.loads(pickle.dumps(members)) == members
    assert [getattr(OURS, name)(int(member)) for member in members] == members


@pytest.mark.parametrize("name", ["OrtValue", "OrtDevice", "SparseTensor", "IOBinding", "InferenceSession"])
def test_signatures_accept_what_onnxruntimes_do(name: str) -> None:
    """Every public method is there, with the same parameters in the same order, and the same defaults."""
    theirs, ours = getattr(THEIRS, name), getattr(OURS, name)
    for method, function in inspect.getmembers(theirs, callable):
        if method.startswith("_") and method not in ("__dlpack__", "__dlpack_device__", "__array__"):
            continue
        if not hasattr(ours, method) and name == "InferenceSession":
            continue  # what sessions have is compared by the test of the whole surface
        known = inspect.signature(function).parameters
        found = inspect.signature(getattr(ours, method)).parameters
        assert list(found)[: len(known)] == list(known), method
        for parameter in known.values():
            assert found[parameter.name].default == parameter.default, (method, parameter)
            assert found[parameter.name].kind == parameter.kind, (method, parameter)


def test_memory_of_the_host_needs_no_allocator() -> None:
    """A description of the host's memory is enough; onnxruntime wants an allocator registered for it first."""
    value = OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=memory(ort_py, "Cpu"))
    assert (value.device_name(), value.shape()) == ("cpu", [2])


def test_block_sparse_tensors() -> None:
    """Blocks are kept with the block rows and columns they belong to, and are found again in the dense tensor.

    onnxruntime's own constructor for this form fails on every input.
    """
    blocks, indices = floats(2, 2, 2) + 1, np.array([[0, 1], [1, 0]], np.int32)
    tensor = SparseTensor.blocksparse_from_numpy([4, 4], blocks, indices, ort_py.OrtDevice.make("cpu", 0))
    assert tensor.format() is OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE
    np.testing.assert_array_equal(tensor.as_blocksparse_view().indices(), indices)
    expected = np.zeros((4, 4), np.float32)
    expected[0:2, 2:4], expected[2:4, 0:2] = blocks
    np.testing.assert_array_equal(tensor.to_dense(), expected)


@pytest.mark.parametrize(
    "make", [coo, lambda ort: coo(ort, indices=[[0, 0], [1, 2]]), csr], ids=["linear", "pairs", "csr"]
)
def test_sparse_tensors_made_dense(make: Any) -> None:
    """Every value stands where its index says."""
    dense = make(ort_py).to_dense()
    column = 2
    expected = np.zeros((3, 3), np.float32)
    expected[0, 0], expected[1, column] = 1, 2
    np.testing.assert_array_equal(dense, expected)


LOW = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", LOW, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("generation", [None, (1, 0)])
def test_types_numpy_lacks_travel_through_dlpack(dtype: Any, generation: Any) -> None:
    """Out and in again over the same memory, in both generations; the capsule says the true type."""
    array = np.array([[1, 2], [4, 8]], dtype)
    back = OrtValue.from_dlpack(OrtValue.ortvalue_from_numpy(array).__dlpack__(max_version=generation))
    assert back.numpy().dtype == array.dtype
    assert back.data_ptr() == array.ctypes.data
    np.testing.assert_array_equal(back.numpy().astype(np.float32), array.astype(np.float32))


def test_memory_outlives_its_first_owner() -> None:
    """A value over another library's memory keeps it, and NumPy's views keep the value's."""
    value = OrtValue.from_dlpack(np.full(1000, 7, np.float32).__dlpack__())
    view = value.numpy()
    del value
    assert (view == 7).all()


def test_a_capsule_is_used_once() -> None:
    capsule = OrtValue.ortvalue_from_numpy(ONE).to_dlpack()
    OrtValue.from_dlpack(capsule)
    with pytest.raises(TypeError, match="not a DLPack capsule"):
        OrtValue.from_dlpack(capsule)


def test_read_only_memory_is_not_updated() -> None:
    """An array that must not change is not changed through its value; onnxruntime writes to it."""
    array = ONE.copy()
    array.flags.writeable = False
    value = OrtValue.ortvalue_from_numpy(array)
    assert not value.numpy().flags.writeable
    with pytest.raises(UsageError, match="read-only"):
        value.update_inplace(ONE * 2)


def test_packed_bytes_are_read_low_bits_first() -> None:
    """int4 elements come in pairs, as in a file; sign and order are those of ONNX's own reference."""
    raw = np.array([0x21, 0xF8, 0, 0], np.uint8)
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(raw, onnx.TensorProto.INT4)
    assert value.numpy().astype(np.int32).tolist() == [1, 2, -8, -1]


@pytest.mark.parametrize(("name", "number"), [("int4", onnx.TensorProto.INT4), ("uint4", onnx.TensorProto.UINT4)])
def test_packed_values_compute_as_in_onnxruntime(name: str, number: int) -> None:
    """A packed value fed to both runtimes gives the same numbers."""
    text = f"g ({name}[N] x) => (float[N] y) {{ y = Cast <to = 1> (x) }}"
    raw = np.random.default_rng(4).integers(0, 256, 7).astype(np.uint8)
    found = []
    for ort in (OURS, THEIRS):
        value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
        found.append(session(ort, text).run(None, {"x": value})[0])
    np.testing.assert_array_equal(found[0], found[1])


def test_any_value_can_be_wrapped() -> None:
    """`OrtValue.of` takes what a run gives: lists, dicts, nothing."""
    assert OrtValue.of([ONE, ONE]).data_type() == "seq(tensor(float))"
    assert OrtValue.of({1: 0.5}).data_type() == "map(int64,tensor(float))"
    assert OrtValue.of([{"a": 0.5}]).data_type() == "seq(map(string,tensor(float)))"
    assert not OrtValue.of([{"a": 0.5}]).is_tensor_sequence()
    assert not OrtValue.of(None).has_value()


def vector(ort: Any) -> Any:
    """An empty vector of values."""
    if ort is THEIRS:
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        return state.OrtValueVector()
    from ort_py.values.vector import OrtValueVector

    return OrtValueVector()


def filled(ort: Any) -> Any:
    found = vector(ort)
    found.push_back(made(ort, ONE)._ortvalue)
    found.push_back(made(ort, TRUTH)._ortvalue)
    found.push_back(np.array([1, 0], np.uint8).__dlpack__(), True)
    return found


def batch(ort: Any) -> Any:
    found, array = vector(ort), floats(2, 3)
    device = ort.OrtDevice.make("cpu", 0)._get_c_device()

    class Tensor:
        """The attributes of PyTorch's tensors."""

        def data_ptr(self) -> int:
            return int(array.ctypes.data)

    found.push_back_batch([Tensor()], [array.ctypes.data], [np.float32], [[2, 3]], [device])
    return [value.numpy().copy() for value in found]


VECTORS: dict[str, Case] = {
    "length and truth": lambda ort: [len(filled(ort)), bool(filled(ort)), len(vector(ort)), bool(vector(ort))],
    "items": lambda ort: [filled(ort)[0].numpy(), [value.data_type() for value in filled(ort)]],
    "beyond the end": lambda ort: filled(ort)[5],
    "negative": lambda ort: filled(ort)[-1],
    "booleans": lambda ort: filled(ort).bool_tensor_indices(),
    "element type": lambda ort: filled(ort).element_type_at(0),
    "capsules": lambda ort: [type(capsule).__name__ for capsule in filled(ort).to_dlpacks(None)],
    "capsule": lambda ort: type(filled(ort).dlpack_at(1)).__name__,
    "room": lambda ort: [vector(ort).reserve(4), vector(ort).shrink_to_fit()],
    "batch": batch,
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_those_of_onnxruntime(name: str) -> None:
    """OrtValueVector, which low-level callers fill and read."""
    expect_agreement(VECTORS[name])


def test_refusals_say_what_to_do() -> None:
    """A refusal has the four parts, and suggests close names."""
    with pytest.raises(InvalidArgument, match="Did you mean 'cpu'"):
        made(ort_py, ONE, "CPU")
    with pytest.raises(UsageError, match="Did you mean 'max_mem'"):
        ort_py.OrtArenaCfg({"max_memm": 1})
    with pytest.raises(UsageError, match="Did you mean 'Cpu'"):
        memory(ort_py, "cpu")
