"""Rules that are imported by models that have their operators."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ort_py.contracts import RewriteRule
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.late import LATE, LateRule, late

NEEDS = {name: frozenset(row[3].split()) for name, row in LATE.items()}


def everything() -> set[str]:
    """Every operator that some rule looks at or waits for."""
    looked_at = [
        rule.rule.op_types if isinstance(rule, LateRule) else rule.op_types
        for rule in builtin_transforms()
        if isinstance(rule, RewriteRule)
    ]
    more = {"Reshape", "Concat", "Neg", "Sub", "Sqrt", "Erf", "Exp", "ReduceSum", "ReduceMax", "ReduceMean", "Softmax"}
    return more.union(*(one or () for one in looked_at), *NEEDS.values())


@pytest.mark.parametrize("name", LATE)
def test_what_is_known_of_a_rule_is_what_the_rule_says(name: str) -> None:
    (one,) = late(name)
    assert (one.name, one.level, one.op_types) == (one.rule.name, one.rule.level, one.rule.op_types)


BESIDE = {"AttentionFusion", "GemmTransposeFusion", "Pad_Fusion"}
"""Rules that look for another operator beside each node that they are shown."""


@pytest.mark.parametrize("name", sorted(set(LATE) - BESIDE))
def test_without_what_it_needs_a_rule_looks_at_nothing(name: str) -> None:
    """The rule itself says so too."""
    (one,) = late(name)
    present = everything() - NEEDS[name]
    shown = {op_type for op_type in present if one.concerns(op_type, present)}
    assert shown == {op_type for op_type in present if one.rule.concerns(op_type, present)} == set()


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_without_what_it_looks_for_a_rule_is_shown_nothing(name: str) -> None:
    (one,) = late(name)
    assert one.op_types is not None
    assert not any(one.concerns(op_type, everything() - NEEDS[name]) for op_type in one.op_types)


@pytest.mark.parametrize("name", LATE)
def test_with_all_operators_it_looks_at_what_the_rule_looks_at(name: str) -> None:
    (one,) = late(name)
    present = everything()
    for op_type in present:
        assert one.concerns(op_type, present) == one.rule.concerns(op_type, present)


def test_no_rule_is_imported_before_it_is_needed() -> None:
    modules = {f"ort_py.transforms.{row[4]}" for row in LATE.values()}
    program = (
        "import sys\nfrom ort_py.transforms.builtin import builtin_transforms\nrules = builtin_transforms()\n"
        "names = [rule.concerns('MatMul', {'MatMul'}) for rule in rules if hasattr(rule, 'concerns')]\n"
        "print(' '.join(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert modules.isdisjoint(run.stdout.split())
