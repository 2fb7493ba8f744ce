"""The door to libcudnn's older calls: statuses become errors with text, descriptors end, and signatures are real."""

from __future__ import annotations

import ctypes
import gc

import pytest

from ort_py.errors import EPFail, Location
from ort_py_array.windows import Window
from ort_py_cuda.cudnn import descriptors, library
from ort_py_cuda.cudnn.errors import CudnnError, Unsupported
from ort_py_cuda.cudnn.graphs import Tensor, WindowOf, channels_first, channels_last
from ort_py_cuda.cudnn.library import Cudnn
from providers.cuda.tests.cudnn.fake_library import FakeLibrary
from providers.cuda.tests.cudnn.on_host import cudnn_on_host

_X = Tensor("x", (1, 2, 5, 6), channels_first((1, 2, 5, 6)), "float32")


def _real() -> Cudnn:
    reason = library.missing_library()
    if reason is not None:
        pytest.skip(f"libcudnn itself is asked: {reason}")
    return library.cudnn()


def test_a_failure_has_the_librarys_words() -> None:
    """The call, the status by name and number, and what cuDNN says happened."""
    fake = FakeLibrary()
    fake.statuses["cudnnCreateTensorDescriptor"] = 1001
    with pytest.raises(CudnnError) as caught:
        descriptors.tensor(Cudnn(fake), _X)
    text = str(caught.value)
    assert "cudnnCreateTensorDescriptor failed" in text
    assert "CUDNN_STATUS_OF_THE_STAND_IN (1001)" in text
    assert "what happened last" in text
    assert "nvidia-smi" in text
    assert caught.value.status == 1001
    assert not isinstance(caught.value, Unsupported)


@pytest.mark.parametrize("status", [2000, 3003, 4001])
def test_what_is_not_supported_is_told_apart(status: int) -> None:
    """A kernel then goes another way; a failure ends the run. A bad parameter is a combination that it lacks."""
    fake = FakeLibrary()
    fake.statuses["cudnnSetTensorNdDescriptor"] = status
    with pytest.raises(Unsupported):
        descriptors.tensor(Cudnn(fake), _X)


@pytest.mark.parametrize("status", [4003, 4004])
def test_short_memory_is_a_memory_error(status: int) -> None:
    """The engine gives memory back and runs once more on that."""
    fake = FakeLibrary()
    fake.statuses["cudnnCreateTensorDescriptor"] = status
    with pytest.raises(MemoryError, match="cudnnCreateTensorDescriptor"):
        descriptors.tensor(Cudnn(fake), _X)


def test_a_function_that_a_version_lacks() -> None:
    """An older or newer library without a call leaves that call's work to others."""
    fake = FakeLibrary()
    fake.missing = ("cudnnCreatePoolingDescriptor",)  # type: ignore[attr-defined]  # read by the stand-in
    with pytest.raises(Unsupported, match="no function cudnnCreatePoolingDescriptor"):
        descriptors.pooling(Cudnn(fake), 0, (2, 2), (0, 0), (1, 1))


def test_descriptors_end_with_what_holds_them() -> None:
    fake = FakeLibrary()
    made = descriptors.tensor(Cudnn(fake), _X)
    assert len(fake.live) == 1
    del made
    gc.collect()
    assert not fake.live


def test_weights_in_another_order_are_refused() -> None:
    """Filters know two orders of memory."""
    odd = Tensor("w", (2, 3, 4, 5), (1, 2, 6, 24), "float32")
    with pytest.raises(ValueError, match="strides"):
        descriptors.filters(Cudnn(FakeLibrary()), odd)


@pytest.mark.parametrize(
    ("dtype", "tf32", "math"), [("float32", False, 3), ("float32", True, 0), ("float16", False, 1)]
)
def test_math_types(dtype: str, tf32: bool, math: int) -> None:
    """float32 is computed by FMA alone unless TF32 is allowed; halves by tensor cores."""
    fake = FakeLibrary()
    window = WindowOf((1, 1), (1, 1), (0, 0), (0, 0))
    descriptors.convolution(Cudnn(fake), window, 1, dtype, tf32=tf32)
    assert fake.math == [math]


def test_a_missing_library_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words that a fallback's reason can hold."""
    cudnn_on_host(monkeypatch, with_library=False)
    assert library.missing_library() == "libcudnn cannot be loaded.; this test has none"
    with pytest.raises(EPFail):
        library.cudnn()


def test_every_function_is_in_the_real_library() -> None:
    """Names are spelled as libcudnn spells them."""
    real = _real()
    missing = [name for name in library._SIGNATURES if not hasattr(real._library, name)]
    assert missing == []


def test_the_real_library_explains_itself() -> None:
    """Without a device it cannot be initialised, and says so; with one it can."""
    real = _real()
    try:
        handle, said = real.handles.on(0, 0), ""
    except CudnnError as error:
        handle, said = None, str(error)
    assert handle is not None or ("cudnnCreate failed" in said and "CUDNN_STATUS" in said)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_real_library_takes_the_descriptors(dtype: str, last: bool) -> None:
    real = _real()
    strides = channels_last if last else channels_first
    for dims in ((2, 4, 5, 6), (2, 4, 5, 6, 7)):
        described = Tensor("x", dims, strides(dims), dtype)
        assert descriptors.tensor(real, described).handle.value
        assert descriptors.filters(real, described).handle.value
    assert descriptors.activation(real, 3, 6.0).handle.value


def _real_sizes(real: Cudnn, name: str, *arguments: object) -> list[int]:
    found = (ctypes.c_int * 4)()
    function = getattr(real._library, name)
    function.argtypes = [ctypes.c_void_p] * (len(arguments)) + [ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    assert function(*arguments, 4, found) == 0
    return list(found)


@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [0, 1])
def test_sizes_are_the_real_librarys(kernel: int, stride: int, pad: int) -> None:
    """Results of convolutions and pools have the sizes that libcudnn computes from the same descriptors."""
    real = _real()
    if pad >= kernel:
        pad = 0
    x = descriptors.tensor(real, _X)
    both, pads, steps = (kernel, kernel), (pad, pad), (stride, stride)
    place = Window(Location(), both, steps, (), (*pads, *pads)).placed((5, 6))
    w = descriptors.filters(real, Tensor("w", (3, 2, *both), channels_first((3, 2, *both)), "float32"))
    held = descriptors.convolution(real, WindowOf(steps, (1, 1), pads, pads), 1, "float32", tf32=False)
    found = _real_sizes(real, "cudnnGetConvolutionNdForwardOutputDim", held.handle, x.handle, w.handle)
    assert found == [1, 3, *place.out]
    pool = descriptors.pooling(real, 0, both, pads, steps)
    assert _real_sizes(real, "cudnnGetPoolingNdForwardOutputDim", pool.handle, x.handle) == [1, 2, *place.out]
