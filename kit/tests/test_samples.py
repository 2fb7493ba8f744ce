"""Sample models and random graphs: valid, fed with what they declare, and the same for the same seed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ort_py_kit.graphs import reference_run, typed_model
from ort_py_kit.random_graphs import SeededChoices, narrowest_type, random_feed, random_model
from ort_py_kit.samples import Sample, sample_from_text, sample_models


@pytest.mark.parametrize("sample", sample_models(), ids=lambda sample: str(sample.name))
@pytest.mark.parametrize("size", [1, 5])
def test_samples_run_at_every_size(sample: Sample, size: int) -> None:
    """They are valid, and the reference runs them with what `feeds` gives."""
    typed_model(sample.model)
    for result in reference_run(sample.model, sample.feeds(size)):
        assert np.isfinite(result).all()


def test_feeds_are_fresh_and_seeded() -> None:
    """Equal for a seed, other for another, and never the same array."""
    sample = sample_models()[0]
    (first,), (again,), (other,) = (sample.feeds(4, seed).values() for seed in (1, 1, 2))
    assert first is not again
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_feeds_have_the_declared_types() -> None:
    sample = sample_from_text("mixed", "g (int64[N] i, bool[N] b, float16[2] f) => (int64[N] y) { y = Identity(i) }")
    feeds = sample.feeds(6)
    assert {name: (array.dtype.name, array.shape) for name, array in feeds.items()} == {
        "i": ("int64", (6,)),
        "b": ("bool", (6,)),
        "f": ("float16", (2,)),
    }


def test_a_size_for_some_bytes() -> None:
    """`size_of` finds the size whose feeds take about as many bytes."""
    sample = sample_models()[0]
    fed = sum(array.nbytes for array in sample.feeds(sample.size_of(1 << 20)).values())
    assert 0.9 < fed / (1 << 20) < 1.1


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_are_valid(seed: int) -> None:
    """They are typed without a contradiction, and a seed determines them."""
    model = random_model(SeededChoices(seed))
    typed_model(model)
    assert model == random_model(SeededChoices(seed))
    assert random_feed().shape == (2, 3, 4)


def test_the_narrowest_type_is_that_of_the_casts() -> None:
    """float16 where a graph casts to it, else float32."""
    assert narrowest_type(sample_models()[0].model) == np.float32
    half = sample_from_text("half", "g (float[N] x) => (float[N] y) { h = Cast<to = 10>(x)\n y = Cast<to = 1>(h) }")
    assert narrowest_type(half.model) == np.float16


def test_the_kit_is_imported_without_pytest() -> None:
    """Everything but the suites works where pytest is not installed; a suite names what is missing."""
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "import ort_py_kit as kit\n"
        "assert kit.run_kernel and kit.assert_close and kit.sample_from_text\n"
        "try: kit.ProviderSuite\n"
        "except ImportError as error: sys.exit('pytest' not in str(error))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_kit_loads_nothing() -> None:
    """pytest loads its entry point in every environment where ort-py is: that may cost nothing."""
    code = (
        "import sys, ort_py_kit.pytest_entry\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'onnx', 'pluggy', 'pytest', 'ort_py.contracts')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    import ort_py_kit as kit

    with pytest.raises(AttributeError, match="has no attribute 'ProviderSuit'"):
        kit.ProviderSuit  # type: ignore[attr-defined]  # noqa: B018 - reading it is what raises
