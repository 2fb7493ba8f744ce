"""``python -m ort_py.cli``: the command line where the ``ort-py`` script is not on the path."""

from __future__ import annotations

import sys

from ort_py.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
