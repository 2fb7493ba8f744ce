"""Provider options are converted, or refused by name."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import OptionSpec
from ort_py.discovery import CheckedOptions, check_options
from ort_py.errors import OptionError

SCHEMA = (
    OptionSpec("device_id", int, 0, "Number of the device."),
    OptionSpec("fast_math", bool, False),
    OptionSpec("memory_fraction", float, 0.5),
    OptionSpec("cache_folder", str, None),
    OptionSpec("mode", str, "auto", choices=("auto", "latency", "throughput")),
)


def _check(**given: Any) -> CheckedOptions:
    return check_options("FakeExecutionProvider", SCHEMA, given)


def test_every_option_is_present() -> None:
    """Defaults fill what the user leaves out."""
    assert _check().values == {
        "device_id": 0,
        "fast_math": False,
        "memory_fraction": 0.5,
        "cache_folder": None,
        "mode": "auto",
    }


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("device_id", "3", 3),
        ("device_id", " -1 ", -1),
        ("device_id", np.int64(2), 2),
        ("fast_math", "1", True),
        ("fast_math", "False", False),
        ("fast_math", 1, True),
        ("fast_math", np.True_, True),
        ("memory_fraction", "0.25", 0.25),
        ("memory_fraction", 1, 1.0),
        ("cache_folder", Path("cache"), "cache"),
        ("cache_folder", 7, "7"),
        ("cache_folder", True, "1"),
        ("cache_folder", None, None),
        ("mode", "latency", "latency"),
    ],
)
def test_conversions(name: str, given: Any, value: Any) -> None:
    """Strings and NumPy scalars become the declared kind."""
    converted = _check(**{name: given}).values[name]
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("device_id", "one", "must be a whole number, not str"),
        ("device_id", 1.5, "must be a whole number, not float"),
        ("device_id", True, "must be a whole number, not bool"),
        ("fast_math", "perhaps", "must be a truth value"),
        ("fast_math", 2, "must be a truth value"),
        ("memory_fraction", "half", "must be a number, not str"),
        ("memory_fraction", float("nan"), "must be a number"),
        ("memory_fraction", True, "must be a number, not bool"),
        ("cache_folder", b"x", "must be text, not bytes"),
        ("device_id", None, "must be a whole number, not NoneType"),
    ],
)
def test_wrong_kinds(name: str, given: Any, text: str) -> None:
    """The message names the option, the value and the kind it must have."""
    with pytest.raises(OptionError, match=f"option '{name}' of FakeExecutionProvider is ") as caught:
        _check(**{name: given})
    assert text in str(caught.value)
    assert repr(given) in str(caught.value)


def test_choices() -> None:
    """A value outside the choices is refused with all of them and the closest."""
    with pytest.raises(OptionError, match="must be one of 'auto', 'latency', 'throughput'") as caught:
        _check(mode="latncy")
    assert caught.value.fix == "Did you mean 'latency'?"


def test_misspelt() -> None:
    """A name close to a declared one is a mistake; it is also a ValueError, as onnxruntime's callers expect."""
    with pytest.raises(OptionError, match="has no option 'device_ids'") as caught:
        _check(device_ids=1)
    assert caught.value.fix == "Did you mean 'device_id'?"
    assert "FakeExecutionProvider has cache_folder, device_id," in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_misspelt_name_of_onnxruntime() -> None:
    """A name close to an option that only onnxruntime has is a mistake too."""
    with pytest.raises(OptionError, match="'trt_fp16_enable'"):
        _check(trt_fp16_enabel=True)


def test_known_to_onnxruntime_is_ignored_and_reported() -> None:
    """Applications pass the same options whatever provider they get."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = _check(cudnn_conv_algo_search="EXHAUSTIVE")
    assert checked.ignored == {
        "cudnn_conv_algo_search": "onnxruntime has this option, but FakeExecutionProvider does not"
    }
    assert "cudnn_conv_algo_search" not in checked.values


def test_unknown_warns_once() -> None:
    """Like nothing anybody knows: a warning, and it is reported."""
    with pytest.warns(UserWarning, match="has no option 'zzz_quux'; it is ignored") as caught:
        checked = _check(zzz_quux=1)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert checked.ignored == {"zzz_quux": "FakeExecutionProvider has no such option"}


def test_lenient_mode_only_warns() -> None:
    """In compatibility mode a misspelling is a warning, as any unknown option."""
    with pytest.warns(UserWarning, match="'device_ids'; it is ignored"):
        check_options("FakeExecutionProvider", SCHEMA, {"device_ids": 1}, lenient=True)


def test_provider_without_options() -> None:
    """The message does not list what is not there."""
    with pytest.warns(UserWarning, match="FakeExecutionProvider has no options"):
        check_options("FakeExecutionProvider", (), {"zzz_quux": 1})


def test_names_are_strings() -> None:
    with pytest.raises(OptionError, match=r"An option name of .* is 3"):
        check_options("FakeExecutionProvider", SCHEMA, {3: 1})  # type: ignore[dict-item]  # the mistake under test
