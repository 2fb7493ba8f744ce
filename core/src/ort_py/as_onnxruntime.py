"""``python -m ort_py.as_onnxruntime app.py``: run a program in which ``import onnxruntime`` gives ort-py."""

from __future__ import annotations

import sys

from ort_py.compat.alias import run_as_onnxruntime

if __name__ == "__main__":
    sys.exit(run_as_onnxruntime(sys.argv[1:]))
