"""The numbers a model is held to."""

from __future__ import annotations

import pytest

from ort_py.errors import OptionError
from ort_py.limits import Limits

pytestmark = pytest.mark.quick


def test_small_files_may_always_make_some_nodes() -> None:
    """A file of ten nodes may grow to 100,000 by inlining, and no further."""
    assert Limits().node_cap(10) == 100_000


def test_node_cap_follows_the_file() -> None:
    """A file with many nodes may grow by the inlining factor."""
    assert Limits(inlining_factor=8).node_cap(20_000) == 160_000


def test_node_cap_is_never_above_the_absolute_limit() -> None:
    """The smaller of the two bounds counts."""
    assert Limits(nodes_after_inlining=500).node_cap(1_000_000) == 500


def test_initializer_cap_follows_the_file() -> None:
    """A gigabyte of file may hold 64 GiB of constants; a small one a quarter of a gigabyte."""
    assert Limits().initializer_cap(1 << 30) == 64 << 30
    assert Limits().initializer_cap(10) == 256 << 20


def test_unlimited_has_no_caps() -> None:
    """None everywhere means that nothing is bounded."""
    assert Limits.unlimited().node_cap(1) is None
    assert Limits.unlimited().initializer_cap(1) is None


def test_untrusted_is_nowhere_looser_than_the_default() -> None:
    """The strict preset bounds everything, at least as tightly as the default; its switches are the careful ones."""
    strict, default = Limits.untrusted(), Limits()
    for name in Limits.__dataclass_fields__:
        bound, usual = getattr(strict, name), getattr(default, name)
        assert bound is not None
        assert isinstance(bound, bool) or usual is None or bound <= usual
    assert strict.isolated_inference
    assert not strict.unchecked_regions


@pytest.mark.parametrize("value", [0, -1, float("nan"), "5", True])
def test_nonsense_is_refused_by_name(value: object) -> None:
    """A limit that is not a positive number is an error that names the field."""
    with pytest.raises(OptionError, match=r"Limits.load_seconds is .*\n.*positive number.*\n.*load_seconds=300"):
        Limits(load_seconds=value)  # type: ignore[arg-type]  # the point of the test
