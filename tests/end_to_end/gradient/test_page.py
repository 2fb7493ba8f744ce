"""The page on gradients names what can be differentiated, and its example runs."""

from __future__ import annotations

import re

import numpy as np

from ort_py.transforms.gradient.registry import rules
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs" / "user" / "gradient.md").read_text(encoding="utf-8")


def test_every_operator_with_a_rule_is_listed() -> None:
    table = PAGE[PAGE.index("| family |") : PAGE.index("Operators that ONNX defines")]
    listed = set(re.findall(r"\b[A-Z]\w+", table))
    assert listed == {one.op_type for one in rules()}


def test_the_example_gives_what_the_page_says() -> None:
    """d(x w) / dw, summed over rows."""
    (code,) = re.findall(r"```python\n(import onnx.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "gradient.md", "exec"), names)  # the page is part of this repository
    np.testing.assert_array_equal(np.asarray(names["dw"]), [4, 6])
