"""The list of kernels: our own, and those of the library for other operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ort_py.contracts import KernelContext
from ort_py.contracts.kernel import ALL_FLOATS, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py_array.library import LibraryKernels
from ort_py_cuda import settings
from ort_py_cuda.kernels import catalog
from ort_py_cuda.kernels.cutting import without
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

FLOAT = tensors(DataType.FLOAT)


def definition(since: int, until: int, **types: frozenset[str]) -> KernelDef:
    return KernelDef("Softmax", lambda ctx: lambda x: x, since=since, until=until, types=types)


def covers(definitions: list[KernelDef], version: int, **bound: str) -> int:
    """Number of definitions that fit."""
    return sum(
        one.since <= version <= one.last and all(bound[name] in allowed for name, allowed in one.types.items())
        for one in definitions
    )


def test_versions_before_and_after_stay() -> None:
    left = without([definition(1, 20)], [definition(11, 13)])
    assert [covers(left, version) for version in (1, 10, 11, 13, 14, 20)] == [1, 1, 0, 0, 1, 1]


def test_types_that_ours_do_not_name_stay() -> None:
    """In the versions that both cover."""
    left = without([definition(1, 20, T=ALL_FLOATS)], [definition(11, 13, T=FLOAT)])
    assert covers(left, 12, T="tensor(float)") == 0
    assert covers(left, 12, T="tensor(double)") == 1
    assert covers(left, 5, T="tensor(float)") == 1


def test_two_variables_are_cut_as_a_box() -> None:
    """Each combination is covered once: by ours, or by one piece of the library's."""
    indices = tensors(DataType.INT32, DataType.INT64)
    ours = definition(1, 20, T=FLOAT, I=tensors(DataType.INT64))
    left = without([definition(1, 20, T=ALL_FLOATS, I=indices)], [ours])
    for element in ALL_FLOATS:
        for index in indices:
            assert covers([*left, ours], 3, T=element, I=index) == 1


def test_a_library_without_types_keeps_all_others() -> None:
    """It takes all tensors where it names no types."""
    left = without([definition(1, 20)], [definition(1, 20, T=FLOAT)])
    assert covers(left, 3, T="tensor(float)") == 0
    assert covers(left, 3, T="tensor(string)") == 1


def overlap(left: KernelDef, right: KernelDef) -> bool:
    """Whether some node could be either's."""
    versions = max(left.since, right.since) <= min(left.last, right.last)
    return versions and all(left.types[name] & right.types[name] for name in left.types.keys() & right.types.keys())


def _operators() -> Iterator[tuple[str, str]]:
    for words in catalog.FAMILIES.values():
        for word in words.split():
            domain, _, op_type = word.rpartition(":")
            yield domain, op_type


@pytest.mark.parametrize(("domain", "op_type"), sorted(set(_operators())))
def test_no_two_kernels_claim_the_same(domain: str, op_type: str) -> None:
    """For overlapping declarations of any module, the registry would refuse the session."""
    kernels = list(catalog.CudaKernels().kernels_of(domain, op_type))
    assert catalog.our_kernels(domain, op_type), "the catalogue names an operator that no module declares"
    for number, left in enumerate(kernels):
        for right in kernels[number + 1 :]:
            assert not overlap(left, right), f"{left} and {right}"


@pytest.mark.parametrize("family", [name for name, words in catalog.FAMILIES.items() if words])
def test_the_catalogue_names_what_modules_declare(family: str) -> None:
    """No kernel is forgotten, and none is named that is not there."""
    declared = {(one.domain, one.op_type) for one in catalog._declared(family)}
    named = {(word.rpartition(":")[0], word.rpartition(":")[2]) for word in catalog.FAMILIES[family].split()}
    assert declared == named


def test_every_operator_of_the_library_is_there() -> None:
    """Breadth: whatever the library has, by one kernel or the other."""
    ours = {(one.domain, one.op_type) for one in catalog.CudaKernels()}
    assert {(one.domain, one.op_type) for one in LibraryKernels()} <= ours


def test_the_librarys_kernel_for_a_node() -> None:
    """By version and types, as the registry would choose."""
    import numpy as np

    node = make_node_spec("Softmax", (np.ones((2, 3), np.float32),), opset=13)
    found = catalog.library_kernel(node)
    assert found is not None
    assert found.since <= 13 <= found.last
    assert catalog.library_kernel(make_node_spec("NoSuchOperator", (np.ones(2, np.float32),), opset=20)) is None


def test_factories_of_ours_see_the_sessions_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are called, and not afterwards; also those of a device that the session went on with."""
    import numpy as np

    seen: list[Any] = []

    def factory(ctx: KernelContext) -> Any:
        seen.append(settings.current())
        return lambda x: x

    mine = KernelDef("Softmax", factory, since=13)
    monkeypatch.setattr(catalog, "our_kernels", lambda domain, op_type: [mine])
    wanted = settings.Settings(tf32=True)
    made = catalog.CudaKernels(lambda: wanted).kernels_of("", "Softmax")[0]
    node = make_node_spec("Softmax", (np.ones(3, np.float32),), opset=13)
    context = LocalKernelContext(node, np, {})
    made.factory(context)
    wanted = settings.Settings(device=1)
    made.factory(context)
    assert [one.tf32 for one in seen] == [True, False]
    assert seen[1].device == 1
    assert settings.current() == settings.Settings()
