"""The pages for plug-in authors: their code runs, their reference is up to date, their index leads everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import kernel_defs
from ort_py.hooks import RunEvent
from ort_py.hooks.validation import HOOK_NAMES, validate_plugin
from ort_py_kit import assert_close, reference_outputs, run_kernel
from tests.support.source_tree import ROOT

FOLDER = ROOT / "docs" / "plugin-author"


def _page(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


class _Module:
    """The module that a block of code would be in a file."""

    def __init__(self, page: str, number: int = 0) -> None:
        block = re.findall(r"^```python[^\n]*\n(.*?)^```$", _page(page), flags=re.M | re.S)[number]
        names: dict[str, Any] = {"__name__": "block"}
        exec(compile(block, page, "exec"), names)
        vars(self).update(names)
        self.__name__ = "block"


def test_the_reference_is_up_to_date() -> None:
    """`python scripts/plugin_reference.py` would write what stands there."""
    from plugin_reference import page

    assert _page("reference.md") == page(), "run `python scripts/plugin_reference.py`"


def test_the_reference_has_every_name() -> None:
    import ort_py.contracts
    import ort_py.hooks
    import ort_py_kit

    rooms = (ort_py.contracts, ort_py.hooks, ort_py_kit)
    text = _page("reference.md")
    assert [name for room in rooms for name in room.__all__ if not re.search(rf"^### `{name}\b", text, re.M)] == []


def test_the_reference_can_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says that a page is out of date, writes it, and is content."""
    import plugin_reference

    monkeypatch.setattr(plugin_reference, "TARGET", tmp_path / "reference.md")
    assert plugin_reference.main(["--check"]) == 1
    assert plugin_reference.main([]) == 0
    assert plugin_reference.main(["--check"]) == 0


def test_the_page_of_hooks_names_all() -> None:
    """No more and no less than there are."""
    assert set(re.findall(r"`(ort_py_[a-z_]+)(?:\(event\))?`", _page("hooks.md"))) == set(HOOK_NAMES)


def test_the_observer_of_the_page_works() -> None:
    """It is a plug-in, and remembers slow runs."""
    module = _Module("hooks.md")
    validate_plugin(module, "page")
    module.ort_py_run_finished(RunEvent("a", 0.5))  # type: ignore[attr-defined]  # defined by the page
    module.ort_py_run_finished(RunEvent("b", 2.0))  # type: ignore[attr-defined]  # as above
    assert module.slow == ["b: 2.0 s"]  # type: ignore[attr-defined]  # as above


def test_the_kernel_of_the_page_works() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    definitions = kernel_defs(_Module("kernels.md"))
    assert_close(run_kernel(definitions, "Softmax", [x], opset=13), reference_outputs("Softmax", [x], opset=13))


def test_the_table_of_contracts_names_members_that_exist() -> None:
    """Every member that the page gives in code is one of the contracts."""
    from ort_py import contracts

    known = {member for name in contracts.__all__ for member in dir(getattr(contracts, name))} | set(contracts.__all__)
    rows = [line for line in _page("contracts.md").splitlines() if line.startswith("|")]
    named = {word for line in rows for word in re.findall(r"`([A-Za-z_]+)(?:\([a-z_, ]*\))?`", line)}
    assert named - known - {"ort_py", "NPU", "GPU", "ACCELERATOR", "CPU"} == set()


def test_the_index_leads_to_every_page_and_example() -> None:
    index = _page("index.md")
    pages = {file.name for file in FOLDER.glob("*.md")} - {"index.md"}
    examples = {file.parent.name for file in (ROOT / "plugins-example").glob("*/pyproject.toml")}
    assert [name for name in sorted(pages) if f"]({name})" not in index] == []
    assert [name for name in sorted(examples) if f"plugins-example/{name})" not in index] == []
