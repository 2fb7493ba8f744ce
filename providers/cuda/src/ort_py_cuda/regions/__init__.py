"""Element-wise regions, with reductions over the last axes, compiled to one kernel each.

Reading order: `program` (what a region computes, free of names and shapes), `operators` (what each operator adds to
one), `reading` (a region's nodes to a program), `layout` (shapes and strides to what a kernel's loops need),
`generate` (a program to CUDA C++), `region` (launching: a `CompiledRegion`), `groups` (which nodes to claim).

float16 and bfloat16 are computed in float32 from where they are read to where they are written or cast: what lies
between nodes of a region is not rounded. Otherwise each node has the result that it would have by itself.
"""

from __future__ import annotations

from ort_py.contracts.compiled import CompiledRegion
from ort_py.contracts.graph_view import RegionView
from ort_py_cuda.modules import cupy
from ort_py_cuda.regions.groups import group_refusal, groups, refusal
from ort_py_cuda.regions.region import RegionContext, compile_region

__all__ = ["RegionContext", "compile", "compile_region", "group_refusal", "groups", "refusal"]


def compile(region: RegionView) -> CompiledRegion:  # noqa: A001 - the word of the contract
    """A region that `groups` claimed; memory is that of the stream it runs on."""
    xp = cupy()
    return compile_region(region, RegionContext(xp, xp.empty))
