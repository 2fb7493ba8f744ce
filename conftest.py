"""Common parts of all tests: the selection of tests for each tier.

`quick` and the tier of CI are derived here, so that a new test or a new row of a table needs no mark to be in the right
one. Without `-m`, pytest runs everything it is pointed at.
"""

from __future__ import annotations

import gc
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

# Sessions of tests must not fill the cache of whoever runs them; tests of the cache name a folder of their own.
os.environ["ORT_PY_CACHE"] = "off"

_NO_PRIVILEGE = 1314
"""Windows' error where a process may not make symbolic links."""

SLOWER_TIERS = ("models", "packaging", "slow", "gpu", "nightly")

QUICK_FILES = 12
"""Of so many test modules one is in the quick tier; and the first of each folder."""

LONG_TABLE = 24
"""Rows up to which CI runs a table whole; of a longer one it runs a fixed third, and `--all` each row."""

WHOLE = frozenset({"test_operator_version"})
"""Long tables that CI runs whole: no two rows are about the same operator and version."""

_SLOWER = re.compile(rf"^pytestmark = .*\bmark\.({'|'.join(SLOWER_TIERS)})\b", re.MULTILINE)
"""How a whole module is marked; some of them take seconds to import."""

_ROOT = Path(__file__).parent


def _place(text: str) -> int:
    """A number that is the same in every process and on every machine, and has nothing to do with names' order."""
    return zlib.crc32(text.encode())


def _is_quick_run(config: pytest.Config) -> bool:
    return str(config.option.markexpr) == "quick"


def _leaves_nightly(config: pytest.Config) -> bool:
    return "not nightly" in str(config.option.markexpr)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In a quick run, leave modules out before they are imported: importing all of them takes longer than the tests."""
    if not _is_quick_run(config) or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    first = min(file.name for file in collection_path.parent.glob("test_*.py"))
    chosen = collection_path.name == first or not _place(collection_path.relative_to(_ROOT).as_posix()) % QUICK_FILES
    return None if chosen and not _SLOWER.search(collection_path.read_text(encoding="utf-8")) else True


def _is_about(redundant: pytest.Mark, metafunc: pytest.Metafunc) -> bool:
    """Whether a function has the table that a mark of its class names; a mark without a name is on the function."""
    table = redundant.kwargs.get("table")
    return table is None or table in metafunc.fixturenames


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Thin tables: in a quick run to one row, in the tier of CI long ones and those that are marked to their share."""
    yield
    marks = metafunc.definition.iter_markers("redundant")
    redundant = next((mark for mark in marks if _is_about(mark, metafunc)), None)
    calls = metafunc._calls
    if _is_quick_run(metafunc.config):
        calls[:] = sorted(calls, key=lambda call: _place(call.id))[:1]
    elif _leaves_nightly(metafunc.config):
        share = 1
        if redundant is not None:
            share = redundant.kwargs["one_in"]
        elif len(calls) > LONG_TABLE and metafunc.function.__name__ not in WHOLE:
            share = 3
        calls[:] = [call for call in calls if not _place(call.id) % share] or calls[:1]


class _Heap:
    """The tests themselves, which collections leave out: looking at all of them takes a third of a second.

    A test that unfreezes its heap unfreezes everything. That is noted when it does, since counting what is frozen
    looks at each object, too.
    """

    def __init__(self) -> None:
        self._frozen = False
        self._unfreeze = gc.unfreeze
        gc.unfreeze = self._thaw

    def _thaw(self) -> None:
        self._frozen = False
        self._unfreeze()

    def freeze(self) -> None:
        """Freeze what there is, unless it is frozen already."""
        if not self._frozen:
            gc.collect()
            gc.freeze()
            self._frozen = True


_heap = _Heap()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Keep the tests themselves out of garbage collections."""
    _heap.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that makes a symbolic link where Windows wants a privilege for it."""
    try:
        yield
    except OSError as error:
        if getattr(error, "winerror", 0) == _NO_PRIVILEGE:
            pytest.skip("this process may not make symbolic links")
        raise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tier."""
    for item in items:
        if not any(item.get_closest_marker(name) for name in SLOWER_TIERS):
            item.add_marker(pytest.mark.quick)
