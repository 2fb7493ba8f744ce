"""Values that the caller supplies in place of the model file's: tensors, files of external data, sizes of dimensions.

Asked while a model is read, so that data that is supplied is never looked for on disk. Comes before `external_data` and
`loader`, which use it. It does not depend on session options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, Dim, OptionalType, SequenceType, TensorType, ValueType, data_type_of
from ort_py.errors import Fail, Location
from ort_py.graph.reading.written import WrittenGraph
from ort_py.lazy_dataclass import dataclass
from ort_py.suggestions import did_you_mean


@dataclass(frozen=True, slots=True)
class Supplied:
    """Replacements for parts of a model's file.

    Attributes:
        external: Arrays by the name of an initializer whose data lies in a file; of the same type and shape.
        files: Content by location of files of external data. Where there is one, all must be here.
        dimensions: Sizes by the name of a symbolic dimension.
        denotations: Sizes by the denotation of an input's dimension.
    """

    external: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    files: Mapping[str, memoryview] = field(default_factory=dict)
    dimensions: Mapping[str, int] = field(default_factory=dict)
    denotations: Mapping[str, int] = field(default_factory=dict)

    def array(self, name: str, data_type: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
        """The array for an initializer with external data, None where none is supplied.

        Raises:
            Fail: It has another type or shape than the model declares.
        """
        found = self.external.get(name)
        if found is None:
            return None
        if found.shape != shape or data_type_of(found.dtype) != data_type:
            raise Fail(
                f"The value supplied for the initializer '{name}' does not match it.",
                where=Location(value=name),
                why=f"the model declares {data_type.onnx_name}{list(shape)}, supplied is "
                f"{data_type_of(found.dtype).onnx_name}{list(found.shape)}",
                fix="Supply an array of the declared type and shape.",
            )
        return found

    def check_used(self, graph: Any) -> None:
        """Refuse arrays for initializers that the model does not have, or whose data is in the model itself.

        Raises:
            Fail: There is such an array.
        """
        if not self.external:
            return
        places = {tensor.name: tensor.data_location for tensor in graph.initializer}
        for name in self.external:
            if not places.get(name):
                known = [initializer for initializer, place in places.items() if place]
                raise Fail(
                    f"A value is supplied for '{name}', which is not an initializer with external data.",
                    where=Location(value=name),
                    why="its data is in the model itself" if name in places else "the model has no such initializer",
                    fix=did_you_mean(name, known)
                    or "Use add_initializer() for initializers whose data is in the model itself.",
                )

    def fix_dimensions(self, written: WrittenGraph, graph: Any) -> None:
        """Give dimensions of the main graph their sizes, before anything is inferred from them.

        Args:
            written: The graph; its declared types are replaced.
        """
        sizes = {name: size for name, size in self.dimensions.items() if size >= 0}
        unnamed = self._by_denotation(graph.input, sizes) if self.denotations else {}
        if not sizes and not unnamed:
            return
        written.inputs = [(name, _fixed(found, sizes, unnamed.get(name))) for name, found in written.inputs]
        written.outputs = [(name, _fixed(found, sizes)) for name, found in written.outputs]
        written.types = {name: _fixed(found, sizes) for name, found in written.types.items()}

    def _by_denotation(self, inputs: Iterable[Any], sizes: dict[str, int]) -> dict[str, dict[int, int]]:
        """Add the named dimensions with a denotation to `sizes`; those without a name, by input and axis."""
        unnamed: dict[str, dict[int, int]] = {}
        for declared in inputs:
            for axis, dim in enumerate(declared.type.tensor_type.shape.dim):
                size = self.denotations.get(dim.denotation, -1)
                if size >= 0 and dim.dim_param:
                    sizes.setdefault(dim.dim_param, size)
                elif size >= 0 and not dim.HasField("dim_value"):
                    unnamed.setdefault(declared.name, {})[axis] = size
        return unnamed


def _fixed(
    declared: ValueType | None, sizes: Mapping[str, int], axes: Mapping[int, int] | None = None
) -> ValueType | None:
    if isinstance(declared, OptionalType | SequenceType):
        inner = _fixed(declared.element, sizes)
        return declared if inner is None else replace(declared, element=inner)
    if not isinstance(declared, TensorType) or declared.shape is None:
        return declared
    shape: list[Dim] = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in declared.shape]
    for axis, size in (axes or {}).items():
        shape[axis] = size
    return replace(declared, shape=tuple(shape))
