"""SessionOptions and RunOptions: onnxruntime's defaults, checked values, copies, pickling."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.errors import InvalidArgument, OptionError
from ort_py.options import additions_of, entry_of, without_effect


def test_values_are_kept() -> None:
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = 3
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.intra_op_num_threads == 3
    assert options.graph_optimization_level is ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL


def test_unknown_attribute_names_a_close_one() -> None:
    """A misspelt option is refused with a suggestion."""
    with pytest.raises(AttributeError, match=r"no option 'intra_op_threads'\. Did you mean 'intra_op_num_threads'"):
        ort_py.SessionOptions().intra_op_threads = 2  # type: ignore[attr-defined]  # the mistake under test


def test_unknown_attribute_without_a_close_one() -> None:
    """A name like no other is refused without a guess."""
    with pytest.raises(AttributeError, match=r"RunOptions has no option 'zzz'\.$"):
        ort_py.RunOptions().zzz = 2  # type: ignore[attr-defined]  # the mistake under test


def test_reading_an_unknown_attribute_suggests_too() -> None:
    """Reading is as helpful as setting."""
    with pytest.raises(AttributeError, match="Did you mean 'terminate'"):
        _ = ort_py.RunOptions().terminated  # type: ignore[attr-defined]  # the mistake under test


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("graph_optimization_level", 99),
        ("execution_mode", 0),
        ("execution_order", 1),
        ("intra_op_num_threads", "2"),
        ("intra_op_num_threads", 2.0),
        ("intra_op_num_threads", True),
        ("enable_profiling", 2),
        ("enable_profiling", "1"),
        ("intra_op_num_threads", 1 << 31),
        ("logid", 3),
        ("precision", None),
        ("limits", {}),
        ("disabled_transforms", "FuseRelu"),
    ],
)
def test_wrong_type_is_refused(name: str, value: Any) -> None:
    """A value of another type is a TypeError that names the attribute and the value."""
    with pytest.raises(TypeError, match=rf"SessionOptions\.{name} takes .*, not {value!r} \("):
        setattr(ort_py.SessionOptions(), name, value)


@pytest.mark.parametrize(("name", "value"), [("precision", "float64"), ("strict", "yes"), ("cost_model", "never")])
def test_value_outside_the_choices_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"{name} cannot be '{value}'") as caught:
        setattr(ort_py.SessionOptions(), name, value)
    assert "allowed:" in str(caught.value)


def test_paths_are_accepted() -> None:
    """Options that are paths take path objects, unlike onnxruntime's."""
    options = ort_py.SessionOptions()
    options.optimized_model_filepath = Path("model.onnx")
    assert options.optimized_model_filepath == Path("model.onnx")


def test_constructor_takes_no_arguments() -> None:
    with pytest.raises(TypeError):
        ort_py.SessionOptions(intra_op_num_threads=1)  # type: ignore[call-arg]  # the mistake under test


@pytest.mark.parametrize("kind", [ort_py.SessionOptions, ort_py.RunOptions])
def test_copies_are_independent(kind: type[Any]) -> None:
    """A shallow and a deep copy carry values and entries, and later edits stay apart."""
    options = kind()
    options.logid = "first"
    for copied in (copy.copy(options), copy.deepcopy(options)):
        copied.logid = "second"
        assert (options.logid, copied.logid) == ("first", "second")


def test_copy_keeps_config_entries() -> None:
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "1")
    copied = copy.copy(options)
    copied.add_session_config_entry("session.disable_prepacking", "2")
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert copied.get_session_config_entry("session.disable_prepacking") == "2"


def test_options_can_be_pickled() -> None:
    """Options cross process borders, limits and enumerations included."""
    options = ort_py.SessionOptions()
    options.limits = ort_py.Limits.untrusted()
    options.execution_mode = ort_py.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("session.disable_prepacking", "1")
    twin = pickle.loads(pickle.dumps(options))
    assert (twin.limits, twin.execution_mode) == (options.limits, options.execution_mode)
    assert twin.get_session_config_entry("session.disable_prepacking") == "1"


def test_representation_shows_what_was_changed() -> None:
    """A fresh object is short; a changed one says what was changed."""
    options = ort_py.SessionOptions()
    assert repr(options) == "SessionOptions()"
    options.logid = "mine"
    options.add_session_config_entry("session.disable_prepacking", "1")
    assert repr(options) == "SessionOptions(logid='mine', 'session.disable_prepacking': '1')"


@pytest.mark.parametrize(("key", "value"), [(1, "x"), ("x", 1), (None, "x")])
def test_config_entries_are_strings(key: Any, value: Any) -> None:
    """Anything but strings is a TypeError, as in onnxruntime."""
    with pytest.raises(TypeError, match="Config entries are strings"):
        ort_py.SessionOptions().add_session_config_entry(key, value)


@pytest.mark.parametrize("key", ["", "k" * 1025])
def test_config_keys_have_a_length(key: str) -> None:
    """Empty and endless keys are refused."""
    with pytest.raises(InvalidArgument, match="1 to 1024 characters"):
        ort_py.SessionOptions().add_session_config_entry(key, "x")


def test_absent_config_entry_is_a_runtime_error() -> None:
    """Reading an entry that was not set raises the same exception as onnxruntime."""
    with pytest.raises(RuntimeError, match=r"no config entry 'session\.disable_prepacking'"):
        ort_py.SessionOptions().get_session_config_entry("session.disable_prepacking")


@pytest.mark.parametrize(("value", "kept"), [(1, True), (0, False), (np.True_, True)])
def test_a_flag_takes_what_means_the_same(value: Any, kept: bool) -> None:
    """0 and 1, and NumPy's answers, become plain ones."""
    options = ort_py.SessionOptions()
    options.enable_profiling = value
    assert options.enable_profiling is kept


def test_numbers_of_numpy_are_numbers() -> None:
    """They are kept as plain ones."""
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = np.int64(3)  # type: ignore[assignment]  # what some programs do
    assert type(options.intra_op_num_threads) is int


def test_what_methods_add_is_copied_and_pickled() -> None:
    """Initializers, files, dimensions and providers go along; a copy's additions stay its own."""
    options = ort_py.SessionOptions()
    options.add_initializer("w", ort_py.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32)))
    options.add_external_initializers_from_files_in_memory(["w.bin"], [b"abc"], [2])
    options.add_free_dimension_override_by_name("N", 5)
    for twin in (copy.copy(options), pickle.loads(pickle.dumps(options))):
        added = additions_of(twin)
        assert added.initializers["w"].numpy().tolist() == [1, 1, 1]
        assert (bytes(added.files["w.bin"]), added.dimensions) == (b"ab", {"N": 5})
        twin.add_free_dimension_override_by_name("M", 6)
    assert additions_of(options).dimensions == {"N": 5}
    assert repr(options) == "SessionOptions(1 initializers, 1 files in memory, N=5)"


def test_the_cancellation_flag_is_shared_with_copies() -> None:
    """A session that is being made holds a copy, and must hear of it."""
    options = ort_py.SessionOptions()
    copied = copy.copy(options)
    options.set_load_cancellation_flag(True)
    assert additions_of(copied).load_flag.cancelled


def test_a_misspelt_key_is_refused() -> None:
    """Keys have long beginnings in common, so only close ones are taken for misspellings."""
    with pytest.raises(OptionError, match=r"no session config key 'session\.disable_prepackin'") as caught:
        ort_py.SessionOptions().add_session_config_entry("session.disable_prepackin", "1")
    assert "Did you mean 'session.disable_prepacking'" in caught.value.fix


@pytest.mark.parametrize("key", ["session.mine", "mine"])
def test_an_unknown_key_is_a_warning(key: str) -> None:
    """It is kept, since another library may read it."""
    options = ort_py.SessionOptions()
    with pytest.warns(UserWarning, match=f"no session config key '{key}'; it is ignored"):
        options.add_session_config_entry(key, "1")
    assert entry_of(options, key) == "1"


@pytest.mark.parametrize("key", ["ep.mine.speed", "mlas.mine"])
def test_keys_of_providers_are_theirs(key: str) -> None:
    """Nothing is said about them; warnings are errors here."""
    options = ort_py.SessionOptions()
    options.add_session_config_entry(key, "1")
    assert without_effect(options) == [key]


def test_run_config_entries() -> None:
    """RunOptions have entries of their own."""
    options = ort_py.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "1")
    assert options.get_run_config_entry("gpu_graph_id") == "1"
