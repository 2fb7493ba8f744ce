"""Cases of operators of ``ai.onnx`` that the backend suite lacks, or has in forms that older versions cannot express.

Each is written for a recent version; `rewriting` makes those of older ones. Expected outputs are closed forms, except
where the operator is random: then only element type and shape are compared, by names that begin with ``test_random``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ort_py_kit.backend_cases import SuiteCase
from ort_py_kit.versions.history import OperatorVersion
from ort_py_kit.versions.making import made_case


def drawn_cases() -> Iterator[SuiteCase]:
    """All of them; fresh arrays in each call."""
    generator = np.random.default_rng(20)
    yield from _pooling(generator)
    yield from _sequences(generator)
    yield from _older_forms(generator)
    yield from _random()


def _default(op_type: str, version: int) -> OperatorVersion:
    return OperatorVersion("", op_type, version)


def _numbers(generator: np.random.Generator, *shape: int) -> Any:
    return generator.standard_normal(shape).astype(np.float32)


def _pooling(generator: np.random.Generator) -> Iterator[SuiteCase]:
    x = _numbers(generator, 2, 3, 4, 5)
    for p in (1, 2, 3):
        norm = (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        yield made_case(f"test_globallppool_p{p}", _default("GlobalLpPool", 22), [x], [norm.astype(np.float32)], p=p)
    image = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    rois = np.array([[0, 0, 0, 3, 3], [0, 2, 2, 5, 5]], np.float32)
    parts = [image[:, :, 0:4, 0:4], image[:, :, 2:6, 2:6]]
    largest = np.concatenate([part.reshape(1, 1, 2, 2, 2, 2).max((3, 5)) for part in parts])
    yield made_case(
        "test_maxroipool", _default("MaxRoiPool", 22), [image, rois], [largest], pooled_shape=[2, 2], spatial_scale=1.0
    )


def _sequences(generator: np.random.Generator) -> Iterator[SuiteCase]:
    a, b, c = (_numbers(generator, 2, 3) for _ in range(3))
    position = np.asarray(1, np.int64)
    yield made_case("test_sequence_at", _default("SequenceAt", 11), [[a, b, c], position], [b])
    yield made_case("test_sequence_at_last", _default("SequenceAt", 11), [[a, b, c], np.asarray(-1)], [c])
    yield made_case("test_sequence_construct", _default("SequenceConstruct", 11), [a, b], [[a, b]])
    yield made_case("test_sequence_erase", _default("SequenceErase", 11), [[a, b, c], position], [[a, c]])
    yield made_case("test_sequence_erase_last", _default("SequenceErase", 11), [[a, b, c]], [[a, b]])
    yield made_case("test_sequence_length", _default("SequenceLength", 11), [[a, b, c]], [np.asarray(3, np.int64)])
    empty = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    yield made_case("test_sequence_empty", _default("SequenceEmpty", 11), [], [[]], empty)
    joined, stacked = np.concatenate([a, b], 1), np.stack([a, b], 0)
    operator = _default("ConcatFromSequence", 11)
    yield made_case("test_concat_from_sequence", operator, [[a, b]], [joined], axis=1)
    yield made_case("test_concat_from_sequence_new_axis", operator, [[a, b]], [stacked], axis=0, new_axis=1)


def _older_forms(generator: np.random.Generator) -> Iterator[SuiteCase]:
    x = _numbers(generator, 2, 3, 4, 5)
    for title, slope in (("shared", np.full((1,), 0.25)), ("by_channel", np.array([0.1, -0.5, 2.0]).reshape(3, 1, 1))):
        leaking = slope.astype(np.float32)
        results = [np.where(x < 0, x * leaking, x)]
        yield made_case(f"test_prelu_{title}", _default("PRelu", 16), [x, leaking], results)
    for axis, repeats in ((0, (3, 1, 1, 1)), (2, (1, 1, 2, 1))):
        yield made_case(
            f"test_tile_axis_{axis}", _default("Tile", 13), [x, np.array(repeats, np.int64)], [np.tile(x, repeats)]
        )
    scale, bias = (np.repeat(_numbers(generator, 2), 2) for _ in range(2))
    images = _numbers(generator, 2, 4, 3, 3)
    groups = images.reshape(2, 2, -1).astype(np.float64)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    result = normal.reshape(images.shape) * scale[:, None, None] + bias[:, None, None]
    yield made_case(
        "test_group_normalization_equal_in_groups",
        _default("GroupNormalization", 21),
        [images, scale, bias],
        [result.astype(np.float32)],
        num_groups=2,
    )
    small = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    scales = np.array([1, 1, 2, 2], np.float32)
    asymmetric = {"coordinate_transformation_mode": "asymmetric"}
    resize = _default("Resize", 13)
    doubled = [small.repeat(2, 2).repeat(2, 3)]
    yield made_case(
        "test_resize_nearest_asymmetric",
        resize,
        [small, None, scales],
        doubled,
        mode="nearest",
        nearest_mode="floor",
        **asymmetric,
    )
    between = np.array([[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]], np.float32).reshape(1, 1, 4, 4)
    yield made_case(
        "test_resize_linear_asymmetric", resize, [small, None, scales], [between], mode="linear", **asymmetric
    )
    yield made_case(
        "test_constant_pad_2d",
        _default("Pad", 13),
        [x, np.array([0, 0, 1, 2, 0, 0, 0, 3], np.int64), np.asarray(1.5, np.float32)],
        [np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 3)), constant_values=1.5)],
    )
    for mode in ("reflect", "edge"):
        yield made_case(
            f"test_{mode}_pad_2d",
            _default("Pad", 13),
            [x, np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64)],
            [np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 1)), mode=mode)],
            mode=mode,
        )
    rows = np.argsort(-x, 2)[:, :, :2].astype(np.int64)
    yield made_case(
        "test_top_k_of_rows",
        _default("TopK", 11),
        [x, np.array([2], np.int64)],
        [np.take_along_axis(x, rows, 2), rows],
        axis=2,
    )
    whole = helper.make_tensor_type_proto(TensorProto.FLOAT, x.shape)
    optional = helper.make_optional_type_proto(whole)
    yield made_case("test_optional_of_tensor", _default("Optional", 15), [x], [x], optional)
    yield made_case("test_optional_of_nothing", _default("Optional", 15), [], [None], optional, type=whole)


def _random() -> Iterator[SuiteCase]:
    shape = [3, 4]
    like = np.zeros(shape, np.float32)
    for kind in ("Normal", "Uniform"):
        title = f"test_random_{kind.lower()}"
        yield made_case(title, _default(f"Random{kind}", 22), [], [like], shape=shape)
        doubles = like.astype(np.float64)
        yield made_case(f"{title}_double", _default(f"Random{kind}", 22), [], [doubles], shape=shape, dtype=11)
        yield made_case(f"{title}_like", _default(f"Random{kind}Like", 22), [like], [like])
    drawn = np.zeros((2, 5), np.int32)
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
    yield made_case("test_random_multinomial", _default("Multinomial", 22), [logits], [drawn], sample_size=5)
