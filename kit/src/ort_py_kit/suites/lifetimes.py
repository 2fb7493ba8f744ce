"""Checks of memory: outputs are fresh, contiguous and unshared, and feeds are neither written to nor kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py_kit.graphs import graph_view
from ort_py_kit.kernel_runner import LocalKernelContext, check_ownership
from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, agree, fail, garbage, problems_of
from ort_py_kit.suites.capability import made

_BOUND_BYTES = 1 << 20
"""Bytes fed to runs with bound outputs: small ones are copied there by the core."""

_GUARD, _GUARD_BYTE = 64, 0xA5


class LifetimeChecks(ProviderChecks):
    """Feeds, outputs, runs and sessions share no memory."""

    def test_inputs_are_not_written_to(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Feeds are after a run what they were before, and so are weights in the next run."""

        def check(sample: Sample) -> None:
            feeds, untouched = sample.feeds(5), sample.feeds(5)
            with usable.session(sample.model) as session:
                first = session.run(None, feeds)
                for name, array in feeds.items():
                    if not np.array_equal(array, untouched[name], equal_nan=array.dtype.kind == "f"):
                        raise Problem(f"'{name}' was fed, and is changed")
                for name, left, right in zip(_outputs(session), session.run(None, untouched), first, strict=True):
                    try:
                        agree(left, right, name)
                    except Problem as problem:
                        raise Problem(f"a second run with the same numbers gives others: {problem}") from None

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"{usable.name} writes to what it is given.",
                problems,
                fix="write to a new array; a kernel that may overwrite an input declares it in KernelDef.inplace.",
            )

    def test_outputs_outlive_the_next_run(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Results of a run do not change in later runs."""

        def check(sample: Sample) -> None:
            with usable.session(sample.model) as session:
                for size in (5, 5, 2):
                    kept = session.run(None, sample.feeds(size, seed=1))
                    copies = [np.array(array) for array in kept]
                    session.run(None, sample.feeds(size, seed=2))
                    _unchanged(session, kept, copies, "the next run")

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"The next run of {usable.name} overwrites the outputs of the last one.",
                problems,
                fix="return arrays that belong to the caller: a new one each run, or a copy of the buffer that is used "
                "again (`RegionInstance.__call__` says what an output must be).",
            )

    def test_outputs_outlive_feeds_and_session(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Outputs are not views of feeds, and stay when the session is closed and its memory used for other things."""

        def check(sample: Sample) -> None:
            feeds = sample.feeds(64)
            with usable.session(sample.model) as session:
                kept = session.run(None, feeds)
                copies = [np.array(array) for array in kept]
                garbage(feeds)
                _unchanged(session, kept, copies, "overwriting the feeds")
                names = _outputs(session)
            del session, feeds
            waste = [np.full(array.shape, 77).astype(array.dtype) for array in copies for _ in range(8)]
            for name, left, right in zip(names, kept, copies, strict=True):
                if not _same(left, right):
                    raise Problem(f"'{name}' changed when the session was closed and its memory was used again")
            del waste

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"Outputs of {usable.name} are views of memory that is not theirs.",
                problems,
                fix="copy, or declare the view in KernelDef.views; an array around native memory must hold its owner "
                "as its base, so that the memory lives as long as the array.",
            )

    def test_outputs_do_not_overlap(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Each output is C-contiguous, and no two share memory, nor one with a feed."""

        def check(sample: Sample) -> None:
            feeds = sample.feeds(5)
            with usable.session(sample.model) as session:
                results = dict(zip(_outputs(session), session.run(None, feeds), strict=True))
            for name, array in results.items():
                if not array.flags.c_contiguous:
                    raise Problem(f"'{name}' is not C-contiguous: its strides are {array.strides}")
            for (left, one), (right, other) in combinations([*results.items(), *feeds.items()], 2):
                if left in results and np.may_share_memory(one, other):
                    raise Problem(f"'{left}' and '{right}' share memory")

        problems = problems_of(claimed, check)
        if problems:
            fail(f"Outputs of {usable.name} are not arrays of their own.", problems, fix="copy what is shared.")

    def test_memory_of_the_caller_is_filled(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Outputs that are bound to the caller's memory are there after each run, and nothing is written beside it."""

        def check(sample: Sample) -> None:
            size = sample.size_of(_BOUND_BYTES)
            with usable.session(sample.model) as session:
                binding = session.io_binding()
                guarded: dict[str, tuple[Any, Any]] = {}
                for seed in range(3):  # where a step can write there, it does from the second run on
                    feeds = sample.feeds(size, seed)
                    expected = dict(zip(_outputs(session), session.run(None, feeds), strict=True))
                    for name, array in feeds.items():
                        binding.bind_cpu_input(name, array)
                    for name, array in expected.items():
                        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                            binding.bind_output(name)
                        elif name not in guarded:
                            guarded[name] = block, inner = _guarded(array)
                            place = inner.ctypes.data
                            binding.bind_output(name, "cpu", 0, inner.dtype, inner.shape, place)
                    session.run_with_iobinding(binding)
                    for name, (block, inner) in guarded.items():
                        agree(inner, expected[name], f"{name} of run {seed + 1}")
                        if (block[:_GUARD] != _GUARD_BYTE).any() or (block[-_GUARD:] != _GUARD_BYTE).any():
                            raise Problem(f"memory beside '{name}' was written to in run {seed + 1}")

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"{usable.name} does not fill memory that outputs are bound to.",
                problems,
                fix="where `RegionInstance.bind`, or a kernel that declares `out`, is given an array for an output, "
                "write the whole result there, and nothing else, or leave it alone and return another.",
            )

    def test_kernels_own_their_outputs(self, usable: Subject) -> None:
        """A kernel's result is not a view of its input unless declared: the core reuses the memory of inputs after
        their last reader.
        """

        def check(sample: Sample) -> None:
            for size in (1, 3):
                _own_outputs(usable, provider, sample, size)

        with made(usable) as provider:
            if provider.device != HOST:
                pytest.skip(f"{usable.name} computes on {provider.device}, whose memory cannot be looked at")
            problems = problems_of(self.samples(), check)
        if problems:
            fail(
                f"Kernels of {usable.name} return views that they do not declare.",
                problems,
                fix="copy, or declare the pair of output and input in KernelDef.views.",
            )

    def test_feeds_are_let_go(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """After a run nothing holds the feeds, and the next run reads its own."""

        def check(sample: Sample) -> None:
            with usable.session(sample.model) as session, usable.reference(sample.model) as reference:
                for seed in range(3):
                    feeds = sample.feeds(7, seed)
                    watched = {name: weakref.ref(array) for name, array in feeds.items()}
                    actual, expected = session.run(None, feeds), reference.run(None, feeds)
                    for name, left, right in zip(_outputs(session), actual, expected, strict=True):
                        agree(left, right, f"{name} of run {seed + 1}")
                    del feeds
                    if any(one() is not None for one in watched.values()):
                        # Objects that only a cycle holds are released; the search for cycles
                        # takes a while.
                        gc.collect()
                    held = [name for name, one in watched.items() if one() is not None]
                    if held:
                        raise Problem(f"the feed '{held[0]}' is still held after the run")

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"{usable.name} keeps arrays of a run, or views of them: they hold memory, and are read when they are "
                "not those of the run any more.",
                problems,
                fix="forget inputs when the run ends (`RegionInstance.bind` is called before each run with that run's "
                "arrays), and never look arrays up by id or address.",
            )


def _own_outputs(subject: Subject, provider: IExecutionProvider, sample: Sample, size: int) -> None:
    """Call the kernel of a model's only node, where there is one; `check_ownership` judges."""
    view = graph_view(sample.model)
    if len(view.nodes) != 1:
        return
    (node,) = view.nodes
    definition = subject.kernels(provider).find(node).kernel
    if definition is None:
        return
    feeds = sample.feeds(size)
    inputs = [
        None if value is None else feeds[value.name] if value.name in feeds else view.constant(value.name)
        for value in node.inputs
    ]
    result = definition.factory(LocalKernelContext(node, provider.array_module))(*inputs)
    try:
        check_ownership(definition, inputs, [result] if definition.outputs == 1 else list(result))
    except AssertionError as error:
        raise Problem(str(error)) from error


def _guarded(array: Any) -> tuple[Any, Any]:
    """Bytes, and in the midst of them memory for such an array."""
    block = np.full(array.nbytes + 2 * _GUARD, _GUARD_BYTE, np.uint8)
    return block, block[_GUARD:-_GUARD].view(array.dtype).reshape(array.shape)


def _outputs(session: Any) -> list[str]:
    return [info.name for info in session.get_outputs()]


def _same(left: Any, right: Any) -> bool:
    return bool(np.array_equal(left, right, equal_nan=right.dtype.kind == "f"))


def _unchanged(session: Any, kept: Sequence[Any], copies: Sequence[Any], after: str) -> None:
    for name, left, right in zip(_outputs(session), kept, copies, strict=True):
        if not _same(left, right):
            raise Problem(f"'{name}' changed after {after}")
