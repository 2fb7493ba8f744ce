"""Tries models with extreme numbers, in processes that may die: ``python scripts/attack_numbers.py --count 20000``.

Prints what did not end well: a model that ended its process, did not end in time, or raised an error that is not
ort-py's. A short part of it is a test: `tests/end_to_end/test_extreme_numbers.py`.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # `tests.support` is not a package that is installed

from tests.support.child_trials import failures, run_trials
from tests.support.extreme_numbers import draw, mutated
from tests.support.number_attack import SECONDS, attempt, attempt_trusted


def main() -> int:
    """Try many mutants and print what did not end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trusted", action="store_true", help="with the default limits")
    parser.add_argument("--prefix", default="", help="what names of cases begin with")
    parser.add_argument("--seconds", type=float, default=3 * SECONDS, help="what one trial may take")
    chosen = parser.parse_args()
    mutants = draw(random.Random(chosen.seed), chosen.count, prefix=chosen.prefix)
    outcomes = run_trials(
        attempt_trusted if chosen.trusted else attempt, [mutated(one) for one in mutants], seconds=chosen.seconds
    )
    for one in failures(outcomes):
        print(one.kind, one.text[:300].replace("\n", " "), mutants[one.trial], sep=" | ", flush=True)
    print(f"{len(outcomes)} trials, {len(failures(outcomes))} did not end well")
    return 1 if failures(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
