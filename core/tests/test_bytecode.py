"""Tests of `ort_py.bytecode`: modules come from the archive where their `.pyc` would count, and from their files else.

Most tests archive a package that each makes for itself.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import py_compile
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from core.tests.small_models import model_bytes, typed_identity
from ort_py import bytecode, bytecode_writing
from ort_py.bytecode import BytecodeArchive
from ort_py.mapped_parts import HEADER

MODULES = 20


class Package:
    """A package of twenty modules, and an archive of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.name, self.archive = root, "archived", str(root / "modules")
        self.folder = root / self.name
        (self.folder / "inner").mkdir(parents=True)
        (self.folder / "__init__.py").touch()
        (self.folder / "inner" / "__init__.py").write_text("PLACE = __path__\n", encoding="utf-8")
        for index in range(MODULES):
            self.source(index).write_text(f"VALUE = {index}\n", encoding="utf-8")

    def source(self, index: int) -> Path:
        return self.folder / f"module{index}.py"

    def load(self) -> dict[int, Any]:
        """Import everything as a new process would; the value of each module."""
        self.forget()
        importlib.import_module(f"{self.name}.inner")
        return {index: self.module(index).VALUE for index in range(MODULES)}

    def module(self, index: int) -> Any:
        return importlib.import_module(f"{self.name}.module{index}")

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == self.name]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def serving(self) -> BytecodeArchive:
        finder = BytecodeArchive(self.archive, (f"{self.name}.",))
        finder.serve()
        return finder

    def write(self) -> None:
        finder = self.serving()
        self.load()
        write = finder.close()
        assert write is not None
        write()

    def served(self) -> set[str]:
        """Import everything anew; names of the modules that came from the archive."""
        finder = self.serving()
        try:
            self.load()
        finally:
            finder.close()
        return {name for name, module in self.modules().items() if type(module.__spec__.loader) is not SourceFileLoader}

    def modules(self) -> dict[str, Any]:
        return {name: module for name, module in sys.modules.items() if name.startswith(f"{self.name}.")}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package that is found along `sys.path`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    package = Package(tmp_path)
    yield package
    package.forget()


@pytest.fixture
def written(package: Package) -> Package:
    """A package whose archive is written."""
    package.write()
    return package


def test_a_second_process_takes_all_submodules_from_the_archive(written: Package) -> None:
    assert written.served() == set(written.modules())
    assert written.load() == {index: index for index in range(MODULES)}


def test_served_modules_look_like_others(written: Package) -> None:
    """Source, place, search path, specification: what tools ask of a module."""
    plain = (written.load(), {name: _looks(module) for name, module in written.modules().items()})[1]
    written.served()
    assert {name: _looks(module) for name, module in written.modules().items()} == plain


def test_what_a_process_compiled_is_not_compiled_by_the_next(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_codes", {})
    bytecode.compiled("value = 6 * 7")
    package.write()
    monkeypatch.setattr(bytecode, "_codes", {})
    BytecodeArchive(package.archive)
    monkeypatch.setattr("builtins.compile", None)
    namespace: dict[str, Any] = {}
    exec(bytecode.compiled("value = 6 * 7"), namespace)
    assert namespace["value"] == 42


def test_a_served_module_can_be_reloaded(written: Package) -> None:
    """Reloading reads the files as they are then."""
    written.served()
    module = written.module(3)
    written.source(3).write_text("VALUE = 'reloaded'\n", encoding="utf-8")
    assert importlib.reload(module).VALUE == "reloaded"


def test_a_traceback_shows_the_line(package: Package) -> None:
    package.source(0).write_text("def fail():\n    raise KeyError('here')\n\nVALUE = 0\n", encoding="utf-8")
    package.write()
    package.served()
    with pytest.raises(KeyError) as caught:
        package.module(0).fail()
    assert "raise KeyError('here')" in "".join(traceback.format_exception(caught.value))


def test_a_changed_source_is_read(written: Package) -> None:
    """Also where it is older than before, as after a return to a former version."""
    written.source(5).write_text("VALUE = 'changed'\n", encoding="utf-8")
    os.utime(written.source(5), (1, 1))
    assert f"{written.name}.module5" not in written.served()
    assert written.module(5).VALUE == "changed"


def test_a_source_of_the_same_size_and_another_time_is_read(written: Package) -> None:
    written.source(5).write_text("VALUE = 9\n", encoding="utf-8")
    os.utime(written.source(5), (1, 1))
    written.served()
    assert written.module(5).VALUE == 9


def test_a_removed_module_is_missing(written: Package) -> None:
    written.source(5).unlink()
    with pytest.raises(ModuleNotFoundError):
        written.served()


def test_a_package_that_comes_first_along_the_path_wins(
    written: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive names modules of one folder, and another folder has a package of that name."""
    other = Package(tmp_path / "other")
    other.source(2).write_text("VALUE = 'other'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(other.root))
    assert written.served() == set()
    assert written.module(2).VALUE == "other"


def test_a_folder_that_is_put_before_the_others_of_a_package_wins(written: Package, tmp_path: Path) -> None:
    """A package may extend its search path, for instance by `pkgutil.extend_path`."""
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "module4.py").write_text("VALUE = 'before'\n", encoding="utf-8")
    before = f"__path__.insert(0, {str(tmp_path / 'before')!r})\n"
    (written.folder / "__init__.py").write_text(before, encoding="utf-8")
    written.served()
    assert written.module(4).VALUE == "before"


def test_finders_that_came_before_keep_their_modules(written: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """A debugger, or pytest, compiles modules in its own way."""
    asked: list[str] = []

    class Watching:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            asked.append(name)

    monkeypatch.setattr(sys, "meta_path", [Watching(), *sys.meta_path])
    written.served()
    assert f"{written.name}.module7" in asked


@pytest.mark.parametrize("keep", [0, 1, 10, 100, 0.5, -1])
def test_a_truncated_archive_has_no_modules(written: Package, keep: float) -> None:
    content = Path(written.archive).read_bytes()
    keep = int(keep * len(content)) if 0 < keep < 1 else int(keep)
    Path(written.archive).write_bytes(content[:keep])
    assert written.served() == set()
    assert written.load() == {index: index for index in range(MODULES)}


@pytest.mark.parametrize("place", ["header", "table", "modules"])
def test_a_damaged_archive_serves_no_wrong_module(written: Package, place: str) -> None:
    content = bytearray(Path(written.archive).read_bytes())
    table = int.from_bytes(content[8:16], "little")
    span = {"header": slice(0, HEADER), "table": slice(table, len(content)), "modules": slice(HEADER, table)}[place]
    content[span] = bytes(len(content[span]))
    Path(written.archive).write_bytes(content)
    written.served()
    assert written.load() == {index: index for index in range(MODULES)}


@pytest.mark.parametrize("part", ["module", "table"])
def test_a_changed_letter_is_noticed(package: Package, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter dies of some damaged code."""
    package.source(5).write_text("VALUE = 5\nWORD = 'former'\n", encoding="utf-8")
    monkeypatch.setattr(bytecode, "_codes", {})
    bytecode.compiled("'former table'")
    package.write()
    whole = Path(package.archive).read_bytes()
    old, new = (b"former", b"latter") if part == "module" else (b"former table", b"latter table")
    Path(package.archive).write_bytes(whole.replace(old, new, 1))
    monkeypatch.setattr(bytecode, "_codes", {})
    package.served()
    assert package.module(5).WORD == "former"
    assert set(bytecode._codes) == ({"'former table'"} if part == "module" else set())


def test_code_without_a_name_imports_modules(package: Package) -> None:
    """``exec(…, {})`` has no ``__name__``."""
    finder = package.serving()
    exec(compile(f"import {package.name}.module3", "<code>", "exec"), {})
    finder.close()
    assert package.modules()[f"{package.name}.module3"].VALUE == 3


def test_a_moved_package_has_tracebacks_of_its_new_place(package: Package) -> None:
    """The interpreter does the same when it reads a ``.pyc`` itself."""
    package.source(0).write_text("def outer():\n    def inner():\n        pass\n    return inner\n\nVALUE = 0\n")
    source = package.source(0)
    py_compile.compile(str(source), dfile="/former/place.py")
    package.write()
    package.served()
    for function in (package.module(0).outer, package.module(0).outer()):
        assert function.__code__.co_filename == str(source)


def test_a_served_module_can_be_run_again_by_its_loader(alone: None, package: Package) -> None:
    """After the archive was closed."""
    chained(package, {"top": "import archived.low", "low": ""})
    top = sys.modules["archived.top"]
    assert type(top.__loader__) is not SourceFileLoader
    top.__loader__.exec_module(top)  # type: ignore[union-attr]
    assert builtins.ran[-1] == "archived.top"  # type: ignore[attr-defined]


def test_an_archive_of_another_interpreter_is_left_alone(written: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two builds of one version may read different bytecode."""
    monkeypatch.setattr(sys, "hexversion", sys.hexversion + 1)
    assert written.served() == set()


def test_an_archive_of_an_earlier_release_is_written_anew(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(bytecode_writing, "FORMAT", bytecode.FORMAT - 1)
        package.write()
    assert not package.served()
    package.write()
    assert package.served() == set(package.modules())


def test_few_new_modules_are_no_reason_to_write(written: Package) -> None:
    for index in range(10):
        written.source(index).write_text("VALUE = 'newer'\n", encoding="utf-8")
    finder = written.serving()
    written.load()
    assert finder.close() is None


def test_many_new_modules_are_written_beside_the_others(written: Package) -> None:
    for index in range(17):
        written.source(index).write_text("VALUE = 'newer'\n", encoding="utf-8")
    written.write()
    assert written.served() == set(written.modules())
    assert [written.module(index).VALUE for index in (16, 17)] == ["newer", 17]


def _import_half(package: Package) -> tuple[int, Callable[[], None] | None]:
    """Import half of the modules: how many others are read with them, and what writes the archive anew, if that is
    worth its time."""
    package.forget()
    finder = package.serving()
    importlib.import_module(f"{package.name}.inner")
    for index in range(MODULES // 2):
        package.module(index)
    unused = sum(code is not None for codes in finder._opened.values() for code in codes)
    return unused, finder.close()


def test_modules_that_are_needed_by_the_same_processes_lie_together(
    written: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reads many modules in vain arranges the archive anew, and the next one like it reads none."""
    monkeypatch.setattr(bytecode, "_UNUSED", MODULES // 2)
    unused, write = _import_half(written)
    assert (unused, write is not None) == (MODULES // 2, True)
    assert write is not None
    write()
    assert _import_half(written) == (0, None)
    assert written.served() == set(written.modules())


def test_a_few_modules_that_are_read_in_vain_are_no_reason_to_write(written: Package) -> None:
    assert _import_half(written) == (MODULES // 2, None)


def test_the_archive_is_arranged_anew_a_few_times(written: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else programs that need different modules would write it in turns."""
    monkeypatch.setattr(bytecode, "_UNUSED", MODULES // 2)
    monkeypatch.setattr(bytecode, "WRITERS", 1)
    assert _import_half(written) == (MODULES // 2, None)


def test_nothing_is_written_where_the_interpreter_writes_no_bytecode(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    finder = package.serving()
    package.load()
    assert finder.close() is None


def test_a_folder_that_cannot_be_written_stays_without_an_archive(package: Package) -> None:
    package.archive = str(package.root / "absent" / "modules")
    package.write()
    assert package.served() == set()


def test_modules_checked_by_hash_are_left_to_the_interpreter(package: Package) -> None:
    """Their `.pyc` notes no time that the archive could compare; they are no reason to write it each time either."""
    for index in range(MODULES):
        py_compile.compile(
            str(package.source(index)), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH, doraise=True
        )
    package.write()
    assert package.served() == {f"{package.name}.inner"}
    finder = package.serving()
    package.load()
    assert finder.close() is None


def test_a_closed_archive_keeps_nothing(written: Package) -> None:
    """The loader of each module refers to it for as long as the module lives."""
    written.served()
    (archive,) = {module.__loader__._archive for module in written.modules().values()}
    assert not any(vars(archive)[name] for name in ("_content", "_entries", "_blocks", "_opened", "_order"))


def test_closing_twice_does_nothing(package: Package) -> None:
    finder = package.serving()
    finder.close()
    assert finder.close() is None


def chained(package: Package, sources: dict[str, str]) -> list[str]:
    """Archive a package with modules that note when they have run; the order in which the archive runs them."""
    for name, source in sources.items():
        file = package.folder / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"import builtins\n{source}\nbuiltins.ran.append(__name__)\n", encoding="utf-8")
    first = f"{package.name}.{next(iter(sources))}"
    orders = []
    for _ in range(2):
        builtins.ran = []  # type: ignore[attr-defined]
        finder = package.serving()
        package.load()
        importlib.import_module(first)
        write = finder.close()
        if write is not None:
            write()
        orders.append(list(builtins.ran))  # type: ignore[attr-defined]
    assert orders[0] == orders[1]
    return orders[1]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with one thread, whatever runs the tests."""
    monkeypatch.setattr(sys, "_current_frames", lambda: {1: None})


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the modules that the interpreter finds through the archive, one by one."""
    found: list[str] = []
    find = BytecodeArchive.find_spec

    def noted(self: BytecodeArchive, name: str, *args: Any) -> Any:
        spec = find(self, name, *args)
        found.extend([name] if spec is not None else [])
        return spec

    monkeypatch.setattr(BytecodeArchive, "find_spec", noted)
    return found


def test_what_a_module_imports_is_run_before_it(alone: None, package: Package, entered: list[str]) -> None:
    """The order is that of the import statements; the interpreter looks for the first module only."""
    order = chained(
        package,
        {"top": "from archived import left\nimport archived.right", "left": "from archived.low import X", "right": "",
         "low": "X = 1"},
    )  # fmt: skip
    assert order == [f"archived.{name}" for name in ("low", "left", "right", "top")]
    assert {name for name in entered if "module" not in name} == {"archived.inner", "archived.top"}
    assert package.modules()["archived.low"].__spec__.parent == "archived"
    assert sys.modules["archived"].low is sys.modules["archived.low"]


def test_a_module_that_imports_what_imports_it_waits_for_it(alone: None, package: Package) -> None:
    sources = {
        "top": "X = 1\nimport archived.middle",
        "middle": "import archived.low",
        "low": "from archived.top import X",
    }
    assert chained(package, sources) == [f"archived.{name}" for name in ("low", "middle", "top")]


def test_modules_of_a_package_wait_for_it(alone: None, package: Package) -> None:
    sources = {"top": "import archived.deep", "deep.__init__": "X = 1\nfrom archived.deep import own"}
    sources["deep.own"] = "from archived.deep import X"
    assert chained(package, sources) == [f"archived.{name}" for name in ("deep.own", "deep", "top")]


def test_an_import_that_fails_now_is_reported_where_it_stands(
    alone: None, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module may try to import something and go on without it."""
    monkeypatch.setenv("ARCHIVED_LOW", "1")
    sources = {"top": "try:\n import archived.low as low\nexcept KeyError:\n low = None",
               "low": "import os\nos.environ['ARCHIVED_LOW']"}  # fmt: skip
    assert chained(package, sources) == ["archived.low", "archived.top"]
    monkeypatch.delenv("ARCHIVED_LOW")
    package.forget()
    finder = package.serving()
    top = importlib.import_module("archived.top")
    finder.close()
    assert top.low is None
    assert "archived.low" not in sys.modules


def test_beside_other_threads_the_interpreter_imports_each_module(package: Package, entered: list[str]) -> None:
    """It locks them, so that no thread sees a module that has not run to its end."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        chained(package, {"top": "import archived.low", "low": ""})
    finally:
        ended.set()
        thread.join()
    assert {"archived.top", "archived.low"} <= set(entered)


def test_finders_that_came_before_keep_what_a_module_imports(
    alone: None, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        def find_spec(self, name: str, path: Any, target: object = None) -> Any:
            return PathFinder.find_spec(name, path) if name == "archived.low" else None

    monkeypatch.setattr(sys, "meta_path", [Other(), *sys.meta_path])
    chained(package, {"top": "import archived.low", "low": ""})
    assert type(sys.modules["archived.low"].__spec__.loader) is SourceFileLoader  # type: ignore[union-attr]
    assert type(sys.modules["archived.top"].__spec__.loader) is not SourceFileLoader  # type: ignore[union-attr]


class _Refusing:
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "archived.low":
            raise ImportError(name)


def test_a_finder_that_refuses_a_module_does_so_where_it_is_imported(
    alone: None, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    chained(package, {"top": "try:\n import archived.low\nexcept ImportError:\n refused = True", "low": ""})
    monkeypatch.setattr(sys, "meta_path", [_Refusing(), *sys.meta_path])
    package.forget()
    finder = package.serving()
    assert importlib.import_module("archived.top").refused
    finder.close()


_REPLACED = """
import sys, types
other = types.ModuleType(__name__)
other.__dict__.update(globals())
sys.modules[__name__] = other
"""


def test_a_module_may_put_another_object_in_its_place(alone: None, package: Package) -> None:
    chained(package, {"top": "import archived.low", "low": _REPLACED})
    assert sys.modules["archived.low"] is sys.modules["archived"].low


def test_a_process_writes_the_archive_and_the_next_one_uses_it(tmp_path: Path) -> None:
    """With ort-py itself: the first session of a process ends the service."""
    model = tmp_path / "model.onnx"
    model.write_bytes(model_bytes(typed_identity("float[2]")))
    code = f"""
import sys, ort_py
from ort_py import bytecode
from ort_py.bytecode import BytecodeArchive
session = ort_py.InferenceSession({str(model)!r})
served = [name for name, module in sys.modules.items()
          if type(getattr(getattr(module, "__spec__", None), "loader", None)).__module__ == "ort_py.bytecode"]
print(len(served), any(isinstance(one, BytecodeArchive) for one in sys.meta_path))
"""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "pycs"), "ORT_PY_CACHE": "off"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    answers = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert answers[0] == "0 False\n"
    assert int(answers[1].split()[0]) > 200


def _looks(module: Any) -> tuple[object, ...]:
    spec = module.__spec__
    path = list(getattr(module, "__path__", []))
    return module.__file__, module.__cached__, module.__package__, path, spec.origin, inspect.getsource(module)
