"""Shapes that change from run to run, arrays without elements, and feeds that do not lie in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, agree, fail, problems_of

_SIZES = (4, 1, 7, 7, 2, 33, 4)


class ShapeChecks(ProviderChecks):
    """One session serves every size."""

    def test_sizes_may_change(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Runs of changing sizes give what the CPU provider gives, whatever size came before."""
        self._compare(
            usable,
            claimed,
            [(size, False) for size in _SIZES],
            "does not follow shapes that change",
            "read shapes from the arrays of the run; keep what was prepared for other shapes apart.",
        )

    def test_arrays_may_be_empty(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """A size of 0 gives empty outputs of the right shape and type, and the next run is as usual."""
        self._compare(
            usable,
            claimed,
            [(0, False), (3, False), (0, False)],
            "does not run with arrays without elements",
            "return empty arrays of the right shape without calling a library that does not take them.",
        )

    def test_feeds_may_be_strided(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Feeds that are slices and transposed arrays give what contiguous ones give."""
        self._compare(
            usable,
            claimed,
            [(5, True), (5, False)],
            "reads arrays that are not contiguous incorrectly",
            "declare `strided` only for kernels that heed strides; the core copies for the others.",
        )

    def _compare(
        self, subject: Subject, claimed: Sequence[Sample], runs: Sequence[tuple[int, bool]], what: str, fix: str
    ) -> None:
        def check(sample: Sample) -> None:
            with subject.session(sample.model) as session, subject.reference(sample.model) as reference:
                names = [info.name for info in session.get_outputs()]
                for number, (size, strided) in enumerate(runs):
                    feeds = sample.feeds(size, number)
                    expected = reference.run(None, feeds)
                    given = {name: _strided(array) for name, array in feeds.items()} if strided else feeds
                    try:
                        actual = session.run(None, given)
                    except Exception as error:
                        raise Problem(f"size {size} in run {number + 1}: {type(error).__name__}: {error}") from error
                    for name, left, right in zip(names, actual, expected, strict=True):
                        agree(left, right, f"{name}, size {size} in run {number + 1}")

        problems = problems_of(claimed, check)
        if problems:
            fail(f"{subject.name} {what}.", problems, fix=fix)


def _strided(array: Any) -> Any:
    """The same numbers, every second element of a larger, transposed array."""
    wide = np.zeros(tuple([2 * size for size in array.shape[::-1]]), array.dtype)
    view = wide[tuple([slice(None, None, 2)] * array.ndim)].transpose()
    view[...] = array
    return view
