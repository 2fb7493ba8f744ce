"""The names that the package of the contracts offers, which are loaded when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

from ort_py import contracts


def test_every_name_is_there() -> None:
    """Each name of the list is loaded from a module of the package, and only from there."""
    for name in contracts.__all__:
        assert getattr(contracts, name) is not None
    assert set(contracts.__all__) <= set(dir(contracts))


def test_no_module_hides_a_name() -> None:
    """A module that is imported becomes an attribute of its package, whatever the package offers under the name."""
    modules = {module.name for module in pkgutil.iter_modules(contracts.__path__)}
    for module in modules:
        importlib.import_module(f"ort_py.contracts.{module}")
    assert modules & set(contracts.__all__) == {"kernel"}
    assert callable(contracts.kernel)


def test_importing_the_package_loads_no_transform() -> None:
    """A restored model needs the contracts of regions and kernels only."""
    program = "import sys, ort_py.contracts\nprint('ort_py.contracts.transform' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
