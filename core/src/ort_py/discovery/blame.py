"""Attribution of an exception: the package that lacks something, not the one that happened to request it.

A provider that cannot be imported often has nothing wrong with it: a package that it uses is too old, or is itself
broken. What the exception carries says so: the module that lacks a name, or whose own import raised. Comes before
`loading` and before diagnoses, which word it. Imports nothing that it names.
"""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Iterable, Iterator

from ort_py.hooks.switches import normalise_distribution
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Culprit:
    """A package in which something failed.

    Attributes:
        distribution: The distribution that has it, ``""`` where none is known.
        version: The distribution's version, ``""`` where none is known.
    """

    module: str
    distribution: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip() or self.module

    @property
    def advice(self) -> str:
        """Advice for the user, without a full stop."""
        if not self.distribution:
            return f"Install what provides the module '{self.module}', or another version of it"
        return f"Update or reinstall {self.distribution} ({self.version} is installed)"


def root_cause(error: BaseException) -> BaseException:
    """The exception that a chain of causes began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def culprit_of(error: BaseException, distribution: str = "", modules: Iterable[str] = ()) -> Culprit | None:
    """The package that an exception is the failure of.

    Args:
        modules: Top-level modules that belong to it, beside those that its metadata lists.

    Returns:
        None where it is the fault of the distribution itself, or nothing says whose it is.
    """
    error = root_cause(error)
    owners = _owners()
    own = {name for name, owner in owners.items() if owner == normalise_distribution(distribution)} | set(modules)
    module = _lacking(error) or _importing(error)
    if not module:
        frames = {name.partition(".")[0] for name in _modules(error)}
        # The engine ran, and no code of the distribution did.
        module = "ort_py" if "ort_py" in frames and own and not frames & own else ""
    module = module.partition(".")[0]
    if not module or module in own or module in sys.stdlib_module_names:
        return None
    owner = owners.get(module, "")
    return Culprit(module, owner, importlib.metadata.version(owner) if owner else "")


def _lacking(error: BaseException) -> str:
    """The module that is missing, or lacks a name that was imported from it."""
    if isinstance(error, ImportError):
        return error.name or ""
    if isinstance(error, AttributeError):
        asked = error.obj
        if isinstance(asked, types.ModuleType):
            return asked.__name__
        if isinstance(asked, type):
            return asked.__module__
    return ""


def _importing(error: BaseException) -> str:
    """The module that was being imported when it raised, ``""`` where none was."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "<module>":
            found = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return "" if found == "__main__" else found


def _modules(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next


def _owners() -> dict[str, str]:
    """The distribution of each top-level module, by normalised name."""
    try:
        listed = importlib.metadata.packages_distributions()
    except Exception:  # the metadata of another package cannot be read, so no distribution can be named
        return {}
    owners = {module: normalise_distribution(names[0]) for module, names in listed.items() if names}
    return {"ort_py": "ort-py-core"} | owners  # an editable installation lists no modules
