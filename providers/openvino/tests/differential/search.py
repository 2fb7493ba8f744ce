"""`python -m providers.openvino.tests.differential.search [--cases N] [--seed N] [--family NAME]`: differences.

Runs random models of one node in OpenVINO and in the NumPy provider alone and prints each difference beyond the
tolerance of its type. A result must agree in not-a-number, infinities and shape too; where the NumPy provider refuses
the model or its feeds, OpenVINO's session must refuse them as well.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ort_py
from ort_py.errors import OrtPyError
from ort_py_kit.tolerances import assert_close
from providers.openvino.tests.differential import elementwise, moves, quantised_graphs, reductions, windows
from providers.openvino.tests.differential.case import Case
from providers.openvino.tests.models import NAME

__all__ = ["FAMILIES", "cases", "difference", "main"]

FAMILIES: dict[str, Callable[[np.random.Generator], Case]] = {
    **elementwise.FAMILIES,
    **reductions.FAMILIES,
    **windows.FAMILIES,
    **moves.FAMILIES,
    **quantised_graphs.FAMILIES,
}


def cases(family: str, count: int, seed: int) -> Iterator[Case]:
    """Seeded cases of a family."""
    for number in range(count):
        yield FAMILIES[family](np.random.default_rng([seed, sorted(FAMILIES).index(family), number]))


def difference(case: Case) -> tuple[str, bool]:
    """In what OpenVINO's session differs from the NumPy provider's, ``""`` for nothing; and whether OpenVINO ran it."""
    model, feeds = case.model().SerializeToString(), case.feeds()
    wanted = _run(model, feeds, None)
    found = _run(model, feeds, NAME)
    if isinstance(wanted, OrtPyError):
        if isinstance(found, OrtPyError):
            return "", False
        return f"NumPy refuses ({wanted.what}), OpenVINO computes {found[0]}", found[1]
    if isinstance(found, OrtPyError):
        return f"OpenVINO refuses: {found}", True
    arrays, ran = found
    for place, (actual, expected) in enumerate(zip(arrays, wanted[0], strict=True)):
        try:
            assert_close(actual, expected, context=f"output {place}")
        except AssertionError as error:
            return str(error), ran
    return "", ran


def _run(model: bytes, feeds: dict[str, Any], provider: str | None) -> tuple[list[Any], bool] | OrtPyError:
    options = ort_py.SessionOptions()
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.pin_cpu = True
    completing = "CPUExecutionProvider"
    providers: list[Any] = [completing] if provider is None else [(provider, {"claim_small": True}), completing]
    try:
        with ort_py.InferenceSession(model, options, providers=providers) as session:
            ran = any(node.provider == NAME for node in session.placement.nodes)
            results = [np.array(value) for value in session.run(None, feeds)]
            return results, ran and not session.fallback_report
    except OrtPyError as error:
        return error


def main(arguments: list[str]) -> int:
    """Search and print; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="search")
    parser.add_argument("--cases", type=int, default=200, help="models of each family (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (0)")
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES), help="only these")
    chosen = parser.parse_args(arguments)
    ran: Counter[str] = Counter()
    wrong = 0
    for family in chosen.family or FAMILIES:
        for number, case in enumerate(cases(family, chosen.cases, chosen.seed)):
            text, taken = difference(case)
            ran[f"{family}: {'OpenVINO' if taken else 'others'}"] += 1
            if text:
                wrong += 1
                told = [None if array is None else f"{array.dtype}{list(array.shape)}" for array in case.inputs]
                sys.stdout.write(
                    f"-- {family} {number}: {case.op_type}-{case.opset} {case.attributes} {told} "
                    f"constants {sorted(case.constants)} static {case.static}\n{text}\n"
                )
    sys.stdout.write(f"{wrong} differences; {dict(sorted(ran.items()))}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
