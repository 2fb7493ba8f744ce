"""The attributes of the plug-in that ort-py reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ort_py_hello
from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py_hello.plugin import HelloFactory, ort_py_providers


def test_the_hook_contributes_the_provider() -> None:
    """Its name is the entry point's."""
    assert [factory.name for factory in ort_py_providers()] == ["HelloExecutionProvider"]


def test_it_fits_the_core() -> None:
    assert HelloFactory().api_range.meets(CORE_API_RANGE)


def test_it_is_available() -> None:
    assert HelloFactory().probe()


def test_it_makes_a_provider_with_two_operators() -> None:
    """Relu and Add, under the factory's name."""
    provider = HelloFactory().create({}, SessionContext())
    assert provider.name == HelloFactory().name
    assert sorted(definition.op_type for definition in provider.kernel_registry()) == ["Add", "Relu"]


@pytest.mark.parametrize("module", ["ort_py_hello.provider", "ort_py_hello.kernels"])
def test_the_plugin_is_light(module: str) -> None:
    """Importing and probing it loads neither provider nor kernels."""
    folder = str(Path(ort_py_hello.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); import ort_py_hello.plugin as plugin; "
        f"plugin.HelloFactory().probe(); sys.exit({module!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
