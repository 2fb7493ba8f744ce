"""The registry: conflicts name both sides, contributions fill gaps, look-ups list every refusal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ort_py.contracts import KernelCatalog, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import KernelConflictError
from ort_py.kernels.registry import KernelRegistry
from ort_py_kit.kernel_runner import make_node_spec

NODE = make_node_spec("Add", [np.ones(2, np.float32)] * 2, opset=21)


def definition(name: str, since: int = 14, until: int | None = None, domain: str = "") -> KernelDef:
    """A kernel of Add called `name` in reports."""
    return KernelDef("Add", lambda _ctx: max, domain=domain, since=since, until=until, implementation=name)


def test_a_conflict_names_both_sides_and_the_overlap() -> None:
    """Both kernels with their implementations and sources are in the message, and what to do."""
    registry = KernelRegistry()
    registry.register("P", [definition("a:first", 7, 14)], "dist-a")
    with pytest.raises(KernelConflictError) as caught:
        registry.register("P", [definition("b:second", 14)], "dist-b")
    text = str(caught.value)
    assert "Two kernels of P claim Add version 14 for every type." in text
    assert "Add(7-14) (a:first) from dist-a" in text
    assert "Add(14) (b:second) from dist-b" in text
    assert "Narrow the versions or types" in text


def test_providers_and_domains_do_not_conflict() -> None:
    """The same operator may have a kernel in each provider and in each domain."""
    registry = KernelRegistry()
    registry.register("P", [definition("a"), definition("b", domain="com.example")], "x")
    registry.register("Q", [definition("c")], "y")
    assert registry.find("Q", NODE).kernel is not registry.find("P", NODE).kernel


def test_a_contribution_fills_a_gap() -> None:
    """A plug-in's kernel is used where the provider has none for the version."""
    registry = KernelRegistry()
    registry.register("P", [definition("own", 7, 13)], "x")
    registry.contribute("P", [definition("new", 14)], "plugin")
    found = registry.find("P", NODE).kernel
    assert found is not None
    assert found.implementation == "new"


def test_a_contribution_replaces_nothing_unless_allowed() -> None:
    """A provider's own kernel stays, and the report says who was left out for whom; `override` turns that round."""
    registry = KernelRegistry()
    registry.register("P", [definition("own")], "x")
    registry.contribute("P", [definition("new")], "plugin")
    found = registry.find("P", NODE).kernel
    assert found is not None
    assert found.implementation == "own"
    (line,) = registry.skipped
    assert "Add(14) (new) from plugin: P has Add(14) (own) from x" in line
    registry.contribute("P", [definition("new")], "plugin", override=True)
    found = registry.find("P", NODE).kernel
    assert found is not None
    assert found.implementation == "new"


def test_a_failed_look_up_lists_every_refusal() -> None:
    """Each kernel of the operator says why it does not fit."""
    registry = KernelRegistry()
    ints = KernelDef("Add", lambda _ctx: max, since=14, types={"T": tensors(DataType.INT32)})
    registry.register("P", [definition("old", 1), definition("older", 6), ints], "x")
    match = registry.lookup("P").find(NODE)
    assert match.kernel is None
    assert [refusal.split(":")[0] for refusal in match.refusals] == [
        "kernel Add(1)",
        "kernel Add(6)",
        "kernel Add(14) [T",
    ]


def test_an_unknown_provider_has_no_kernels() -> None:
    registry = KernelRegistry()
    registry.register("P", [definition("own")], "x")
    assert registry.find("Q", NODE).refusals == ("no kernel for Add",)


class Catalog(KernelCatalog):
    """Kernels by operator, and a list of what was asked for."""

    def __init__(self, *definitions: KernelDef) -> None:
        self.definitions = definitions
        self.asked: list[tuple[str, str]] = []

    def kernels_of(self, domain: str, op_type: str) -> list[KernelDef]:
        self.asked.append((domain, op_type))
        return [one for one in self.definitions if (one.domain, one.op_type) == (domain, op_type)]

    def __iter__(self) -> Iterator[KernelDef]:
        return iter(self.definitions)


def test_a_catalogue_is_asked_once_for_each_operator_that_is_met() -> None:
    """So that a library imports what a model needs."""
    catalog = Catalog(definition("own"), definition("other", domain="com.example"))
    registry = KernelRegistry()
    registry.register("P", catalog, "x")
    assert catalog.asked == []
    for _ in range(2):
        found = registry.find("P", NODE).kernel
        assert found is not None
        assert found.implementation == "own"
    assert catalog.asked == [("", "Add")]


def test_a_conflict_inside_a_catalogue_is_found_with_its_operator() -> None:
    """Both sides are named, as for a list."""
    registry = KernelRegistry()
    registry.register("P", Catalog(definition("a:first", 7, 14), definition("b:second")), "x")
    with pytest.raises(
        KernelConflictError, match=r"Two kernels of P claim Add version 14(.|\n)*a:first(.|\n)*b:second"
    ):
        registry.find("P", NODE)


def test_contributions_see_what_a_catalogue_has() -> None:
    """A plug-in's kernel fills a gap of it, and replaces nothing unasked."""
    registry = KernelRegistry()
    registry.register("P", Catalog(definition("own", 7, 13)), "x")
    registry.contribute("P", [definition("new", 14), definition("rival", 13)], "plugin")
    found = registry.find("P", NODE).kernel
    assert found is not None
    assert found.implementation == "new"
    assert len(registry.skipped) == 1
