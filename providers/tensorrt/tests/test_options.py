"""Options: onnxruntime's names for both libraries, and the values that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ort_py.contracts import SessionContext
from ort_py.errors import OptionError
from ort_py_tensorrt.options import OPTIONS, WITHOUT_MEANING, options_of
from ort_py_tensorrt.variants import RTX, TENSORRT, VARIANTS, Variant
from ort_py_tensorrt.wishes import Wishes, wishes_of


def wishes(variant: Variant = TENSORRT, context: SessionContext | None = None, **given: Any) -> Wishes:
    """Read options, the defaults of the others included."""
    options = {spec.name: spec.default for spec in options_of(variant)}
    assert given.keys() <= options.keys()
    return wishes_of(variant, options | given, context or SessionContext())


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.module)
def test_names_have_the_prefix_of_their_library(variant: Variant) -> None:
    (other,) = {one.prefix for one in VARIANTS} - {variant.prefix}
    assert not [spec.name for spec in options_of(variant) if spec.name.startswith(f"{other}_")]


def test_no_option_is_declared_and_without_meaning() -> None:
    assert not {spec.name for spec in OPTIONS} & WITHOUT_MEANING.keys()


def test_the_defaults_keep_float32_exact() -> None:
    """Products are not computed in TF32, NaN comes out, and nothing is narrowed, whatever the library prefers."""
    found = wishes().build
    assert (found.precision, found.tf32, found.strict_nans) == ("float32", False, True)


@pytest.mark.parametrize(
    ("given", "session", "wanted"),
    [
        ({}, "float16", "float16"),
        ({}, "bfloat16", "bfloat16"),
        ({"trt_fp16_enable": True}, "float32", "float16"),
        ({"trt_bf16_enable": True}, "float16", "bfloat16"),
    ],
)
def test_precision_is_the_options_or_the_sessions(given: dict[str, Any], session: str, wanted: str) -> None:
    assert wishes(context=SessionContext(precision=session), **given).build.precision == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"trt_fp16_enable": True, "trt_bf16_enable": True}, "are both set"),
        ({"build_seconds": -1.0}, "build_seconds is -1"),
        ({"build_seconds": float("nan")}, "build_seconds is nan"),
        ({"build_seconds": float("inf")}, "build_seconds is inf"),
        ({"max_rebuilds": -1}, "max_rebuilds is -1"),
        ({"trt_max_workspace_size": -1}, "trt_max_workspace_size is -1"),
        ({"trt_max_workspace_size": 2**63}, "trt_max_workspace_size is 9223372036854775808"),
        ({"trt_auxiliary_streams": -5}, "trt_auxiliary_streams is -5"),
        ({"build_in_background": True, "trt_engine_cache_enable": False}, "engines are not kept"),
        ({"trt_profile_min_shapes": "x:1"}, "name different inputs"),
        ({"trt_profile_min_shapes": "x=1"}, "contains 'x=1'"),
        ({"trt_profile_min_shapes": "x:1xq"}, "contains 'x:1xq'"),
        ({"device_id": -1}, "device_id is -1"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        wishes(**given)


def test_a_device_to_build_for_is_one_that_exists() -> None:
    assert wishes(RTX, compute_capabilities="sm86, SM120").build.capabilities == ("SM86", "SM120")
    with pytest.raises(OptionError, match=r"compute_capabilities names SM90\."):
        wishes(RTX, compute_capabilities="SM90")


def test_shapes_are_read_as_onnxruntime_writes_them() -> None:
    shapes: dict[str, Any] = {
        f"nv_profile_{kind}_shapes": f"a:b:{size}x3,y:1x{size}" for kind, size in (("min", 1), ("opt", 2), ("max", 4))
    }
    found = wishes(RTX, **shapes)
    assert found.least == {"a:b": (1, 3), "y": (1, 1)}
    assert found.best == {"a:b": (2, 3), "y": (1, 2)}
    assert found.largest == {"a:b": (4, 3), "y": (1, 4)}


def test_shapes_out_of_order_are_refused() -> None:
    sizes = {"min": 4, "opt": 2, "max": 8}
    shapes: dict[str, Any] = {f"trt_profile_{kind}_shapes": f"x:{size}" for kind, size in sizes.items()}
    with pytest.raises(OptionError, match="profile of input 'x'"):
        wishes(**shapes)
