"""The generator: seeds decide, every form is drawn, and what is drawn is valid."""

from __future__ import annotations

import random
from collections import Counter

import onnx
import pytest

from tests.fuzzing.attacks import ATTACKS, attack_case
from tests.fuzzing.cases import draw_case
from tests.fuzzing.contradictions import contradict
from tests.fuzzing.forms.registry import FORMS
from tests.fuzzing.mutations import mutate, mutate_bytes

SEEDS = range(600)


def test_a_seed_decides_everything() -> None:
    """Model and feeds are the same for the same seed, and others for another."""
    first, again, other = draw_case(7), draw_case(7), draw_case(8)
    assert first.model == again.model
    assert [{name: array.tobytes() for name, array in feeds.items()} for feeds in first.feeds] == [
        {name: array.tobytes() for name, array in feeds.items()} for feeds in again.feeds
    ]
    assert first.model != other.model


def test_graphs_are_valid() -> None:
    """Names, types and shapes fit together, as far as ONNX infers them."""
    for seed in SEEDS:
        onnx.shape_inference.infer_shapes(draw_case(seed).model, check_type=True, strict_mode=True)


def test_every_form_is_drawn() -> None:
    """No form is always rejected; operators, versions and sizes vary."""
    drawn: Counter[str] = Counter()
    operators, versions, symbolic = set(), set(), 0
    for seed in SEEDS:
        case = draw_case(seed)
        drawn.update(case.forms)
        operators |= {node.op_type for node in case.model.graph.node}
        versions.add(case.model.opset_import[0].version)
        symbolic += any(dim.dim_param for one in case.model.graph.input for dim in one.type.tensor_type.shape.dim)
    assert {one.name for one in FORMS} - set(drawn) == set()
    assert len(operators) > 120
    assert {7, 8, 9, 10, 11, 12, 13} < versions
    assert symbolic > len(SEEDS) / 2


def test_contradictions_do_not_make_loops_endless() -> None:
    """The trip count and the condition of a Loop stay."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64 n, bool c, float[2] x) => (float[2] y) {
        y = Loop(n, c, x) <body = b (int64 i, bool d, float[2] s) => (bool e, float[2] t) { e = Not(d) t = Neg(s) }>
    }"""
    model = onnx.parser.parse_model(text)
    for seed in range(200):
        made, _ = contradict(model, random.Random(seed))
        assert list(made.graph.node[0].input[:2]) == ["n", "c"]


@pytest.mark.parametrize("seed", range(0, len(ATTACKS), 7))
def test_attacks_begin_with_what_is_valid(seed: int) -> None:
    """The first feeds are valid, the others differ from them."""
    case, name = attack_case(seed)
    assert name in case.operators()
    assert len(case.feeds) == 4


def test_mutants_differ_and_seeds_decide() -> None:
    """A change leaves the original as it is, and is the same for the same seed."""
    for seed in range(60):
        model = draw_case(seed, most_nodes=6).model
        before = model.SerializeToString()
        for change in (lambda one, rng: contradict(one, rng)[0], mutate):
            made, again = (change(model, random.Random(seed)) for _ in range(2))
            assert made.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
        assert mutate_bytes(before, random.Random(seed)) == mutate_bytes(before, random.Random(seed))
        assert model.SerializeToString() == before
