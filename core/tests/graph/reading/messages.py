"""Random messages of ONNX, and the comparison of what was read with what protobuf reads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx

from ort_py.graph.reading.wire import Message, Piece

_INTEGERS = {3: (0, 1, -1, 127, 128, 300, 2**63 - 1, -(2**63)), 4: (0, 1, 300, 2**64 - 1), 5: (0, -1, 300, -(2**31))}
"""Values by protobuf's number of a field's type: int64, uint64, int32."""

_MESSAGE, _TEXT, _BYTES, _ENUM = 11, 9, 12, 14


def is_repeated(field: Any) -> bool:
    """Whether a field is a list; releases of protobuf say it differently."""
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def random_model(rng: random.Random) -> onnx.ModelProto:
    """A message with any of its fields, which need not be a model that makes sense."""
    model = onnx.ModelProto()
    _fill(rng, model, 0)
    return model


def _fill(rng: random.Random, message: Any, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.5 or (field.type == _MESSAGE and depth > 5):
            continue
        if field.type == _MESSAGE:
            for _ in range(rng.choice([1, 2]) if is_repeated(field) else 1):
                inner = getattr(message, field.name)
                inner = inner.add() if is_repeated(field) else inner
                if not is_repeated(field):
                    inner.SetInParent()
                _fill(rng, inner, depth + 1)
        elif is_repeated(field):
            getattr(message, field.name).extend(_value(rng, field) for _ in range(rng.choice([1, 2, 3, 70, 200])))
        else:
            setattr(message, field.name, _value(rng, field))


def _value(rng: random.Random, field: Any) -> Any:
    if field.type == _TEXT:
        return "".join(rng.choice("abé漢") for _ in range(rng.choice([0, 1, 5, 200])))
    if field.type == _BYTES:
        return rng.randbytes(rng.choice([0, 1, 9, 9, 9, 4095, 4096, 5000]))
    if field.type == _ENUM:
        return rng.choice(list(field.enum_type.values_by_number))
    return rng.choice(_INTEGERS.get(field.type, (0.0, 1.5, -2.25, float("inf"))))


def expect_equal(ours: Any, theirs: Any, where: str = "") -> None:
    """Compare the fields that ours has, with those inside of them."""
    for field in theirs.DESCRIPTOR.fields:
        if field.name not in type(ours).by_name:
            continue
        place = f"{where}.{field.name}"
        ours_value, theirs_value = getattr(ours, field.name), getattr(theirs, field.name)
        if is_repeated(field):
            values = ours_value.tolist() if isinstance(ours_value, np.ndarray) else list(ours_value)
            assert len(values) == len(theirs_value), place
            for index, (one, other) in enumerate(zip(values, theirs_value, strict=True)):
                _expect_value(one, other, f"{place}[{index}]")
            continue
        assert ours.HasField(field.name) == theirs.HasField(field.name), place
        if field.type != _MESSAGE or (ours.HasField(field.name) and isinstance(ours_value, Message)):
            _expect_value(ours_value, theirs_value, place)
    for group, names in type(ours).alternatives.items():
        assert set(names) == {field.name for field in theirs.DESCRIPTOR.oneofs_by_name[group].fields}
        assert ours.WhichOneof(group) == theirs.WhichOneof(group), where


def _expect_value(ours: Any, theirs: Any, where: str) -> None:
    if isinstance(ours, Message):
        expect_equal(ours, theirs, where)
    elif isinstance(ours, Piece):
        assert bytes(ours.content) == theirs, where
    else:
        assert type(ours) is type(theirs), where
        assert repr(ours) == repr(theirs), where  # NaN differs from itself
