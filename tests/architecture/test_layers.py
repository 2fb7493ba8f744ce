"""Imports between packages: rooms of the core stand on layers, plug-ins see the contracts only, the core names no
vendor and does not import the kit.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT, code_words, imports_of, python_files

CORE = ROOT / "core" / "src" / "ort_py"

SUBPACKAGES = {"backend", "capi", "datasets", "quantization", "tools", "transformers"}
"""Rooms that are onnxruntime's subpackages; they use `ort_py` as a user would."""

LAYERS = (
    {
        "errors",
        "dtypes",
        "devices",
        "enums",
        "value_enums",
        "files",
        "printable",
        "suggestions",
        "tolerances",
        "lazy_names",
        "lazy_dataclass",
        "light_tuple",
        "logs",
        "collection",
        "hashing",
        "installed",
        "homes",
        "onnx_version",
        "mapped_parts",
        "bytecode",
        "bytecode_writing",
        "onnx_parts",
        "onnx_operators",
        "onnx_operator_records",
    },
    {"platform"},
    {"contracts", "hooks"},
    {"graph", "kernels", "memory", "discovery", "limits", "cache", "constraints", "values", "options"},
    {"transforms", "partition", "planning"},
    {"execution", "fallback", "profiling"},
    {"engine"},
    {"api", "compat", "inspection"},
    {"cli", "as_onnxruntime"} | SUBPACKAGES,
)
"""From the leaves upwards; a room imports from its own layer and those before it. `testing` stands beside all: it
forwards to the kit, and nothing imports it."""

OPEN_TO_PLUGINS = {
    "contracts",
    "hooks",
    "errors",
    "dtypes",
    "devices",
    "collection",
    "files",
    "hashing",
    "installed",
    "lazy_dataclass",
    "light_tuple",
}

OPEN_MODULES = {"ort_py.platform.forks", "ort_py.platform.heap"}
"""Modules of other rooms that plug-ins may import: what a provider needs whose library has locks or threads, or that
frees much memory at once."""

OPEN_TO_THE_KIT = {
    ("graphs.py", "graph"): "reads, checks and types a model without a session, so that claims and rules can be tested",
    ("kernel_runner.py", "graph"): "makes the record of a node from a schema, as reading a model does",
    ("kernel_runner.py", "kernels"): "matches kernels with a node as a session does",
    ("rules.py", "graph"): "puts the functions of fused nodes in their place again",
    ("rules.py", "transforms"): "runs the transforms under test without the others",
    ("scaffold/names.py", "discovery"): "refuses names that onnxruntime or ort-py uses",
    (
        "subject.py",
        "discovery",
    ): "registers and removes providers under test, and checks options without a session",
    ("subject.py", "fallback"): "forgets devices that a test has lost",
    ("subject.py", "kernels"): "shows conflicts between the kernels of one provider",
    ("suites/options.py", "discovery"): "knows the names of onnxruntime's options, which may have capital letters",
    (
        "suites/listing_child.py",
        "discovery",
    ): "is loaded in each process that lists providers, so that its imports do not count as those of a plug-in",
}
"""Modules of the kit that use a room of the core beside the leaves, the contracts, the hooks and the public surface,
each with its reason. No public name does these things, since users have sessions; so the kit depends on one exact
version of the core."""

VENDORS = re.compile(
    r"\b(nvidia|cuda|cudnn|tensorrt|cupy|openvino|onednn|dnnl|intel|amd|rocm|migraphx|apple|coreml|qualcomm|qnn|"
    r"directml|vulkan|metal|mkl)\b",
    re.IGNORECASE,
)
VENDOR_DATA = {
    "discovery/known_names.py",
    "compat/preloading.py",
    "values/device_table.py",
    "compat/shim/onnxruntime/__init__.py",
    "platform/native_libraries.py",
}
"""Tables of what onnxruntime's users know: names and options of providers, names and numbers of devices, names of
its own module, parameters of one function. And of the functions of native libraries."""

PUBLIC_NAMES = {"cuda_version"}
"""Names of onnxruntime's own top level that ort-py has too."""


def _level(room: str) -> int | None:
    return next((level for level, rooms in enumerate(LAYERS) if room in rooms), None)


def _room(file: Path) -> str:
    return file.relative_to(CORE).parts[0].removesuffix(".py")


def test_every_room_has_a_layer() -> None:
    """A new folder or module of the core is put on a layer when it is made."""
    rooms = {_room(file) for file in python_files("core/src/ort_py")}
    assert {room for room in rooms if _level(room) is None} <= {"__init__", "testing"}


def test_no_room_imports_from_a_higher_layer() -> None:
    """Every import statement inside the core goes down or stays on its layer."""
    wrong = []
    for file in python_files("core/src/ort_py"):
        level = _level(_room(file))
        if level is None:
            continue
        for found in imports_of(file):
            parts = found.module.split(".")
            if parts[0] != "ort_py" or len(parts) == 1:
                continue
            target = _level(parts[1])
            if parts[1] == "testing" or (target is not None and target > level):
                wrong.append(str(found))
    assert wrong == []


def test_the_engine_does_not_import_the_public_surface() -> None:
    """Only the command line and the compatibility layer use `ort_py` as a user would."""
    wrong = [
        str(found)
        for file in python_files("core/src/ort_py")
        if _room(file) not in {"cli", "compat", "testing", "__init__"} | SUBPACKAGES
        for found in imports_of(file)
        if found.module == "ort_py" or re.fullmatch(r"ort_py\.[A-Z_]\w*|ort_py\.get_\w+", found.module)
    ]
    assert wrong == []


def test_contracts_import_leaves_only() -> None:
    """A plug-in that imports the contracts loads no room of the engine."""
    allowed = OPEN_TO_PLUGINS - {"hooks"} | {"lazy_names"}
    wrong = [
        str(found)
        for file in python_files("core/src/ort_py/contracts")
        for found in imports_of(file)
        if found.module.startswith("ort_py.") and found.module.split(".")[1] not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["providers", "plugins-example"])
def test_plugins_import_only_what_is_open_to_them(folder: str) -> None:
    """Contracts, hooks, leaves and `OPEN_MODULES`; their tests also import what users import, and the kit."""
    wrong = []
    for file in python_files(folder):
        in_tests = "tests" in file.parts
        for found in imports_of(file):
            parts = found.module.split(".")
            if parts[0] == "ort_py_kit" and not in_tests:
                wrong.append(str(found))
            if parts[0] != "ort_py" or (in_tests and len(parts) == 1):
                continue
            if len(parts) == 1 or not (parts[1] in OPEN_TO_PLUGINS or ".".join(parts[:3]) in OPEN_MODULES):
                wrong.append(str(found))
    assert wrong == []


def test_the_core_does_not_import_the_kit() -> None:
    """Nor does any room import the old name of the kit, `testing`, which is a forwarder for other people's code."""
    wrong = [
        str(found)
        for file in python_files("core/src/ort_py")
        for found in imports_of(file)
        if re.match(r"(ort_py_kit|ort_py\.testing)(\.|$)", found.module)
    ]
    assert wrong == []


def test_the_kit_imports_the_rooms_that_are_listed() -> None:
    """A new dependency of the kit on the inside of the core is added to the list, with its reason, when it is made."""
    allowed = LAYERS[0] | {"contracts", "hooks"}
    rooms = {folder.name for folder in CORE.iterdir() if folder.is_dir()} | {file.stem for file in CORE.glob("*.py")}
    kit = ROOT / "kit" / "src" / "ort_py_kit"
    used: dict[tuple[str, str], str] = {}
    for file in python_files("kit/src"):
        for found in imports_of(file):
            parts = found.module.split(".")
            if parts[0] == "ort_py" and len(parts) > 1 and parts[1] in rooms - allowed:
                used[file.relative_to(kit).as_posix(), parts[1]] = str(found)
    assert {place: text for place, text in used.items() if place not in OPEN_TO_THE_KIT} == {}
    assert OPEN_TO_THE_KIT.keys() - used.keys() == set()


def test_no_code_of_the_core_names_a_vendor() -> None:
    """No name, import or string; documentation may give examples, and one table of known names is data."""
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in python_files("core/src/ort_py")
        if file.relative_to(CORE).as_posix() not in VENDOR_DATA
        for text, line in code_words(file)
        if VENDORS.search(text.replace("_", " ")) and text not in PUBLIC_NAMES
    ]
    assert wrong == []


def test_every_room_is_on_the_maps() -> None:
    """`core/README.md` and `docs/architecture/map.md` name every room."""
    rooms = {folder.name for folder in CORE.iterdir() if folder.is_dir() and any(folder.glob("*.py"))}
    walk = (ROOT / "core" / "README.md").read_text(encoding="utf-8")
    layers = (ROOT / "docs" / "architecture" / "map.md").read_text(encoding="utf-8")
    assert {room for room in rooms if f"`{room}/`" not in walk} == set()
    assert {room for room in rooms if not re.search(rf"\b{room}\b", layers)} == set()
