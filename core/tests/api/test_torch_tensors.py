"""Tensors of PyTorch in and out, with a stand-in that has PyTorch's names: the real one is not a dependency of
tests.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from core.tests.small_models import RELU, open_model, typed_identity
from ort_py import NotFound

X = np.array([[-1.0, 2.0, -3.0]], np.float32)


class FakeDtype(str):
    """An element type."""

    __slots__ = ()


class FakeTensor:
    """A tensor that behaves like PyTorch's at the border to NumPy."""

    def __init__(self, array: Any, dtype: FakeDtype, device: str = "cpu", requires_grad: bool = False) -> None:
        self.raw = array
        self.dtype = dtype
        self.device = device
        self.requires_grad = requires_grad

    def detach(self) -> FakeTensor:
        """Without history."""
        return FakeTensor(self.raw, self.dtype, self.device)

    def cpu(self) -> FakeTensor:
        """On the host."""
        return FakeTensor(self.raw, self.dtype, "cpu", self.requires_grad)

    def contiguous(self) -> FakeTensor:
        """In C order."""
        return FakeTensor(np.ascontiguousarray(self.raw), self.dtype, self.device, self.requires_grad)

    def view(self, dtype: FakeDtype) -> FakeTensor:
        """The same bytes as another type."""
        return FakeTensor(self.raw, dtype, self.device, self.requires_grad)

    def numpy(self) -> Any:
        """Convert like PyTorch: only on the host, without history, in types that NumPy has."""
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} tensor to numpy.")
        if self.dtype in ("bfloat16", "float8_e4m3fn"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.raw.view(np.dtype(str(self.dtype)))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module named torch."""
    module: Any = ModuleType("torch")
    module.Tensor = FakeTensor
    for name in ("float32", "int64", "int16", "uint8", "bfloat16", "float8_e4m3fn"):
        setattr(module, name, FakeDtype(name))

    def from_numpy(array: Any) -> FakeTensor:
        if array.dtype.kind not in "fiub":
            raise TypeError(f"can't convert np.ndarray of type {array.dtype}.")
        return FakeTensor(array, FakeDtype(array.dtype.name))

    module.from_numpy = from_numpy
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def tensor(torch: Any, array: Any) -> Any:
    """A tensor of an array."""
    return torch.from_numpy(array)


def test_tensors_in_and_out(torch: Any) -> None:
    """A tensor is a feed and the results are tensors."""
    (y,) = open_model(RELU).run_torch(None, {"x": tensor(torch, X)})
    assert isinstance(y, FakeTensor)
    assert y.dtype == torch.float32
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0))


def test_memory_is_shared(torch: Any) -> None:
    """No copy of a host tensor on its way in, none of an array on its way out."""
    from ort_py.api.torch_tensors import from_torch, to_torch

    assert np.shares_memory(from_torch({"x": tensor(torch, X)})["x"], X)
    assert to_torch([X])[0].raw is X


@pytest.mark.parametrize("how", ["gradient", "device", "array"])
def test_other_feeds(how: str, torch: Any) -> None:
    """The feeds are tensors with history, tensors of another device, and other objects."""
    feed = {
        "gradient": FakeTensor(X, torch.float32, requires_grad=True),
        "device": FakeTensor(X, torch.float32, device="fake:0"),
        "array": X,
    }[how]
    (y,) = open_model(RELU).run_torch(["y"], {"x": feed})
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0))


@pytest.mark.parametrize(
    ("name", "type_text", "kind", "integers"),
    [
        ("bfloat16", "bfloat16[N]", ml_dtypes.bfloat16, np.int16),
        ("float8_e4m3fn", "float8e4m3fn[N]", ml_dtypes.float8_e4m3fn, np.uint8),
    ],
)
def test_types_numpy_does_not_have(name: str, type_text: str, kind: Any, integers: Any, torch: Any) -> None:
    """They go in and out as the bytes they are, under their own type."""
    array = np.array([1.5, -2.0, 0.25], kind)
    feed = FakeTensor(array.view(integers), FakeDtype(name))
    (y,) = open_model(typed_identity(type_text)).run_torch(None, {"x": feed})
    assert y.dtype == name
    np.testing.assert_array_equal(y.raw.view(kind), array)


def test_sequences_and_what_has_no_tensor(torch: Any) -> None:
    """Sequences are lists of tensors both ways; strings stay arrays; None and dicts are looked into or passed on."""
    from ort_py.api.torch_tensors import to_torch

    session = open_model("g (seq(float[N, 3]) x) => (seq(float[N, 3]) y) { y = Identity(x) }")
    (parts,) = session.run_torch(None, {"x": [tensor(torch, X), tensor(torch, X)]})
    assert [type(part) for part in parts] == [FakeTensor, FakeTensor]
    words = np.array(["a"], object)
    found = to_torch([words, None, {"k": X, "s": 3}, np.ones(2, ml_dtypes.float8_e5m2)])
    assert found[0] is words
    assert found[1] is None
    assert isinstance(found[2]["k"], FakeTensor)
    assert found[2]["s"] == 3
    assert isinstance(found[3], np.ndarray)  # this stand-in is of a release without the type


@pytest.mark.parametrize("broken", [None, OSError("libc10.so: cannot open")], ids=["absent", "broken"])
def test_without_pytorch(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why and what to do, also where it is installed and does not load."""
    monkeypatch.setitem(sys.modules, "torch", None)
    if broken is not None:

        class Finder:
            """Fails like a package whose library is missing."""

            @staticmethod
            def find_spec(name: str, *_: Any) -> None:
                """The spec, which there is none of."""
                if name == "torch":
                    raise broken

        monkeypatch.delitem(sys.modules, "torch")
        monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(NotFound, match="PyTorch cannot be imported") as caught:
        open_model(RELU).run_torch(None, {"x": X})
    assert "Install torch" in caught.value.fix
    if broken is not None:
        assert "libc10" in str(caught.value)
