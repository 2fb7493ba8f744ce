"""Counting while a model loads."""

from __future__ import annotations

import pytest

from ort_py.errors import LimitError
from ort_py.limits import Budget, Limits

pytestmark = pytest.mark.quick


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nodes_are_counted_up_to_the_limit() -> None:
    """The node after the last allowed one raises."""
    budget = Budget(Limits(nodes_after_inlining=2))
    budget.add_node()
    budget.add_node()
    with pytest.raises(LimitError, match=r"makes 3 nodes, including calls; 2 are allowed"):
        budget.add_node()


def test_a_total_is_refused_before_anything_is_made() -> None:
    """Numbers of any size are compared, and shown as a power of two."""
    budget = Budget(Limits())
    budget.write_nodes(44)
    with pytest.raises(LimitError, match=r"about 2\^90 nodes(.|\n)*44 nodes are in the file"):
        budget.check_nodes(1 << 90)


def test_written_nodes_raise_the_cap() -> None:
    """A large file may make more of its nodes than a small one."""
    budget = Budget(Limits(inlining_factor=10))
    budget.write_nodes(50_000)
    budget.check_nodes(500_000)


def test_depth_is_bounded() -> None:
    """A graph one level too deep raises and says what the limit is called."""
    budget = Budget(Limits(nesting_depth=3))
    budget.check_depth(3)
    with pytest.raises(LimitError, match=r"nested 4 deep; 3 levels(.|\n)*Limits.nesting_depth"):
        budget.check_depth(4)


def test_constants_are_bounded_by_the_size_of_the_file() -> None:
    """Constants add up; what counts is what the file has earned."""
    budget = Budget(Limits(initializer_bytes=1000), file_bytes=10)
    budget.add_initializer(1000)
    with pytest.raises(LimitError, match=r"take more than 1000 bytes(.|\n)*its files have 10 bytes"):
        budget.add_initializer(1)


def test_time_is_looked_at_while_nodes_are_made() -> None:
    """Nodes that take too long end in an error, even without a check inside."""
    clock = Clock()
    budget = Budget(Limits(load_seconds=5), clock=clock)
    budget.add_node()
    clock.now = 6.0
    with pytest.raises(LimitError, match="takes longer than 5 s"):
        add_many(budget)


def add_many(budget: Budget) -> None:
    """Add as many nodes as pass between two checks of the clock."""
    for _ in range(1000):
        budget.add_node()


def test_no_deadline_without_a_limit() -> None:
    """None means as long as it takes."""
    clock = Clock()
    budget = Budget(Limits(load_seconds=None), clock=clock)
    clock.now = 1e9
    budget.check_time()


def test_the_clock_stands_still_in_a_pause() -> None:
    """What was left before goes on counting in blocks that resume, and nothing counts when the load has ended."""
    clock = Clock()
    budget = Budget(Limits(load_seconds=5), clock=clock)
    clock.now = 3.0
    budget.pause()
    clock.now = 100.0
    budget.check_time()
    with budget.resumed():
        clock.now = 101.0
    clock.now = 200.0
    budget.check_time()
    with budget.resumed():
        assert budget.seconds_left() == pytest.approx(1.0)
    with pytest.raises(LimitError, match="takes longer than 5 s"), budget.resumed():
        clock.now = 202.0
    budget.end()
    with budget.resumed():
        clock.now = 1e9
    budget.check_time()
