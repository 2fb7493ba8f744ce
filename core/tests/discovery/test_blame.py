"""Attribution of exceptions: a package that lacks something, one that raised while imported, or the one tried."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ort_py.discovery.blame import Culprit, culprit_of


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that fail in their own ways, forgotten afterwards."""
    sources = {
        "blame_plugin": "import blame_broken",
        "blame_broken": "raise ValueError('x')",
        "blame_own": "raise ValueError('x')",
        "blame_late": "def run(): raise ValueError('x')",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in sources:
        sys.modules.pop(name, None)


def raised(call: Callable[[], object]) -> BaseException:
    """The exception that a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the point is whose it is
        call()
    return caught.value


def chained() -> None:
    """An error with another as its cause."""
    try:
        _ = onnx_module.a_later_name
    except AttributeError as error:
        raise RuntimeError("loading failed") from error


# Names that the type checker does not look at.
numpy_module: Any = np
onnx_module: Any = onnx
stdlib: Any = sys

NUMPY = Culprit("numpy", "numpy", np.__version__)
ONNX = Culprit("onnx", "onnx", onnx.__version__)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: numpy_module.a_later_name, NUMPY),
        (lambda: exec("from numpy.linalg import a_later_name"), NUMPY),
        (lambda: onnx_module.TensorProto.A_LATER_NAME, ONNX),
        (chained, ONNX),
        (lambda: __import__("a_module_nobody_has.part"), Culprit("a_module_nobody_has")),
        (lambda: __import__("blame_plugin"), Culprit("blame_broken")),
        (lambda: __import__("blame_own"), None),
        (lambda: __import__("blame_late").run(), None),
        (lambda: 1 / 0, None),
        (lambda: np.zeros(2).reshape(3), None),
        (lambda: stdlib.a_later_name, None),
    ],
    ids=["attribute", "name", "class", "cause", "module", "import", "own import", "own code", "plain", "use", "stdlib"],
)
def test_who_is_to_blame(call: Callable[[], object], expected: Culprit | None) -> None:
    """The package that lacks a name or raised while imported; what merely was called wrongly is not."""
    assert culprit_of(raised(call), "blame-own", ["blame_own", "blame_late"]) == expected


def test_the_package_that_was_tried_is_no_other() -> None:
    """A provider that lacks a name of its own has only itself to blame."""
    assert culprit_of(raised(lambda: numpy_module.a_later_name), "NumPy") is None


def test_advice() -> None:
    """An installed package is updated, a missing one installed."""
    assert str(NUMPY) == f"numpy {np.__version__}"
    assert NUMPY.advice == f"Update or reinstall numpy ({np.__version__} is installed)"
    assert str(Culprit("nobody")) == "nobody"
    assert "the module 'nobody'" in Culprit("nobody").advice
