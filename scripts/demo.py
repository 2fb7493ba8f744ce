"""Set everything up and read the text in a picture: `python3 scripts/demo.py [PICTURE] [options]`.

The work is done by `examples/ocr`; see `python3 scripts/demo.py --help` for its options.
"""

from __future__ import annotations

import sys

from environment import ensure_environment, run_in


def main(arguments: list[str]) -> int:
    """Run the OCR example in the project's environment; returns its exit code."""
    python = ensure_environment("demo.txt")
    return run_in(python, ["-m", "examples.ocr", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
