"""SparseTensor: values that are not zero, and where they belong.

Before `ort_value`, which may hold one. Sessions compute with dense tensors: a sparse feed is made dense on its way in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import ArgumentTypeError, UsageError
from ort_py.value_enums import OrtSparseFormat
from ort_py.values.device import OrtDevice, expect_host
from ort_py.values.device_table import SPARSE_COPY_METHOD
from ort_py.values.element_types import element_type_of, shape_of

_Array = np.ndarray[Any, Any]


class _IndexedView:
    """The places of a tensor's values, as one array of indices."""

    __slots__ = ("_indices",)

    def __init__(self, indices: _Array) -> None:
        self._indices = indices

    def indices(self) -> _Array:
        """Return the indices in the form that the class describes."""
        return self._indices


class SparseCooView(_IndexedView):
    """Places of the values of a tensor in coordinate form.

    The indices are int64: linear ones of shape ``(n,)``, or ``(n, 2)`` rows and columns, as the tensor was made.
    """

    __slots__ = ()


class SparseCsrView:
    """Places of the values of a tensor in compressed-row form."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: _Array, outer: _Array) -> None:
        self._inner, self._outer = inner, outer

    def inner(self) -> _Array:
        """int64, one per element: its column."""
        return self._inner

    def outer(self) -> _Array:
        """int64, rows + 1: where each row begins among the values."""
        return self._outer


class SparseBlockSparseView(_IndexedView):
    """Places of the blocks of a tensor: int32 indices of shape ``(2, blocks)``, block rows, then block columns."""

    __slots__ = ()


class SparseTensor:
    """A sparse tensor over the memory of the arrays it was made of, which must not change their size.

    Make one with `sparse_coo_from_numpy`, `sparse_csr_from_numpy` or `blocksparse_from_numpy`.

    Args:
        sparse_tensor: Another one; the new one shares its content.

    Raises:
        ValueError: The argument is not a SparseTensor.
    """

    __slots__ = ("_format", "_indices", "_shape", "_type", "_values")

    _format: OrtSparseFormat
    _indices: tuple[_Array, ...]
    _shape: tuple[int, ...]
    _type: DataType
    _values: _Array

    def __init__(self, sparse_tensor: SparseTensor) -> None:
        if not isinstance(sparse_tensor, SparseTensor):
            raise ValueError(
                f"A SparseTensor is made of another one, not of {type(sparse_tensor).__name__}: "
                "use SparseTensor.sparse_coo_from_numpy()."
            )
        for name in self.__slots__:
            setattr(self, name, getattr(sparse_tensor, name))

    @classmethod
    def _make(
        cls, form: OrtSparseFormat, shape: Any, values: Any, indices: tuple[_Array, ...], device: OrtDevice
    ) -> SparseTensor:
        made = object.__new__(cls)
        expect_host(device)
        made._format, made._shape = form, shape_of(shape)
        made._type = element_type_of(values.dtype)
        made._values = values.astype(object) if made._type is DataType.STRING else _expect_native(values)
        made._indices = indices
        return made

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int] | _Array, values: _Array, coo_indices: Any, ort_device: OrtDevice
    ) -> SparseTensor:
        """A sparse tensor in coordinate form.

        Args:
            dense_shape: Its shape when dense.
            values: 1-D, C-contiguous, any element type.
            coo_indices: int64; ``(n,)`` linear indices, or ``(n, 2)`` or flat ``2 n`` rows and columns.
            ort_device: The host.

        Raises:
            ArgumentTypeError: The values are not an array.
            UsageError: Shapes that do not fit, an index outside, or another device.
        """
        _expect_values(values, 1)
        sizes = shape_of(dense_shape)
        indices = _indices(coo_indices, np.int64)
        count = len(values)
        if indices.size == 2 * count:
            indices = indices.reshape(count, 2)
            fits = len(sizes) == 2 and _within(indices[:, 0], sizes[0]) and _within(indices[:, 1], sizes[1])
            inside = fits or not count
        elif indices.size == count:
            indices = indices.reshape(count)
            inside = _within(indices, int(np.prod(sizes, dtype=np.int64)))
        else:
            raise _misfit(f"{indices.size} indices for {count} values", "Pass one or two indices a value.")
        if not inside:
            raise _misfit(f"an index is outside the shape {list(sizes)}", "Count from 0, along dense_shape.")
        return cls._make(OrtSparseFormat.ORT_SPARSE_COO, sizes, values, (indices,), ort_device)

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Sequence[int] | _Array,
        values: _Array,
        inner_indices: Any,
        outer_indices: Any,
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """A sparse matrix in compressed-row form.

        Args:
            dense_shape: Rows and columns.
            values: 1-D, C-contiguous, any element type.
            inner_indices: int64, the column of each value.
            outer_indices: int64, rows + 1: where each row begins among the values.
            ort_device: The host.

        Raises:
            ArgumentTypeError: The values are not an array.
            UsageError: Shapes that do not fit, an index outside, or another device.
        """
        _expect_values(values, 1)
        sizes = shape_of(dense_shape)
        inner, outer = _indices(inner_indices, np.int64), _indices(outer_indices, np.int64)
        if len(sizes) != 2:
            raise _misfit(f"dense_shape {list(sizes)} is not the shape of a matrix", "Pass [rows, columns].")
        if inner.size != len(values) or outer.size not in (sizes[0] + 1, 0) or (not outer.size and len(values)):
            raise _misfit(
                f"{inner.size} inner and {outer.size} outer indices for {len(values)} values in {sizes[0]} rows",
                "Pass one inner index a value, and one outer index a row and one more.",
            )
        steps_back = bool(np.any(np.diff(outer) < 0)) if outer.size else False
        ends_wrong = bool(outer.size) and (outer[0] != 0 or outer[-1] != len(values))
        if steps_back or ends_wrong or not _within(inner, sizes[1]):
            raise _misfit(
                f"an index is outside the shape {list(sizes)}", "Count from 0; outer indices must not decrease."
            )
        form = OrtSparseFormat.ORT_SPARSE_CSRC
        return cls._make(form, sizes, values, (inner.reshape(-1), outer.reshape(-1)), ort_device)

    @classmethod
    def blocksparse_from_numpy(
        cls, dense_shape: Sequence[int] | _Array, values: _Array, block_indices: Any, ort_device: OrtDevice
    ) -> SparseTensor:
        """A sparse matrix of dense blocks.

        Args:
            dense_shape: Rows and columns, multiples of a block's.
            values: ``(blocks, block rows, block columns)``, C-contiguous, any element type.
            block_indices: int32 of shape ``(2, blocks)``: block rows, then block columns.
            ort_device: The host.

        Raises:
            ArgumentTypeError: The values are not an array.
            UsageError: Shapes that do not fit, an index outside, or another device.
        """
        _expect_values(values, 3)
        sizes = shape_of(dense_shape)
        indices = _indices(block_indices, np.int32)
        blocks, height, width = values.shape
        if indices.shape != (2, blocks) or len(sizes) != 2 or not height or not width:
            raise _misfit(f"indices of shape {indices.shape} for {blocks} blocks", "Pass indices of shape (2, blocks).")
        if sizes[0] % height or sizes[1] % width:
            raise _misfit(f"blocks of {height}×{width} in {list(sizes)}", "Pad the matrix to whole blocks.")
        if not _within(indices[0], sizes[0] // height) or not _within(indices[1], sizes[1] // width):
            raise _misfit(f"a block is outside the shape {list(sizes)}", "Count blocks from 0.")
        return cls._make(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, sizes, values, (indices,), ort_device)

    def values(self) -> _Array:
        """The values, a read-only view of the memory they came in; texts as an object array."""
        view = self._values.view()
        view.flags.writeable = False
        return view

    def as_coo_view(self) -> SparseCooView:
        """The places in coordinate form.

        Raises:
            UsageError: The tensor has another form.
        """
        (indices,) = self._in_form(OrtSparseFormat.ORT_SPARSE_COO)
        return SparseCooView(indices)

    def as_csrc_view(self) -> SparseCsrView:
        """The places in compressed-row form.

        Raises:
            UsageError: The tensor has another form.
        """
        return SparseCsrView(*self._in_form(OrtSparseFormat.ORT_SPARSE_CSRC))

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        """The places of blocks.

        Raises:
            UsageError: The tensor has another form.
        """
        (indices,) = self._in_form(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)
        return SparseBlockSparseView(indices)

    get_coo_data = as_coo_view
    get_csrc_data = as_csrc_view
    get_blocksparse_data = as_blocksparse_view

    def format(self) -> OrtSparseFormat:
        return self._format

    def dense_shape(self) -> list[int]:
        """Shape of the dense tensor."""
        return list(self._shape)

    def data_type(self) -> str:
        """Type string, e.g. ``sparse_tensor(float)``."""
        return f"sparse_tensor({self._type.onnx_name})"

    @property
    def element_type(self) -> DataType:
        return self._type

    def device_name(self) -> str:
        """Kind of the device, lower case."""
        return "cpu"

    def to_dense(self) -> _Array:
        """The dense tensor, with zeros or empty strings for missing values."""
        text = self._type is DataType.STRING
        dense: _Array = np.full(self._shape, "", object) if text else np.zeros(self._shape, self._values.dtype)
        if self._format is OrtSparseFormat.ORT_SPARSE_COO:
            (indices,) = self._indices
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = self._values
            else:
                dense[indices[:, 0], indices[:, 1]] = self._values
        elif self._format is OrtSparseFormat.ORT_SPARSE_CSRC:
            inner, outer = self._indices
            rows = np.repeat(np.arange(self._shape[0]), np.diff(outer)) if outer.size else inner
            dense[rows, inner] = self._values
        else:
            _, height, width = self._values.shape
            (indices,) = self._indices
            blocks = dense.reshape(self._shape[0] // height, height, self._shape[1] // width, width).swapaxes(1, 2)
            blocks[indices[0], indices[1]] = self._values
        return dense

    def _get_c_tensor(self) -> SparseTensor:
        return self

    def _in_form(self, form: OrtSparseFormat) -> tuple[_Array, ...]:
        if self._format is not form:
            raise UsageError(
                f"This tensor has the form {self._format.name}, not {form.name}.", fix="Ask format() which view it has."
            )
        return self._indices

    def __repr__(self) -> str:
        form = self._format.name
        return f"SparseTensor({self.data_type()}, shape={self.dense_shape()}, {form}, {self._values.size} values)"


def _expect_values(values: Any, rank: int) -> None:
    if not isinstance(values, np.ndarray):
        raise ArgumentTypeError(
            f"values must be a NumPy array, not {type(values).__name__}.", fix="numpy.asarray(values)"
        )
    if values.ndim != rank or not values.flags.c_contiguous:
        raise UsageError(
            f"values must be a contiguous array of rank {rank}.",
            why=f"shape {values.shape}, strides {values.strides} bytes",
            fix="Use numpy.ascontiguousarray().",
        )


def _expect_native(values: _Array) -> _Array:
    return np.asarray(values, numpy_dtype(element_type_of(values.dtype)))


def _indices(given: Any, dtype: Any) -> _Array:
    try:
        array = np.asarray(given)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"their dtype is {array.dtype}")
        indices = np.ascontiguousarray(array, dtype).reshape(array.shape)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError("Indices must be an array of integers.", why=str(error), fix="Use astype().") from None
    view = indices.view()
    view.flags.writeable = False
    return view


def _within(indices: _Array, size: int) -> bool:
    return not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < size)


def _misfit(why: str, fix: str) -> UsageError:
    return UsageError("The indices do not fit the values.", why=why, fix=fix)


def _copy_to_device(self: SparseTensor, ort_device: OrtDevice) -> SparseTensor:
    """Refuse to copy the tensor to another device, because sparse tensors stay on the host.

    Raises:
        UsageError: Always.
    """
    raise UsageError("Sparse tensors are on the host here.", fix="Feed the tensor as it is: sessions copy it.")


setattr(SparseTensor, SPARSE_COPY_METHOD, _copy_to_device)
