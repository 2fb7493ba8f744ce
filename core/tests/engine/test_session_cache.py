"""Sessions and the cache: a hit answers every question as the session that prepared the model; all else is a miss."""

from __future__ import annotations

import copy
import logging
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
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from core.tests.small_models import CPU, HEADER, external_model, model_bytes
from ort_py.cache import file_contents, model_source
from ort_py.cache.writing import process_queue
from ort_py.engine import cache_use, prepared_model, session_cache
from ort_py.graph.reading.fingerprint import hash_of_file
from ort_py.graph.weights.accounting import named_weights

X = np.array([[1, -2, 3]], np.float32)
TEXT = """g (float[N, 3] x, bool b) => (float[N, 3] y) <float[3] c = {1, 2, 3}> {
    t = Add(x, c)
    y = If (b) <then_branch = a () => (float[N, 3] p) { p = Relu(t) },
                else_branch = e () => (float[N, 3] q) { q = Neg(t) }> }"""
FEED = {"x": X, "b": np.array(True)}


files_may_go = pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model's file, written some time ago."""
    path = tmp_path / "models" / "model.onnx"
    path.parent.mkdir()
    write(path, model_bytes(TEXT))
    return path


def write(path: Path, content: bytes, time_ns: int = 10**18) -> None:
    """Write a file and give it an age."""
    path.write_bytes(content)
    os.utime(path, ns=(time_ns, time_ns))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The cache's folder."""
    return tmp_path / "cache"


@pytest.fixture
def options(folder: Path) -> ort_py.SessionOptions:
    """Options with that folder, for models however small."""
    options = ort_py.SessionOptions()
    options.cache_dir = folder
    options.add_session_config_entry("session.model_cache", "1")
    return options


def opened(source: Any, options: ort_py.SessionOptions | None, **arguments: Any) -> ort_py.InferenceSession:
    """A session, what it wrote to the cache being there."""
    session = ort_py.InferenceSession(source, options, **{"providers": CPU, **arguments})
    process_queue().wait()
    return session


def hit(session: ort_py.InferenceSession) -> bool:
    """Whether a session was restored."""
    return "load" not in {stage.stage for stage in session.load_report.stages}


def answers(session: ort_py.InferenceSession) -> dict[str, Any]:
    """A session's description of itself, and its results."""
    arguments = [session.get_inputs(), session.get_outputs(), session.get_overridable_initializers()]
    meta = session.get_modelmeta()
    return {
        "arguments": [[(one.name, one.type, one.shape) for one in group] for group in arguments],
        "meta": [meta.producer_name, meta.graph_name, meta.version, meta.custom_metadata_map],
        "providers": [session.get_providers(), session.get_provider_options()],
        "placement": session.placement.to_json(),
        "plan": session.plan,
        "fingerprint": str(session.fingerprint),
        "weights": session.memory_report().weights,
        "state": [session.state, repr(session), session.fallback_report],
        "results": [array.tolist() for array in session.run(None, FEED)],
    }


def test_a_restored_session_answers_as_the_one_that_prepared(path: Path, options: ort_py.SessionOptions) -> None:
    first, second = opened(path, options), opened(path, options)
    assert (hit(first), hit(second)) == (False, True)
    assert answers(second) == answers(first)
    assert [stage.stage for stage in second.load_report.stages] == ["providers", "restore", "compile", "plan"]


def test_the_report_says_what_the_preparation_did(path: Path, options: ort_py.SessionOptions) -> None:
    """Also where it was done by another session."""
    first, second = opened(path, options), opened(path, options)
    (loaded,) = [stage.notes for stage in first.load_report.stages if stage.stage == "load"]
    (restored,) = [stage.notes for stage in second.load_report.stages if stage.stage == "restore"]
    assert f"load: {loaded[0]}" in restored


def test_a_restored_session_pickles(path: Path, options: ort_py.SessionOptions) -> None:
    opened(path, options)
    again = pickle.loads(pickle.dumps(opened(path, options)))
    np.testing.assert_array_equal(again.run(None, FEED)[0], opened(path, options).run(None, FEED)[0])


def test_a_restored_model_can_be_written(path: Path, options: ort_py.SessionOptions, tmp_path: Path) -> None:
    """The compiler of models can write it as an optimised model."""
    opened(path, options)
    target = tmp_path / "compiled.onnx"
    ort_py.ModelCompiler(options, path).compile_to_file(target)
    again = ort_py.ModelCompiler(options, path)
    process_queue().wait()
    assert again.compile_to_bytes() == target.read_bytes()


def test_placement_is_there_after_closing(path: Path, options: ort_py.SessionOptions) -> None:
    """It outlives the graph that it is made of."""
    session = opened(path, options)
    before = opened(path, options).placement.to_json()
    session.close()
    assert session.placement.to_json() == before


def test_an_optimised_model_to_be_written_is_a_miss(path: Path, options: ort_py.SessionOptions, tmp_path: Path) -> None:
    """It is written by the session that prepares it."""
    opened(path, options)
    options.optimized_model_filepath = tmp_path / "optimised.onnx"
    assert not hit(opened(path, options))
    assert (tmp_path / "optimised.onnx").exists()


# -- when there is an entry ------------------------------------------------------------------------------------


def test_what_was_prepared_quickly_is_not_kept(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than 100 ms, unless every model is asked for."""
    options = ort_py.SessionOptions()
    options.cache_dir = folder
    monkeypatch.setattr(session_cache, "LEAST_SECONDS", 1000.0)
    opened(path, options)
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(session_cache, "LEAST_SECONDS", 0.0)
    opened(path, options)
    assert hit(opened(path, options))


def test_models_given_as_bytes_are_kept_only_where_asked(path: Path, folder: Path) -> None:
    plain = ort_py.SessionOptions()
    plain.cache_dir = folder
    for _ in range(2):
        assert not hit(opened(path.read_bytes(), plain))
    assert not folder.exists()
    plain.add_session_config_entry("session.model_cache", "1")
    assert not hit(opened(path.read_bytes(), plain))
    assert hit(opened(path.read_bytes(), plain))
    assert hit(opened(onnx.load_from_string(path.read_bytes()), plain))
    assert not hit(opened(model_bytes(TEXT.replace("Neg", "Abs")), plain))


def test_the_cache_can_be_off(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option, the environment, or for prepared models alone."""
    monkeypatch.setattr(session_cache, "LEAST_SECONDS", 0.0)
    monkeypatch.setenv("ORT_PY_CACHE", "off")
    opened(path, None)
    monkeypatch.setenv("ORT_PY_CACHE", str(folder))
    options = ort_py.SessionOptions()
    options.cache_dir = "off"
    opened(path, options)
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.model_cache", "0")
    opened(path, options)
    assert not folder.exists()


def test_the_environment_names_the_folder(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cache, "LEAST_SECONDS", 0.0)
    monkeypatch.setenv("ORT_PY_CACHE", str(folder))
    opened(path, None)
    assert hit(opened(path, None))


def test_replaced_initializers_are_a_miss(path: Path, options: ort_py.SessionOptions) -> None:
    """They are the program's own; nothing of them is written either."""
    opened(path, options)
    options.add_initializer("c", ort_py.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)))
    for _ in range(2):
        session = opened(path, options)
        assert not hit(session)
        assert session.run(None, FEED)[0].tolist() == [[1, 0, 3]]


# -- the content counts --------------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose file is not read as a whole for its sketch, taken for written long ago."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 0)
    return written_large(tmp_path / "large", np.arange(100_000, dtype=np.float32))


def written_large(folder: Path, array: np.ndarray[Any, Any]) -> Path:
    """A model that adds a constant."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name in ("x", "y"))
    node = helper.make_node("Add", ["x", "c"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(array, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    folder.mkdir()
    path = folder / "model.onnx"
    write(path, model.SerializeToString())
    return path


def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files all of which are read to find out what they contain, from now on; nothing is remembered in memory."""
    monkeypatch.setattr(file_contents, "_known", {})
    found: list[str] = []

    def noted(path: str, identity: ort_py.files.FileIdentity) -> str:
        found.append(path)
        return hash_of_file(path, identity)

    monkeypatch.setattr(file_contents, "hash_of_file", noted)
    return found


def sketch(path: Path) -> str:
    """The sketch of a file."""
    content = path.read_bytes()
    return file_contents.sketch_of(len(content), lambda start, stop: content[start:stop])


def test_a_copy_of_a_model_is_a_hit(
    large: Path, options: ort_py.SessionOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At another path, with other times; it is read once, and then known by its identity, also to other processes."""
    opened(large, options)
    copied = tmp_path / "copy" / "another name.onnx"
    copied.parent.mkdir()
    shutil.copyfile(large, copied)
    read = hashed(monkeypatch)
    session = opened(copied, options)
    assert hit(session)
    assert "another name.onnx" in repr(session)
    assert read == [str(copied)]
    read = hashed(monkeypatch)
    assert hit(opened(copied, options))
    assert hit(opened(large, options))
    assert read == []


def test_a_touched_model_is_a_hit(large: Path, options: ort_py.SessionOptions) -> None:
    opened(large, options)
    os.utime(large)
    assert hit(opened(large, options))


def test_a_file_and_its_bytes_have_one_entry(large: Path, options: ort_py.SessionOptions) -> None:
    opened(large, options)
    assert hit(opened(large.read_bytes(), options))


def test_a_model_with_the_same_sketch_is_a_miss(large: Path, options: ort_py.SessionOptions, tmp_path: Path) -> None:
    """It differs where no sample is taken: all of both is compared."""
    opened(large, options)
    array = np.arange(100_000, dtype=np.float32)
    array[55_000] = -1
    other = written_large(tmp_path / "other", array)
    assert sketch(large) == sketch(other)
    session = opened(other, options)
    assert not hit(session)
    assert session.run(None, {"x": np.zeros(100_000, np.float32)})[0][55_000] == -1


def test_a_racy_file_is_read_each_time(
    large: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its identity does not tell whether it was written again."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 10**18)
    opened(large, options)
    read = hashed(monkeypatch)
    assert hit(opened(large, options))
    assert hit(opened(large, options))
    assert read == [str(large)] * 2


def test_a_damaged_digest_is_found_out_again(
    large: Path, options: ort_py.SessionOptions, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remembered content is checked as everything in the folder is."""
    opened(large, options)
    (record,) = folder.glob("*.digest")
    content = bytearray(record.read_bytes())
    content[-2] ^= 1
    record.write_bytes(content)
    read = hashed(monkeypatch)
    assert hit(opened(large, options))
    assert read == [str(large)]


# -- when an entry is stale ------------------------------------------------------------------------------------


def test_a_model_that_was_written_again_is_a_miss(path: Path, options: ort_py.SessionOptions) -> None:
    """In place, of the same size, at another time."""
    opened(path, options)
    write(path, path.read_bytes().replace(b"Relu", b"Ceil"), 10**18 + 1)
    session = opened(path, options)
    assert not hit(session)
    assert session.run(None, {"x": X - 0.5, "b": FEED["b"]})[0].tolist() == [[2, 0, 6]]


def test_a_model_that_was_replaced_is_a_miss(path: Path, options: ort_py.SessionOptions) -> None:
    """By another file of the same size and time."""
    opened(path, options)
    other = path.with_name("other.onnx")
    write(other, path.read_bytes().replace(b"Relu", b"Ceil"))
    other.replace(path)
    assert not hit(opened(path, options))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_a_model_that_was_rewritten_with_its_time_kept_is_a_miss(
    path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file, size and time, and another content: also where no content is compared."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 0)
    opened(path, options)
    assert hit(opened(path, options))
    write(path, path.read_bytes().replace(b"Relu", b"Ceil"))
    session = opened(path, options)
    assert not hit(session)
    assert session.run(None, FEED)[0].tolist() == [[2, 0, 6]]


def test_a_model_written_a_moment_ago_is_compared(path: Path, options: ort_py.SessionOptions) -> None:
    """Its time does not tell whether it was written twice; the content does."""
    now = path.with_name("now.onnx")
    now.write_bytes(path.read_bytes())
    found = now.stat()
    opened(now, options)
    assert hit(opened(now, options))
    with now.open("r+b") as file:
        file.write(path.read_bytes().replace(b"Relu", b"Ceil"))
    os.utime(now, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert not hit(opened(now, options))


def test_the_same_file_by_another_path_is_a_hit(path: Path, options: ort_py.SessionOptions) -> None:
    """Its identity counts; the session knows the path it was given."""
    opened(path, options)
    link = path.with_name("link.onnx")
    link.symlink_to(path)
    session = opened(link, options)
    assert hit(session)
    assert "link.onnx" in repr(session)


def changed_options(options: ort_py.SessionOptions) -> list[ort_py.SessionOptions]:
    """Options that each change how a model is prepared."""
    found = []
    changes: list[Callable[[ort_py.SessionOptions], Any]] = [
        lambda one: setattr(one, "graph_optimization_level", ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL),
        lambda one: setattr(one, "disabled_transforms", ("ConstantFolding",)),
        lambda one: setattr(one, "limits", ort_py.Limits.untrusted()),
        lambda one: setattr(one, "precision", "bfloat16"),
        lambda one: setattr(one, "strict", "provider"),
        lambda one: setattr(one, "intra_op_num_threads", 1),
        lambda one: one.add_free_dimension_override_by_name("N", 1),
        lambda one: one.add_free_dimension_override_by_denotation("DATA_BATCH", 1),
        lambda one: one.add_session_config_entry("session.plugin_kernels_override", "1"),
    ]
    for change in changes:
        other = copy.copy(options)
        change(other)
        found.append(other)
    return found


def test_other_options_are_a_miss(path: Path, options: ort_py.SessionOptions) -> None:
    """Each combination has an entry of its own."""
    options.intra_op_num_threads = 2
    opened(path, options)
    for other in changed_options(options):
        assert not hit(opened(path, other))
        assert hit(opened(path, other))
    assert hit(opened(path, options))


def test_options_without_effect_on_the_graph_are_a_hit(path: Path, options: ort_py.SessionOptions) -> None:
    opened(path, options)
    options.log_severity_level, options.logid = 3, "me"
    assert hit(opened(path, options))


def test_another_machine_version_or_code_is_a_miss(
    path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision of another machine need not be right here."""
    opened(path, options)
    for name, found in (
        ("machine", lambda: "another"),
        ("versions", lambda _: ["ort-py-core==99"]),
        ("package_stamp", lambda _: "edited"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(session_cache, name, found)
            assert not hit(opened(path, options)), name
    assert hit(opened(path, options))


def test_code_without_a_file_switches_the_cache_off(
    path: Path, options: ort_py.SessionOptions, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider typed at a prompt changes without a trace."""
    monkeypatch.setattr(session_cache, "package_stamp", lambda _: None)
    opened(path, options)
    assert not folder.exists() or not list(folder.iterdir())


def test_the_environment_of_ort_py_counts(
    path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in may read any variable of this name; where the cache is does not matter."""
    opened(path, options)
    monkeypatch.setenv("ORT_PY_CACHE_SIZE", "1G")
    assert hit(opened(path, options))
    monkeypatch.setenv("ORT_PY_SOMETHING", "1")
    assert not hit(opened(path, options))


# -- external data ---------------------------------------------------------------------------------------------


@pytest.fixture
def external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with a large constant in a file beside it, both taken for written long ago, which cannot be set back."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 0)
    path = external_model(tmp_path / "external")
    for file in path.parent.iterdir():
        os.utime(file, ns=(10**18, 10**18))
    return path


ONES = {"x": np.ones(4096, np.float32)}


def test_external_data_stays_where_it_is(external: Path, options: ort_py.SessionOptions, folder: Path) -> None:
    """It is mapped from its own file; the entry is small."""
    opened(external, options)
    session = opened(external, options)
    assert hit(session)
    assert session.run(None, ONES)[0][-1] == 4096
    (entry,) = folder.glob("*.model")
    assert entry.stat().st_size < 8192


@files_may_go
def test_external_data_that_changed_is_a_miss(external: Path, options: ort_py.SessionOptions) -> None:
    """Written again, of the same size."""
    opened(external, options)
    write(external.with_name("data.bin"), np.zeros(4096, np.float32).tobytes(), 10**18 + 1)
    session = opened(external, options)
    assert not hit(session)
    assert session.run(None, ONES)[0][-1] == 1


def copied(model: Path, folder: Path) -> Path:
    """A model and its external data, somewhere else."""
    shutil.copytree(model.parent, folder, copy_function=shutil.copyfile)
    return folder / model.name


def test_a_copy_of_a_model_with_external_data_is_a_hit(
    external: Path, options: ort_py.SessionOptions, tmp_path: Path
) -> None:
    """Its constants are those of its own file."""
    opened(external, options)
    copy = copied(external, tmp_path / "copy")
    session = opened(copy, options)
    assert hit(session)
    assert [path for path, _ in session.engine.external_files] == [str(copy.with_name("data.bin"))]
    assert session.run(None, ONES)[0][-1] == 4096


def test_models_that_differ_in_their_external_data_have_an_entry_each(
    external: Path, options: ort_py.SessionOptions, tmp_path: Path
) -> None:
    """Variants of one model that was trained further."""
    other = copied(external, tmp_path / "other")
    write(other.with_name("data.bin"), np.zeros(4096, np.float32).tobytes())
    for path in (external, other):
        assert not hit(opened(path, options))
    for path, last in ((external, 4096), (other, 1)):
        session = opened(path, options)
        assert hit(session)
        assert session.run(None, ONES)[0][-1] == last


def test_huge_external_data_is_known_by_its_identity(
    external: Path, options: ort_py.SessionOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read it would take longer than to prepare the model."""
    monkeypatch.setattr(model_source, "_MOST_READ", 1000)
    read = hashed(monkeypatch)
    opened(external, options)
    assert hit(opened(external, options))
    assert not hit(opened(copied(external, tmp_path / "copy"), options))
    assert read == []


def test_a_damaged_list_of_external_files_is_a_miss(
    external: Path, options: ort_py.SessionOptions, folder: Path
) -> None:
    opened(external, options)
    (listed,) = folder.glob("*.files")
    listed.write_bytes(listed.read_bytes()[:-1] + b"?")
    assert not hit(opened(external, options))
    assert hit(opened(external, options))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_external_data_whose_time_was_kept_is_a_miss(external: Path, options: ort_py.SessionOptions) -> None:
    """Written again, of the same size and time."""
    opened(external, options)
    write(external.with_name("data.bin"), np.zeros(4096, np.float32).tobytes(), 10**18)
    session = opened(external, options)
    assert not hit(session)
    assert session.run(None, ONES)[0][-1] == 1


def test_external_data_that_was_folded_away_counts(
    tmp_path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry has what was computed from the file; it is the model's file all the same."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 0)
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[3] x) => (float[3] y)'
        " <float[3] c = {1, 2, 3}> { n = Neg(c) y = Add(x, n) }"
    )
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 2, 3], np.float32), "c"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    feed = {"x": np.zeros(3, np.float32)}
    assert opened(tmp_path / "m.onnx", options).run(None, feed)[0].tolist() == [-1, -2, -3]
    assert hit(opened(tmp_path / "m.onnx", options))
    write(tmp_path / "data.bin", np.array([4, 5, 6], np.float32).tobytes())
    session = opened(tmp_path / "m.onnx", options)
    assert not hit(session)
    assert session.run(None, feed)[0].tolist() == [-4, -5, -6]


def test_sessions_of_one_entry_share_its_constants(tmp_path: Path, options: ort_py.SessionOptions) -> None:
    """Noting that an entry was used makes it no other entry."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4096]) for name in ("x", "y"))
    weight = numpy_helper.from_array(np.arange(4096, dtype=np.float32), "c")
    graph = helper.make_graph([helper.make_node("Add", ["x", "c"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    content = model.SerializeToString()
    opened(content, options)
    one, two = opened(content, options), opened(content, options)
    assert hit(one)
    assert hit(two)
    models = [one.engine.model, two.engine.model]
    keys = [list(named_weights(model)) for model in models if model is not None]
    assert keys[0] == keys[1] != []


@files_may_go
def test_external_data_that_is_gone_raises_as_loading_does(external: Path, options: ort_py.SessionOptions) -> None:
    opened(external, options)
    external.with_name("data.bin").unlink()
    with pytest.raises(ort_py.Fail, match=r"'data\.bin' does not exist"):
        opened(external, options)


@files_may_go
def test_the_cache_is_no_way_out_of_the_folder(external: Path, options: ort_py.SessionOptions, tmp_path: Path) -> None:
    """A link where the file was, to the very same file: refused, as without a cache."""
    opened(external, options)
    data = external.with_name("data.bin")
    data.rename(tmp_path / "elsewhere.bin")
    data.symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(ort_py.Fail, match="is outside the model's folder"):
        opened(external, options)


# -- damage ----------------------------------------------------------------------------------------------------


@files_may_go
def test_damage_anywhere_is_a_miss(
    path: Path, options: ort_py.SessionOptions, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Flipped bits and cuts at random places: a session, right results, and a new entry."""
    expected = opened(path, options).run(None, FEED)[0].tolist()
    (entry,) = folder.iterdir()
    content = entry.read_bytes()
    generator = random.Random(1)
    for number in range(60):
        changed = bytearray(content)
        place = generator.randrange(len(content))
        if number % 3:
            changed[place] ^= 1 << generator.randrange(8)
        else:
            del changed[place:]
        entry.unlink()
        entry.write_bytes(changed)
        entry.chmod(0o600)
        session = opened(path, options)
        assert not hit(session), f"byte {place}"
        assert session.run(None, FEED)[0].tolist() == expected
        assert hit(opened(path, options))
    assert "is damaged and was ignored" in caplog.text


def test_an_entry_of_another_form_is_a_miss(
    path: Path, options: ort_py.SessionOptions, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, but written by code that meant something else: it is removed and written again."""
    opened(path, options)

    def misread(*_: Any) -> Any:
        raise KeyError("columns")

    with monkeypatch.context() as patch:
        patch.setattr(prepared_model, "ModelReader", misread)
        assert not hit(opened(path, options))
    assert hit(opened(path, options))


def test_a_kernel_that_is_another_now_is_a_miss(
    path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels are named in entries, never stored."""
    opened(path, options)
    from ort_py.engine import assignment_record

    with monkeypatch.context() as patch:
        patch.setattr(assignment_record, "_identity", lambda kernel: (kernel.op_type, "another"))
        assert not hit(opened(path, options))


def test_planning_that_fails_prepares_the_model_anew(
    path: Path, options: ort_py.SessionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is created as if there were no cache, whatever the cause."""
    from ort_py.engine.assembly import Assembler

    opened(path, options)

    def fail(*_: Any) -> Any:
        raise OSError("a device went away")

    monkeypatch.setattr(Assembler, "plan_restored", fail)
    session = opened(path, options)
    assert not hit(session)
    assert [stage.stage for stage in session.load_report.stages][:2] == ["providers", "load"]


def test_a_cache_that_cannot_be_written_changes_nothing(
    path: Path, options: ort_py.SessionOptions, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file stands where the folder should be: one line in the log, and sessions."""
    folder.write_text("")
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        for _ in range(3):
            assert not hit(opened(path, options))
    assert caplog.text.count("no compile cache") == 1


def test_nothing_of_the_model_is_in_a_file_name(options: ort_py.SessionOptions, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "..evil name.onnx"
    write(path, model_bytes(HEADER + "evil (float[N] in) => (float[N] out) { out = Relu(in) }"))
    opened(path, options)
    (entry,) = folder.iterdir()
    assert entry.suffix == ".model"
    assert set(entry.stem) <= set("0123456789abcdef")
    assert not [found for found in cache_use.__dict__ if found == "pickle"]


# -- several processes, and no onnx ----------------------------------------------------------------------------

CHILD = """
import sys, os
import numpy as np
import ort_py
from ort_py.cache.writing import process_queue
from ort_py.graph.weights.accounting import named_weights
options = ort_py.SessionOptions()
options.cache_dir = sys.argv[2]
options.add_session_config_entry("session.model_cache", "1")
session = ort_py.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
result = session.run(None, {"x": np.ones((1, 3), np.float32), "b": np.array(True)})
process_queue().wait()
print(result[0].tolist(), "load" in str(session.load_report), "onnx" in sys.modules, "google.protobuf" in sys.modules)
"""


def child(path: Path, folder: Path) -> subprocess.Popen[str]:
    """A process that makes a session and runs it."""
    command = [sys.executable, "-c", CHILD, str(path), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_restored_session_imports_no_onnx(path: Path, folder: Path) -> None:
    """Nor protobuf: restoring, planning, running control flow, and reporting need neither."""
    first, second = (child(path, folder).communicate()[0].split("]] ")[1].split() for _ in range(2))
    assert first[0] == "True"
    assert second == ["False", "False", "False"]


def test_processes_that_start_at_once_agree(path: Path, folder: Path) -> None:
    """The last writer wins, no process fails, and one whole entry is left."""
    children = [child(path, folder) for _ in range(3)]
    results = {one.communicate()[0].split("]] ")[0] for one in children}
    assert len(results) == 1
    assert [one.returncode for one in children] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 1


@files_may_go
def test_a_cached_session_works_after_its_entry_is_gone(
    path: Path, options: ort_py.SessionOptions, folder: Path
) -> None:
    """Mapped files stay valid until the session releases them."""
    expected = opened(path, options).run(None, FEED)[0]
    session = opened(path, options)
    assert hit(session)
    shutil.rmtree(folder)
    np.testing.assert_array_equal(session.run(None, FEED)[0], expected)
