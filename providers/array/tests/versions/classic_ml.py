"""Rows of classic machine learning, ai.onnx.ml: dictionaries, loops and walks through trees, by the specification.

Support vector machines are compared with onnxruntime, whose order of pairs and votes the specification leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import DataType

from ..classic_ml.test_svm import machine
from ..classic_ml.tree_models import MODES, Tree, classifier, ensemble, forest, regressor, walk
from ..runtime_oracle import runtime_outputs
from .row import Draw, Given, Row, as_type, wide

__all__ = ["ROWS"]

_ML = "ai.onnx.ml"
_WORDS = ("", "a", "b", "Ab", "ß", "日本")


def _features(d: Draw, columns: int, special: bool = False) -> Any:
    return d.array((d.integer(0, 4), columns), special=special)


def _floats(d: Draw, count: int, low: float = -2.0, high: float = 2.0) -> list[float]:
    """Attributes hold float32."""
    return [float(one) for one in d.array((count,), np.float32, low=low, high=high, special=False)]


def _objects(values: Any) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _array_feature_extractor(d: Draw) -> Given:
    shape = d.shape(1, 3, least=1)
    x = d.array(shape)
    chosen = d.array((d.integer(1, 4),), np.int64, low=0, high=shape[-1] - 1, special=False)
    rows = x.reshape(-1, shape[-1]) if x.ndim == 1 else x
    return Given([x, chosen], {}, [rows[..., chosen]])


def _binarizer(d: Draw) -> Given:
    x, (threshold,) = d.array(d.shape()), _floats(d, 1)
    return Given([x], {"threshold": threshold}, [(wide(x) > threshold).astype(x.dtype)])


def _cast_map(d: Draw) -> Given:
    """By keys, one after the other, or each at its own place."""
    keys = sorted({d.integer(0, 5) for _ in range(d.integer(1, 4))})
    if d.dtype.kind == "O":
        held: list[Any] = [d.pick(("a", "", "7")) for _ in keys]
        target, made = "TO_STRING", held
    else:
        target = "TO_INT64" if d.dtype.kind == "i" else "TO_FLOAT"
        made = [d.integer(-9, 9) for _ in keys]
        held = [str(one) for one in made] if d.flag() else [np.float32(one) for one in made]
    x = dict(zip(keys, held, strict=True))
    if d.dtype.kind == "O" or d.flag():
        return Given([x], {"cast_to": target}, [np.array([made], d.dtype)])
    y = np.zeros((1, 7), d.dtype)
    y[0, keys] = made
    return Given([x], {"cast_to": target, "map_form": "SPARSE", "max_map": 7}, [y])


def _category_mapper(d: Draw) -> Given:
    strings, numbers = list(_WORDS[1:4]), [3, -2, 0]
    attributes: dict[str, Any] = {"cats_strings": strings, "cats_int64s": numbers}
    fallback: Any = -1 if d.dtype.kind == "O" else "_Unused"
    if d.flag():
        fallback = 99 if d.dtype.kind == "O" else "none"
        attributes |= {"default_int64": 99, "default_string": "none"}
    sides: Any = (strings, numbers) if d.dtype.kind == "O" else (numbers, strings)
    pairs = dict(zip(*sides, strict=True))
    return _looked_up(d, pairs, fallback, object if d.dtype.kind != "O" else np.int64, attributes)


def _looked_up(d: Draw, pairs: dict[Any, Any], fallback: Any, result: Any, attributes: dict[str, Any]) -> Given:
    x = d.array(d.shape())
    made = _objects([pairs.get(one, fallback) for one in x.reshape(-1).tolist()])
    return Given([x], attributes, [made.astype(result).reshape(x.shape)])


def _dict_vectorizer(d: Draw) -> Given:
    by_word = d.dtype.kind != "O" and (d.dtype.kind == "i" or bool(d.flag()))
    words: list[Any] = list(_WORDS) if by_word else [7, -1, 0, 5]
    values = d.array((len(words),), special=False).tolist()
    present = [d.flag() for _ in words]
    present[0] = 1
    y = np.zeros(len(words), d.dtype) if d.dtype.kind != "O" else _objects([""] * len(words))
    x = {}
    for place in np.argsort([d.integer(0, 9) for _ in words]):
        if present[place]:
            x[words[place]] = values[place]
            y[place] = values[place]
    return Given([x], {"string_vocabulary" if by_word else "int64_vocabulary": words}, [y[None]])


def _feature_vectorizer(d: Draw) -> Given:
    rows = d.integer(1, 3)
    parts = [d.array((rows, d.integer(1, 3))) for _ in range(d.integer(1, 3))]
    attributes = {"inputdimensions": [part.shape[1] for part in parts]} if d.flag() else {}
    return Given(parts, attributes, [as_type(np.concatenate(parts, axis=1), np.float32)])


def _imputer(d: Draw) -> Given:
    floating = d.dtype.kind == "f"
    x = d.array((d.integer(0, 3), d.integer(1, 3)), low=0, high=2, special=floating)
    x = np.rint(x).astype(d.dtype)
    old: Any = d.pick((np.nan, 1.0)) if floating else d.pick((1, 2))
    values = d.array((d.pick((1, x.shape[1])),), low=3, high=9, special=False)
    new = values.astype(np.float32).tolist() if floating else values.tolist()
    kind = "float" if floating else "int64"
    made = np.where(np.isnan(x) if np.isnan(old) else x == old, np.array(new).astype(d.dtype), x)
    return Given([x], {f"imputed_value_{kind}s": new, f"replaced_value_{kind}": old}, [made])


def _label_encoder(d: Draw) -> Given:
    if d.version == 1:
        words = list(_WORDS[:4])
        fallback: Any = -1 if d.dtype.kind == "O" else "_Unused"
        pairs = {one: place for place, one in enumerate(words)}
        if d.dtype.kind != "O":
            pairs = dict(enumerate(words))  # type: ignore[arg-type]  # the other direction
        return _looked_up(d, pairs, fallback, np.int64 if d.dtype.kind == "O" else object, {"classes_strings": words})
    result = d.other("T2")
    keys: list[Any] = list(_WORDS[1:5]) if d.dtype.kind == "O" else [1, -2, 0, 3]
    values: list[Any] = list(_WORDS[:4]) if result.kind == "O" else [5, 6, 7, 5]
    lists = {"O": "strings", "int64": "int64s", "float32": "floats"}
    attributes: dict[str, Any] = {}
    for name, held, dtype in (("keys", keys, d.dtype), ("values", values, result)):
        kind = lists.get("O" if dtype.kind == "O" else dtype.name)
        if kind is None or (d.version >= 4 and d.flag()):
            attributes[f"{name}_tensor"] = np.array(held, dtype)
        else:
            attributes[f"{name}_{kind}"] = [float(one) for one in held] if kind == "floats" else held
    fallback = "_Unused" if result.kind == "O" else -0.0 if result.kind == "f" else -1
    if d.flag():
        fallback = "none" if result.kind == "O" else 9
        if "values_tensor" in attributes:
            attributes["default_tensor"] = np.array([fallback], result)
        else:
            kind = {"O": "string", "i": "int64", "f": "float"}[result.kind]
            attributes[f"default_{kind}"] = float(fallback) if kind == "float" else fallback
    x = d.array(d.shape())
    x = np.rint(x) if x.dtype.kind == "f" else x
    pairs = dict(zip(keys, values, strict=True))
    made = _objects([pairs.get(one, fallback) for one in x.reshape(-1).tolist()])
    return Given([x], attributes, [made.astype(result).reshape(x.shape)])


def _posted(scores: Any, post: str) -> Any:
    if post == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if post == "SOFTMAX":
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)
    return scores


def _linear(d: Draw) -> Given:
    """Three scores of two features; of a classifier, the greatest names the class."""
    x = _features(d, 2)
    coefficients, intercepts, post = _floats(d, 6), _floats(d, 3), d.pick(("NONE", "LOGISTIC", "SOFTMAX"))
    scores = wide(x).astype(np.float64) @ np.array(coefficients).reshape(3, 2).T + intercepts
    attributes: dict[str, Any] = {"coefficients": coefficients, "intercepts": intercepts, "post_transform": post}
    made = as_type(_posted(scores, post), np.float32)
    if d.op_type == "LinearRegressor":
        return Given([x], {**attributes, "targets": 3}, [made])
    labels, name = _labels(d, "classlabels_ints")
    attributes[name] = labels.tolist()
    return Given([x], attributes, [labels[scores.argmax(axis=1)], made], outputs=2)


def _labels(d: Draw, integers: str, count: int = 3) -> tuple[Any, str]:
    """Labels of classes, and the attribute that holds them."""
    if d.flag():
        return _objects(list(_WORDS[1 : 1 + count])), "classlabels_strings"
    return np.arange(5, 5 + count), integers


def _normalizer(d: Draw) -> Given:
    x = d.array((d.integer(0, 3), d.integer(1, 3)), low=0, special=False)
    norm = d.pick(("MAX", "L1", "L2"))
    values = wide(x).astype(np.float64)
    size = {
        "MAX": values.max(axis=1, keepdims=True),
        "L1": np.abs(values).sum(axis=1, keepdims=True),
        "L2": np.sqrt((values**2).sum(axis=1, keepdims=True)),
    }[norm]
    return Given([x], {"norm": norm}, [as_type(values / np.where(size == 0, 1, size), np.float32)])


def _one_hot_encoder(d: Draw) -> Given:
    x = d.array(d.shape(1, 2), low=0, special=False)
    categories: list[Any] = list(_WORDS[1:4]) if d.dtype.kind == "O" else [2, 0, 3]
    name = "cats_strings" if d.dtype.kind == "O" else "cats_int64s"
    flat = [one if isinstance(one, str) else int(one) for one in x.reshape(-1).tolist()]
    made = np.array([[one == other for other in categories] for one in flat], np.float32).reshape(*x.shape, 3)
    return Given([x], {name: categories}, [made])


def _scaler(d: Draw) -> Given:
    columns = d.integer(1, 3)
    x = _features(d, columns)
    offset, scale = _floats(d, d.pick((1, columns))), _floats(d, d.pick((1, columns)))
    made = (wide(x).astype(np.float64) - np.array(offset)) * np.array(scale)
    return Given([x], {"offset": offset, "scale": scale}, [as_type(made, np.float32)])


def _svm(d: Draw) -> Given:
    """All kernels; the decisions of pairs or, with sigmoids, probabilities. Features are small whole numbers."""
    x = np.rint(d.array((d.integer(1, 4), 3), low=-2, high=2, special=False)).astype(d.dtype)
    kernel = d.pick(("LINEAR", "POLY", "RBF", "SIGMOID"))
    if d.op_type == "SVMRegressor":
        count = d.integer(1, 3)
        attributes: dict[str, Any] = {
            "n_supports": count,
            "support_vectors": _floats(d, 3 * count),
            "coefficients": _floats(d, count),
            "rho": _floats(d, 1),
            "kernel_type": kernel,
            "kernel_params": [0.5, 0.25, 3.0],
            "one_class": d.flag(),
        }
        made = runtime_outputs("SVMRegressor", [x.astype(np.float32)], opset=1, domain=_ML, **attributes)
        return Given([x], attributes, made)
    attributes = machine(d.integer(0, 99), d.pick(((1, 2), (1, 2, 1))), kernel)
    classes = len(attributes["vectors_per_class"])
    if d.flag():
        pairs = classes * (classes - 1) // 2
        attributes |= {"prob_a": _floats(d, pairs), "prob_b": _floats(d, pairs)}
    labels, name = _labels(d, "classlabels_ints", classes)
    del attributes["classlabels_ints"]
    attributes[name] = labels.tolist()
    made = runtime_outputs("SVMClassifier", [x.astype(np.float32)], opset=1, outputs=2, domain=_ML, **attributes)
    return Given([x], attributes, made, outputs=2)


def _votes(trees: list[Tree], x: Any, targets: int) -> Any:
    y = np.zeros((len(x), targets))
    for place, row in enumerate(x):
        for tree in trees:
            for target, weight in walk(tree, row):
                y[place, target] += weight
    return y


def _rows(d: Draw) -> Any:
    """Quarters, which meet thresholds exactly, or whole numbers; NaN where there is one."""
    x = d.array((d.integer(0, 4), 3), np.int64, low=-5, high=5, special=False)
    if d.dtype.kind == "i":
        return x.astype(d.dtype)
    quarters = (x / 4).astype(d.dtype)
    if quarters.size and d.flag():
        quarters[0, 0] = np.nan
    return quarters


def _as_tensors(d: Draw, attributes: dict[str, Any], votes: str) -> dict[str, Any]:
    """From version 3 on, thresholds and weights of doubles are tensors."""
    if d.version < 3 or d.dtype != np.float64:
        return attributes
    moved = {"nodes_values", f"{votes}_weights"}
    kept = {name: value for name, value in attributes.items() if name not in moved}
    return kept | {f"{name}_as_tensor": np.array(attributes[name], np.float64) for name in moved}


def _tree_classifier(d: Draw) -> Given:
    rng = np.random.default_rng(d.integer(0, 999))
    trees = forest(rng, targets=range(3), modes=MODES[:6], votes=2, low=0.1, missing=True, trees=3, depth=3)
    x = _rows(d)
    post = d.pick(("NONE", "LOGISTIC", "SOFTMAX"))
    labels, _ = _labels(d, "classlabels_int64s")
    scores = _votes(trees, x, 3)
    attributes = _as_tensors(d, classifier(trees, labels.tolist(), post_transform=post), "class")
    made = as_type(_posted(scores, post), np.float32)
    return Given([x], attributes, [labels[scores.argmax(axis=1)], made], outputs=2)


def _tree_regressor(d: Draw) -> Given:
    rng = np.random.default_rng(d.integer(0, 999))
    targets = d.integer(1, 3)
    trees = forest(rng, targets=range(targets), modes=MODES[:6], votes=2, missing=True, trees=3, depth=3)
    x = _rows(d)
    made = as_type(_votes(trees, x, targets), np.float32)
    return Given([x], _as_tensors(d, regressor(trees, targets), "target"), [made])


def _tree_ensemble(d: Draw) -> Given:
    """Every mode, membership too; weights of the element type."""
    rng = np.random.default_rng(d.integer(0, 999))
    targets = d.integer(1, 3)
    trees = forest(rng, targets=range(targets), modes=MODES, missing=True, trees=3, depth=3)
    for tree in trees:
        _round_weights(tree, d.dtype)
    x = _rows(d)
    return Given([x], ensemble(trees, d.dtype, targets), [as_type(_votes(trees, x, targets), d.dtype)])


def _round_weights(tree: Tree, dtype: Any) -> None:
    tree.votes = tuple((target, float(np.array(weight).astype(dtype))) for target, weight in tree.votes)
    for child in (tree.true, tree.false):
        if child is not None:
            _round_weights(child, dtype)


def _zip_map(d: Draw) -> Given:
    columns = d.integer(1, 3)
    x = d.array((d.integer(0, 3), columns), np.float32)
    labels, name = _labels(d, "classlabels_int64s", columns)
    made = [dict(zip(labels.tolist(), row, strict=True)) for row in x.tolist()]
    made = [dict(sorted(one.items())) for one in made]
    return Given([x], {name: labels.tolist()}, [made])


def _row(op_type: str, draw: Callable[[Draw], Given], variable: str | None = "T", **others: Any) -> Row:
    return Row(op_type, draw, domain=_ML, variable=variable, **others)


ROWS = [
    _row("ArrayFeatureExtractor", _array_feature_extractor),
    _row("Binarizer", _binarizer),
    _row("CastMap", _cast_map, "T2"),
    _row("CategoryMapper", _category_mapper, "T1"),
    # Only the model's types distinguish a map of doubles from a map of floats, and the call of a single kernel has no
    # such types.
    _row("DictVectorizer", _dict_vectorizer, "T2", without=frozenset((DataType.DOUBLE,))),
    _row("FeatureVectorizer", _feature_vectorizer, "T1"),
    _row("Imputer", _imputer),
    _row("LabelEncoder", _label_encoder, "T1"),
    _row("LinearClassifier", _linear, "T1"),
    _row("LinearRegressor", _linear),
    _row("Normalizer", _normalizer),
    _row("OneHotEncoder", _one_hot_encoder),
    _row("SVMClassifier", _svm, "T1"),
    _row("SVMRegressor", _svm),
    _row("Scaler", _scaler),
    _row("TreeEnsemble", _tree_ensemble),
    _row("TreeEnsembleClassifier", _tree_classifier, "T1"),
    _row("TreeEnsembleRegressor", _tree_regressor),
    _row("ZipMap", _zip_map, None),
]
