"""Constants as compiled regions get them, and the packed forms that a session holds.

What a region takes over goes from memory here; what it made of it is found by the store like all packed forms. It is
independent of compilers. `planning.constants` has one `HeldForms` a device, views of regions hand them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.contracts.region_weights import PackedForms, RegionWeight
from ort_py.graph.weights.packed_forms import PackedForm, PackedKey
from ort_py.graph.weights.weight_store import process_store
from ort_py.graph.weights.weights import ArrayWeight, MappedWeight

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array
    from ort_py.dtypes import DataType
    from ort_py.graph.ir import Weight
    from ort_py.graph.weights.packed_forms import PackedFormCache
    from ort_py.graph.weights.weight_store import WeightStore


class HeldForms(PackedForms):
    """Packed forms of one session on one device, each held until the session goes.

    Args:
        shared: Whether it does: memory of a device belongs to the session's allocator.
        kept: Forms that an earlier process made, where there are any.
    """

    def __init__(
        self, store: WeightStore | None = None, *, shared: bool = True, kept: PackedFormCache | None = None
    ) -> None:
        self._store = store or process_store()
        self._shared = shared
        self._kept = kept
        self._forms: dict[PackedKey, PackedForm] = {}

    def packed(
        self, keys: Sequence[str], form: str, make: Callable[[], Any], arrays: Callable[[], Sequence[Any]] = tuple
    ) -> Any:
        """A form; see `PackedForms.packed`.

        Args:
            arrays: Arrays that are counted elsewhere, as those of the constants: asked when the form is made.
        """
        key = PackedKey(form, tuple(keys))
        found = self._forms.get(key)
        if found is None:
            known = None if self._kept is None else self._kept.find(key)
            if known is not None:
                make = partial(_unchanged, known)
            found = self._store.packed(key, make, arrays) if self._shared else PackedForm(key, make(), arrays())
            found = self._forms.setdefault(key, found)
            if self._kept is not None and known is None:
                self._kept.note(found)
        return found.value

    @property
    def nbytes(self) -> int:
        return sum(form.nbytes for form in list(self._forms.values()))


def _unchanged(form: Any) -> Any:
    return form


class StoredWeight(RegionWeight):
    """A constant of the model."""

    __slots__ = ("_weight",)

    def __init__(self, weight: Weight) -> None:
        self._weight = weight

    @property
    def key(self) -> str:
        return self._weight.key

    @property
    def data_type(self) -> DataType:
        return self._weight.data_type

    @property
    def shape(self) -> tuple[int, ...]:
        return self._weight.shape

    def array(self) -> Array:
        return self._weight.array()

    def held(self) -> object:
        weight = self._weight
        return weight.held() if isinstance(weight, ArrayWeight) else weight.array()

    def replaced(self, restore: Callable[[], Array] | None = None) -> None:
        weight = self._weight
        if isinstance(weight, ArrayWeight):
            weight.replace(restore)
        elif isinstance(weight, MappedWeight):
            weight.release()
            weight.forget_pages()
