"""`ort_py.testing` where the kit is not installed; the kit's own tests have the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["ort_py.testing", "ort_py.testing.suites.provider"])
def test_the_error_names_the_package_to_install(module: str) -> None:
    """The message says what failed, why, and which command helps."""
    code = f"import sys; sys.modules['ort_py_kit'] = None\nimport {module}"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    message = outcome.stderr.splitlines()[-1]
    assert message.startswith("ImportError: The module 'ort_py.testing' cannot be imported")
    assert "the conformance kit is not installed" in message
    assert "`pip install ort-py-kit`" in message


def test_a_kit_that_lacks_something_else_says_so() -> None:
    """A package that the kit misses is not reported as a missing kit."""
    code = (
        "import sys, types\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ort_py_kit': raise ModuleNotFoundError('no module acme', name='acme')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import ort_py.testing"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.stderr.splitlines()[-1] == "ModuleNotFoundError: no module acme"
