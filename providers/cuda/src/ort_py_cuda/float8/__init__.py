"""Products of float8, from QuantizeLinear to the product, as one region: bytes never leave it.

CuPy has no float8 arrays, so no node can be given one. But a model writes such a product as QuantizeLinear and
DequantizeLinear around MatMul or Gemm, with numbers of wider types where it begins and ends; taken together, only this
room sees the bytes. Reading order: `patterns` (what belongs together, and why not), `bytes` (making bytes and products
of them), `region` (what runs). cuBLASLt multiplies float8 from compute capability 8.9 on; below it the
nodes run as each does by itself.
"""

from __future__ import annotations

from ort_py_cuda.float8.patterns import Found, find, group_refusal, owns
from ort_py_cuda.float8.region import compile_region

__all__ = ["Found", "compile_region", "find", "group_refusal", "owns"]
