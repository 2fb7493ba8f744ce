"""`python scripts/search_differences.py [--examples N] [--seed N]`: a random model that optimising changes.

Looks for a model whose outputs at ORT_ENABLE_ALL differ from those at ORT_DISABLE_ALL, makes it as small as hypothesis
can, and writes it as text into `tests/property/models/`, where the tests find it from then on. Run it after changes of
the optimiser; it needs the development requirements.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from pathlib import Path

import hypothesis
import onnx.printer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.property.graphs import models
from tests.property.levels import FOUND, difference

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Search, and write what is found; 1 where something is."""
    parser = argparse.ArgumentParser(prog="search_differences")
    parser.add_argument("--examples", type=int, default=1000, help="models to try (1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (0)")
    chosen = parser.parse_args(arguments)
    settings = hypothesis.settings(max_examples=chosen.examples, database=None, deadline=None)
    try:
        found = hypothesis.find(
            models(), lambda model: bool(difference(model)), settings=settings, random=random.Random(chosen.seed)
        )
    except hypothesis.errors.NoSuchExample:
        print(f"no difference in {chosen.examples} models")
        return 0
    text = onnx.printer.to_text(found)
    path = FOUND / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.onnxtxt"
    path.write_text(text, encoding="utf-8")
    print(f"{difference(found)}\n{text}\nwritten to {path}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
