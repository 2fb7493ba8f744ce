"""Compiled models: a session of one answers as a session of the model, or it is refused with every reason."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import CPU, external_model, model_bytes
from ort_py.cache import circumstances
from ort_py.cache.compiled_file import CompiledFile
from ort_py.cache.format import description_of, write_file
from ort_py.engine import compiled_fit
from ort_py.graph.reading.given_model import COMPILED_MAGIC

X = np.array([[1, -2, 3]], np.float32)
TEXT = """g (float[N, 3] x, bool b) => (float[N, 3] y) <float[3] c = {1, 2, 3}> {
    t = Add(x, c)
    y = If (b) <then_branch = a () => (float[N, 3] p) { p = Relu(t) },
                else_branch = e () => (float[N, 3] q) { q = Neg(t) }> }"""
FEED = {"x": X, "b": np.array(True)}
EXPECTED = [[2, 0, 6]]


files_may_go = pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A compiled model."""
    ort_py.compile_model(model_bytes(TEXT), tmp_path / "m.ortpy", providers=CPU, inputs=FEED)
    return tmp_path / "m.ortpy"


@pytest.fixture
def embedding(tmp_path: Path) -> Path:
    """A compiled model with the original in it."""
    path = tmp_path / "e.ortpy"
    ort_py.compile_model(model_bytes(TEXT), path, providers=CPU, inputs=FEED, embed_original=True)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stages(session: ort_py.InferenceSession) -> list[str]:
    """The stages of a session's creation."""
    return [stage.stage for stage in session.load_report.stages]


RESTORED = ["providers", "restore", "compile", "plan"]


def result(session: ort_py.InferenceSession) -> Any:
    """The results of a session."""
    return session.run(None, FEED)[0].tolist()


def test_a_session_of_a_compiled_model_answers_as_one_of_the_model(compiled: Path, folder: Path) -> None:
    """It prepares nothing, and leaves the cache alone."""
    plain, session = ort_py.InferenceSession(model_bytes(TEXT), providers=CPU), ort_py.InferenceSession(compiled)
    assert stages(session) == RESTORED
    assert result(session) == result(plain) == EXPECTED
    assert session.get_providers() == plain.get_providers()
    assert session.placement.to_json()["nodes"] == plain.placement.to_json()["nodes"]
    assert [one.shape for one in session.get_inputs()] == [one.shape for one in plain.get_inputs()]
    assert "m.ortpy" in repr(session)
    assert not folder.exists()


def as_bytes() -> ort_py.SessionOptions:
    """Options that let bytes be a compiled model."""
    return changed(lambda one: one.add_session_config_entry("session.load_model_format", "ORTPY"))


def test_bytes_have_to_be_announced(compiled: Path) -> None:
    """A service that takes models from strangers must not take compiled ones unawares."""
    with pytest.raises(ort_py.CompiledModelError, match=r"are a compiled model(.|\n)*set the session's config entry"):
        ort_py.InferenceSession(compiled.read_bytes())
    for given in (compiled.read_bytes(), bytearray(compiled.read_bytes()), memoryview(compiled.read_bytes())):
        session = ort_py.InferenceSession(given, as_bytes())
        assert stages(session) == RESTORED
        assert result(session) == EXPECTED


def test_a_copy_is_as_good(compiled: Path, tmp_path: Path) -> None:
    """Under another name, in another folder, when the first is gone."""
    (tmp_path / "elsewhere").mkdir()
    copied = shutil.copyfile(compiled, tmp_path / "elsewhere" / "OTHER.OrtPy")
    compiled.unlink()
    assert result(ort_py.InferenceSession(copied)) == EXPECTED


def test_a_session_of_a_compiled_model_pickles(compiled: Path) -> None:
    again = pickle.loads(pickle.dumps(ort_py.InferenceSession(compiled)))
    assert stages(again) == RESTORED
    assert result(again) == EXPECTED


CHILD = """
import pickle, sys
import ort_py
session = ort_py.InferenceSession(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    outputs = session.run(None, pickle.load(file))
print([stage.stage for stage in session.load_report.stages], outputs[0].ravel()[:3].tolist())
print([name for name in ("onnx", "google.protobuf", "ort_py.engine.loading") if name in sys.modules])
"""


def test_another_process_needs_no_onnx(compiled: Path, tmp_path: Path) -> None:
    """Nor anything that prepares models."""
    (tmp_path / "feeds").write_bytes(pickle.dumps(FEED))
    command = [sys.executable, "-c", CHILD, str(compiled), str(tmp_path / "feeds")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert told == [f"{RESTORED} {[float(one) for one in EXPECTED[0]]}", "[]"]


# -- external data ---------------------------------------------------------------------------------------------

ONES = {"x": np.ones(4096, np.float32)}


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A model with a constant in a file beside it."""
    return external_model(tmp_path / "external")


@pytest.mark.parametrize("embed", [False, True])
def test_external_data_is_in_the_file(
    external: Path, tmp_path: Path, embed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file is shipped, also with the original, which is then prepared without the others."""
    ort_py.compile_model(external, tmp_path / "m.ortpy", providers=CPU, embed_original=embed)
    shutil.rmtree(external.parent)
    assert ort_py.InferenceSession(tmp_path / "m.ortpy").run(None, ONES)[0][-1] == 4096
    if embed:
        elsewhere(monkeypatch)
        assert ort_py.InferenceSession(tmp_path / "m.ortpy").run(None, ONES)[0][-1] == 4096


# -- what does not fit -----------------------------------------------------------------------------------------


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine another one."""
    here = circumstances.kind_of_machine()
    names = sorted({*here["instructions"].split()[1:], "avx1024"})
    kind = here | {"processor": "other", "instructions": " ".join(names)}
    monkeypatch.setattr(compiled_fit, "kind_of_machine", lambda: kind)


def test_another_machine_is_refused_with_every_reason(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch)
    with pytest.raises(ort_py.CompiledModelError, match="was not made for this session") as caught:
        ort_py.InferenceSession(compiled)
    text = str(caught.value)
    assert "processor: it was compiled for" in text
    assert "without instructions that are here: avx1024" in text
    assert len(caught.value.why) >= 2
    assert "m.ortpy" in text
    assert "`ort-py compile`" in caught.value.fix


def test_other_versions_are_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_fit, "versions_of", lambda names: {"ort-py-core": "99"})
    with pytest.raises(ort_py.CompiledModelError) as caught:
        ort_py.InferenceSession(compiled)
    assert any("by ort-py-core" in one and "and 99 is installed" in one for one in caught.value.why)
    assert any("ort-py-cpu" in one and "is not installed" in one for one in caught.value.why)


def test_other_code_of_the_same_version_is_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody works on it."""
    monkeypatch.setattr(compiled_fit, "code_stamp", lambda package: "edited")
    with pytest.raises(ort_py.CompiledModelError, match=r"the code of .*ort_py.* is another one, of the same version"):
        ort_py.InferenceSession(compiled)


def test_code_of_packages_that_take_part_on_one_side_does_not_matter(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further providers of a session change nothing of what was compiled."""

    def with_another(pairs: Any) -> dict[str, Any]:
        found = made_by(pairs)
        return found | {"code": found["code"] | {"another": "stamp"}}

    made_by = compiled_fit.made_by
    monkeypatch.setattr(compiled_fit, "made_by", with_another)
    assert stages(ort_py.InferenceSession(compiled)) == RESTORED


def test_a_kernel_that_is_another_now_is_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_py.engine import assignment_record

    monkeypatch.setattr(assignment_record, "_identity", lambda kernel: (kernel.op_type, "another"))
    with pytest.raises(ort_py.CompiledModelError, match="now runs Add with another kernel"):
        ort_py.InferenceSession(compiled)


def test_planning_that_fails_is_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_py.engine.assembly import Assembler

    def fail(*_: Any) -> Any:
        raise OSError("a device went away")

    monkeypatch.setattr(Assembler, "plan_restored", fail)
    with pytest.raises(ort_py.CompiledModelError, match="a device went away"):
        ort_py.InferenceSession(compiled)


def test_models_that_are_not_trusted_are_refused(compiled: Path) -> None:
    """The requirements of the limits are checked when an ONNX model is read."""
    options = ort_py.SessionOptions()
    options.limits = ort_py.Limits.untrusted()
    with pytest.raises(ort_py.CompiledModelError, match="models that are not trusted"):
        ort_py.InferenceSession(compiled, options)


def test_the_original_is_prepared_anew_where_it_is_embedded(
    embedding: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is kept in the cache, so that only the first session takes the time."""
    from ort_py.cache.writing import process_queue

    elsewhere(monkeypatch)
    session = ort_py.InferenceSession(embedding)
    assert "load" in stages(session)
    assert result(session) == EXPECTED
    assert "the original model in it is prepared anew: processor: it was compiled for" in caplog.text
    process_queue().wait()
    assert "load" not in stages(ort_py.InferenceSession(embedding.read_bytes(), as_bytes()))


def test_planning_that_fails_prepares_an_embedded_original(embedding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_py.engine.assembly import Assembler

    def fail(*_: Any) -> Any:
        raise OSError("a device went away")

    monkeypatch.setattr(Assembler, "plan_restored", fail)
    session = ort_py.InferenceSession(embedding)
    assert "load" in stages(session)
    assert result(session) == EXPECTED


def test_an_embedded_original_can_be_forbidden(embedding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch)
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.compiled_model", "strict")
    with pytest.raises(ort_py.CompiledModelError) as caught:
        ort_py.InferenceSession(embedding, options)
    assert "Leave out the config entry 'session.compiled_model'" in caught.value.fix


# -- options ---------------------------------------------------------------------------------------------------


def changed(change: Callable[[ort_py.SessionOptions], Any]) -> ort_py.SessionOptions:
    """Options with a change."""
    options = ort_py.SessionOptions()
    change(options)
    return options


def test_options_it_was_compiled_with_are_the_sessions(tmp_path: Path) -> None:
    """Those that the session leaves as they are by default."""
    options = changed(lambda one: one.add_free_dimension_override_by_name("N", 1))
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.plugin_kernels_override", "1")
    ort_py.compile_model(model_bytes(TEXT), tmp_path / "m.ortpy", options, CPU)
    session = ort_py.InferenceSession(tmp_path / "m.ortpy")
    assert session.get_inputs()[0].shape == [1, 3]
    found = session.get_session_options()
    assert found.graph_optimization_level is ort_py.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert found.use_deterministic_compute
    assert found.get_session_config_entry("session.plugin_kernels_override") == "1"
    assert result(ort_py.InferenceSession(tmp_path / "m.ortpy", options)) == EXPECTED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: setattr(one, "precision", "bfloat16"), "precision = 'float32', and the session has 'bfloat16'"),
        (lambda one: setattr(one, "fast_math", True), "fast_math = False, and the session has True"),
        (lambda one: one.add_free_dimension_override_by_name("N", 1), "without the dimension 'N' = 1"),
        (lambda one: one.add_session_config_entry("session.fast_math", "1"), "the config entry 'session.fast_math'"),
        (
            lambda one: one.add_initializer("c", ort_py.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))),
            "the session replaces initializers",
        ),
    ],
)
def test_options_that_would_change_results_are_refused(compiled: Path, change: Any, why: str) -> None:
    with pytest.raises(ort_py.CompiledModelError, match=why):
        ort_py.InferenceSession(compiled, changed(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: setattr(one, "graph_optimization_level", ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL),
        lambda one: setattr(one, "disabled_transforms", ("ConstantFolding",)),
        lambda one: setattr(one, "intra_op_num_threads", 3),
        lambda one: setattr(one, "execution_mode", ort_py.ExecutionMode.ORT_PARALLEL),
        lambda one: setattr(one, "strict", "node"),
        lambda one: setattr(one, "enable_profiling", False),
    ],
)
def test_options_of_optimising_and_running_do_not_matter(compiled: Path, change: Any) -> None:
    """The one is over, and the other is decided when a session is made."""
    session = ort_py.InferenceSession(compiled, changed(change))
    assert stages(session) == RESTORED
    assert result(session) == EXPECTED


def test_options_of_the_caller_stay_as_they_are(tmp_path: Path) -> None:
    options = changed(lambda one: setattr(one, "use_deterministic_compute", True))
    ort_py.compile_model(model_bytes(TEXT), tmp_path / "m.ortpy", options, CPU)
    mine = ort_py.SessionOptions()
    before = copy.copy(mine)
    ort_py.InferenceSession(tmp_path / "m.ortpy", mine)
    assert repr(mine) == repr(before)


# -- damage ----------------------------------------------------------------------------------------------------


@files_may_go
@pytest.mark.parametrize("with_original", [False, True])
def test_damage_anywhere_is_an_error_or_harmless(
    compiled: Path, embedding: Path, tmp_path: Path, with_original: bool
) -> None:
    """Bits flipped and the file cut at random places: an error of the one class, or the right result."""
    content = (embedding if with_original else compiled).read_bytes()
    generator = random.Random(1)
    outcomes = {"refused": 0, "right": 0}
    for number in range(150):
        damaged = bytearray(content)
        place = generator.randrange(len(content))
        if number % 4:
            damaged[place] ^= 1 << generator.randrange(8)
        else:
            del damaged[place:]
        path = tmp_path / "damaged.ortpy"
        path.unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            session = ort_py.InferenceSession(path)
        except ort_py.CompiledModelError:
            outcomes["refused"] += 1
            continue
        assert result(session) == EXPECTED, f"byte {place}"
        outcomes["right"] += 1
    # Without the original, only padding may change unnoticed; with it, whatever but the description is made up for.
    assert outcomes["refused"] > (40 if with_original else 110)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """The name alone does not make a compiled model."""
    for number, content in enumerate((b"", model_bytes(TEXT), b"ort-py model 9\n\0" + bytes(100))):
        path = tmp_path / f"{number}.ortpy"
        path.write_bytes(content)
        with pytest.raises(ort_py.CompiledModelError, match=r"truncated|no compiled model|another version"):
            ort_py.InferenceSession(path)
    with pytest.raises(ort_py.NoSuchFile, match="does not exist"):
        ort_py.InferenceSession(tmp_path / "missing.ortpy")
    (tmp_path / "folder.ortpy").mkdir()
    with pytest.raises(ort_py.Fail, match="cannot be read"):
        ort_py.InferenceSession(tmp_path / "folder.ortpy")


def test_a_compiled_model_under_another_name_says_so(compiled: Path) -> None:
    renamed = compiled.rename(compiled.with_suffix(".onnx"))
    with pytest.raises(ort_py.InvalidProtobuf, match=r"compiled by ort-py(.|\n)*ends in '\.ortpy'"):
        ort_py.InferenceSession(renamed)


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A compiled model whose description says something else, with the right checksums."""
    content = path.read_bytes()
    about = json.loads(description_of(content)[0])
    start = description_of(content)[1]
    change(about)
    target = path.with_name("rewritten")
    with target.open("wb") as file:
        write_file(file, json.dumps(about).encode(), [content[start:]], COMPILED_MAGIC)
    return target.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("made_by"),
        lambda about: about.pop("options"),
        lambda about: about["made_by"].update(machine=[]),
        lambda about: about["made_by"].update(versions={"a": {}}),
        lambda about: about["made_by"].pop("devices"),
        lambda about: about["options"].update(attributes={"precision": 7}),
        lambda about: about["options"].update(entries=[1]),
        lambda about: about["options"].update(dimensions={"N": "x"}),
        lambda about: about.update(providers=[["CPUExecutionProvider"]]),
        lambda about: about.update(parts=[one for one in about["parts"] if one[1] != "model"]),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(compiled: Path, change: Any) -> None:
    """Written by other code, or by somebody who means harm: data are never taken for more than data."""
    with pytest.raises(ort_py.CompiledModelError):
        ort_py.InferenceSession(rewritten(compiled, change), as_bytes())


def test_a_damaged_original_is_an_error(embedding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(embedding.read_bytes())
    (place,) = [start for _, kind, start, _ in CompiledFile(bytes(content), "").about["parts"] if kind == "original"]
    content[description_of(bytes(content))[1] + place + 200] ^= 1
    assert result(ort_py.InferenceSession(bytes(content), as_bytes())) == EXPECTED
    elsewhere(monkeypatch)
    with pytest.raises(ort_py.CompiledModelError, match="The original model in a compiled model cannot be loaded"):
        ort_py.InferenceSession(bytes(content), as_bytes())


@files_may_go
def test_it_may_be_replaced_while_it_is_used(compiled: Path, tmp_path: Path) -> None:
    """Another compilation exchanges the file; a session keeps the one that it has mapped."""
    session = ort_py.InferenceSession(compiled)
    ort_py.compile_model(model_bytes(TEXT.replace("Relu", "Abs")), compiled, providers=CPU)
    os.utime(compiled)
    assert result(session) == EXPECTED
    assert result(ort_py.InferenceSession(compiled)) == [[2, 0, 6]]
