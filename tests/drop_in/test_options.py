"""SessionOptions and RunOptions side by side with onnxruntime: names, defaults, what is taken and what is refused."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.options import config_entries, specs_of, without_effect
from tests.drop_in.both_runtimes import OURS, THEIRS, Case, expect_agreement, expect_difference, model, plain

CPU = ["CPUExecutionProvider"]
RELU = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")


def members(kind: Any) -> tuple[dict[str, Any], set[str]]:
    """Attributes with their defaults, and names of methods."""
    options = kind()
    values = {name: getattr(options, name) for name in dir(kind) if not name.startswith("_")}
    methods = {name for name, value in values.items() if callable(value)}
    return {name: plain(value) for name, value in values.items() if name not in methods}, methods


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_the_table_has_onnxruntimes_attributes_and_defaults(kind: str) -> None:
    """No attribute is missing, none is said to be onnxruntime's without being it, and the defaults agree."""
    wanted, _ = members(getattr(THEIRS, kind))
    specs = specs_of(getattr(OURS, kind))
    assert {spec.onnxruntime_name: plain(spec.default) for spec in specs if spec.onnxruntime_name} == wanted


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_options_show_the_table_and_onnxruntimes_methods_only(kind: str) -> None:
    """`dir` of the class and of an object lists the attributes of the table and onnxruntime's methods."""
    ours = getattr(OURS, kind)
    values, methods = members(ours)
    _, wanted_methods = members(getattr(THEIRS, kind))
    assert values == {spec.name: plain(spec.default) for spec in specs_of(ours)}
    assert methods == wanted_methods
    assert [name for name in dir(ours()) if not name.startswith("_")] == sorted([*values, *methods])


def test_the_backend_interface_allows_what_onnxruntimes_allows() -> None:
    """onnxruntime keeps a list of the options that ONNX's backend interface may set; ours follow from the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it imports `onnx.version`
        backend = importlib.import_module("onnxruntime.backend.backend")
        backend_rep = importlib.import_module("onnxruntime.backend.backend_rep")
    for kind, wanted in (
        (OURS.SessionOptions, backend._ALLOWED_SESSION_OPTIONS),
        (OURS.RunOptions, backend_rep._ALLOWED_RUN_OPTIONS),
    ):
        assert {spec.name for spec in specs_of(kind) if spec.onnxruntime_name and not spec.guarded} == set(wanted)


_OF_OTHER_LIBRARIES = {
    "ep.context_node_name_prefix",
    "ep.share_ep_contexts",
    "ep.stop_share_ep_contexts",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "optimization.enable_memory_probe_recompute_config",
    "optimization.memory_optimizer_config",
    "qnn.htp_perf_mode",
    "qnn.htp_perf_mode_post_run",
    "qnn.lora_config",
    "qnn.rpc_control_latency",
    "session.model_external_initializers_file_folder_path",
}
"""Keys of onnxruntime's headers that its library for x86 does not read: those of providers, of training, of Arm."""


def test_the_table_has_the_config_keys_of_onnxruntimes_library() -> None:
    """Every key that the installed library contains is in the table, and every key that is said to be onnxruntime's is
    in the library."""
    content = Path(THEIRS.capi.onnxruntime_pybind11_state.__file__).read_bytes()
    texts = re.findall(rb"(?<=\0)(?:ep|memory|mlas|optimization|session)\.[a-z][a-z0-9_.]+(?=\0)", content)
    of_providers = re.compile(r"ep\.[a-z]+\.")
    contained = {text.decode() for text in texts if not of_providers.match(text.decode())}
    table = {**config_entries.SESSION_ENTRIES, **config_entries.RUN_ENTRIES}
    assert contained - set(table) == set()
    claimed = {key for key, spec in table.items() if spec.onnxruntime_name}
    assert {key for key in claimed if f"{key}\0".encode() not in content} == _OF_OTHER_LIBRARIES


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
@pytest.mark.parametrize(("given", "named"), [((1,), {}), ((), {"logid": "x"})])
def test_constructors_take_nothing(kind: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    expect_agreement(lambda runtime: getattr(runtime, kind)(*given, **named))


# -- attributes ----------------------------------------------------------------------------------------------------

SET: dict[str, tuple[str, Any]] = {
    "number": ("intra_op_num_threads", 3),
    "negative number": ("intra_op_num_threads", -3),
    "number of NumPy": ("intra_op_num_threads", np.int64(2)),
    "number of 41 bits": ("intra_op_num_threads", 1 << 40),
    "number as text": ("intra_op_num_threads", "2"),
    "number as float": ("intra_op_num_threads", 2.0),
    "flag": ("enable_profiling", True),
    "flag as number": ("enable_profiling", 1),
    "flag of NumPy": ("enable_profiling", np.True_),
    "flag as text": ("enable_profiling", "yes"),
    "severity": ("log_severity_level", 77),
    "text": ("logid", "mine"),
    "text as bytes": ("logid", b"mine"),
    "text None": ("logid", None),
    "path": ("optimized_model_filepath", "a.onnx"),
    "path as bytes": ("optimized_model_filepath", b"a.onnx"),
    "prefix as bytes": ("profile_file_prefix", b"abc"),
    "prefix a number": ("profile_file_prefix", 3),
    "level as number": ("graph_optimization_level", 99),
    "mode as number": ("execution_mode", 0),
    "order as number": ("execution_order", 1),
    "unknown": ("fast", True),
    "flag None": ("enable_profiling", None),
    "number as flag": ("intra_op_num_threads", True),
    "path object": ("optimized_model_filepath", Path("a.onnx")),
}
SET_OTHERWISE: dict[str, tuple[Any, str]] = {
    "flag None": (TypeError, "None is no answer to yes or no"),
    "number as flag": (TypeError, "a mistake worth naming"),
    "path object": ("PosixPath", "where a path is meant, a path is taken"),
}


def sets(name: str, value: Any) -> Case:
    """A case that sets an attribute and reads it."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        setattr(options, name, value)
        return getattr(options, name)

    return case


@pytest.mark.parametrize("name", sorted(set(SET) - set(SET_OTHERWISE)))
def test_attributes_take_and_refuse_alike(name: str) -> None:
    """A value is kept in the same form, or refused by the same class."""
    expect_agreement(sets(*SET[name]))


@pytest.mark.parametrize("name", sorted(set(SET_OTHERWISE) - {"path object"}))
def test_attributes_that_refuse_more(name: str) -> None:
    """Values that onnxruntime takes for something else are refused."""
    expect_difference(sets(*SET[name]), SET_OTHERWISE[name][0])


def test_attributes_that_are_paths_take_paths() -> None:
    assert sets(*SET["path object"])(OURS) == Path("a.onnx")


def test_a_session_copies_its_options() -> None:
    """Later edits have no effect, and what the session gives is another object."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.logid = "before"
        session = runtime.InferenceSession(RELU, options, providers=CPU)
        options.logid = "after"
        found = session.get_session_options()
        return found.logid, found is options

    expect_agreement(case)


# -- config entries ------------------------------------------------------------------------------------------------

LONG = "session.disable_prepacking"
ENTRIES: dict[str, tuple[Any, Any]] = {
    "plain": (LONG, "1"),
    "long value": (LONG, "v" * 5000),
    "empty value": (LONG, ""),
    "bytes": (LONG.encode(), b"1"),
    "empty key": ("", ""),
    "long key": ("k" * 1025, "1"),
    "number as key": (1, "1"),
    "number as value": (LONG, 1),
}


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize("kind", ["session", "run"])
def test_entries_are_taken_and_refused_alike(name: str, kind: str) -> None:
    """Keys and values are texts, keys have a length, and a later value counts."""
    key, value = ENTRIES[name]

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions() if kind == "session" else runtime.RunOptions()
        add, get = getattr(options, f"add_{kind}_config_entry"), getattr(options, f"get_{kind}_config_entry")
        if isinstance(key, str) and 0 < len(key) < 1024:
            add(key, "before")
        add(key, value)
        return get(key)

    expect_agreement(case)


@pytest.mark.parametrize("kind", ["session", "run"])
def test_an_absent_entry_is_refused_alike(kind: str) -> None:
    """Reading what was never set raises."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions() if kind == "session" else runtime.RunOptions()
        return getattr(options, f"get_{kind}_config_entry")("nothing")

    expect_agreement(case)


SESSION_ENTRIES: list[tuple[str, str]] = [
    ("session.load_model_format", "ORT"),
    ("session.load_model_format", "ONNX"),
    ("session.load_model_format", "xyz"),
    ("session.disable_cpu_ep_fallback", "1"),
    ("session.disable_cpu_ep_fallback", "0"),
    ("session.disable_cpu_ep_fallback", "yes"),
    ("ep.context_enable", "1"),
    ("ep.context_enable", "yes"),
    ("session.intra_op_thread_affinities", "bad"),
    ("session.intra_op_thread_affinities", ""),
    ("session.set_denormal_as_zero", "1"),
    ("session.disable_prepacking", "x"),
    ("session.use_env_allocators", "1"),
    ("session.strict_shape_type_inference", "1"),
    ("session.save_model_format", "xyz"),
    ("session.dynamic_block_base", "x"),
    ("session.dynamic_block_base", "4"),
    ("session.qdq_matmulnbits_accuracy_level", "4"),
    ("session.qdq_matmulnbits_accuracy_level", "9"),
    ("session.intra_op.allow_spinning", "0"),
    ("session.inter_op.allow_spinning", "x"),
    ("session.force_spinning_stop", "1"),
    ("session.disable_quant_qdq", "1"),
    ("session.use_ort_model_bytes_directly", "1"),
    ("session.record_ep_graph_assignment_info", "1"),
    ("session.use_device_allocator_for_initializers", "1"),
    ("session.graph_optimizations_loop_level", "1"),
    ("optimization.disable_specified_optimizers", "Nope;ConstantFolding"),
    ("optimization.constant_folding_max_output_size_in_bytes", "x"),
    ("optimization.minimal_build_optimizations", "x"),
    ("optimization.enable_gelu_approximation", "1"),
    ("session.optimized_model_external_initializers_min_size_in_bytes", "x"),
]


@pytest.mark.parametrize(("key", "value"), SESSION_ENTRIES)
def test_sessions_take_and_refuse_entries_alike(key: str, value: str) -> None:
    """A value without effect is accepted by both, one that contradicts the model or the machine by neither."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.add_session_config_entry(key, value)
        session = runtime.InferenceSession(RELU, options, providers=CPU)
        return session.run(None, {"x": np.ones((1, 3), np.float32)})

    with contextlib.redirect_stdout(io.StringIO()):  # onnxruntime prints a banner where it raises a RuntimeError
        expect_agreement(case)


@pytest.mark.parametrize(("threads", "groups"), [(3, "1;1"), (3, "1"), (2, "1"), (3, "1-2;1,2"), (3, "1;")])
def test_thread_affinities_are_checked_alike(threads: int, groups: str) -> None:
    """A group of processors for each thread but the first."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op_thread_affinities", groups)
        return runtime.InferenceSession(RELU, options, providers=CPU).get_providers()

    with contextlib.redirect_stdout(io.StringIO()):  # as above
        expect_agreement(case)


def test_forbidding_the_cpu_without_naming_it() -> None:
    """Nodes that end on the CPU make the session fail."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        return runtime.InferenceSession(RELU, options)

    expect_agreement(case)


def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(ort_py.OptionError, match=r"Did you mean 'session\.disable_prepacking'"):
        ort_py.SessionOptions().add_session_config_entry("session.disable_prepackin", "1")


def test_an_unknown_key_is_told_once() -> None:
    options = ort_py.SessionOptions()
    with pytest.warns(UserWarning, match=r"no session config key 'mine\.own'; it is ignored"):
        options.add_session_config_entry("mine.own", "1")
    assert options.get_session_config_entry("mine.own") == "1"


@pytest.mark.parametrize("key", ["session.disable_prepackin", "mine.own"])
def test_compatibility_mode_takes_every_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silently, as onnxruntime does; warnings are errors in these tests."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.add_session_config_entry(key, "1")
        return options.get_session_config_entry(key)

    expect_agreement(case)


def test_entries_without_effect_are_reported() -> None:
    """Those that onnxruntime honours and ort-py does not stand in the load report's notes."""
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    assert without_effect(options) == ["session.disable_prepacking"]


# -- run entries ---------------------------------------------------------------------------------------------------

RUN_ENTRIES: list[tuple[str, str]] = [
    ("memory.enable_memory_arena_shrinkage", "cpu:0"),
    ("memory.enable_memory_arena_shrinkage", "gpu:0"),
    ("memory.enable_memory_arena_shrinkage", "cpu:0;gpu:0"),
    ("memory.enable_memory_arena_shrinkage", "bad"),
    ("memory.enable_memory_arena_shrinkage", ""),
    ("gpu_graph_id", "1"),
    ("gpu_graph_id", "-1"),
    ("gpu_graph_id", "x"),
    ("disable_synchronize_execution_providers", "1"),
]


@pytest.mark.parametrize(("key", "value"), RUN_ENTRIES)
def test_runs_take_and_refuse_entries_alike(key: str, value: str) -> None:
    """Values are looked at when the model runs."""

    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        options.add_run_config_entry(key, value)
        return runtime.InferenceSession(RELU, providers=CPU).run(None, {"x": np.ones((1, 3), np.float32)}, options)

    expect_agreement(case)


@pytest.mark.parametrize("terminate", [True, False])
def test_terminated_runs_fail_alike(terminate: bool) -> None:
    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        options.terminate = terminate
        return runtime.InferenceSession(RELU, providers=CPU).run(None, {"x": np.ones((1, 3), np.float32)}, options)

    expect_agreement(case)


# -- callbacks -----------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Any], Any]] = {
    "no library": lambda options: options.register_custom_ops_library("/nowhere/lib.so"),
    "library a number": lambda options: options.register_custom_ops_library(3),
    "context function": lambda options: options.set_ep_context_data_read_func(lambda name, buffer: None, 100),
    "context no function": lambda options: options.set_ep_context_data_read_func(3, 100),
    "context None": lambda options: options.set_ep_context_data_read_func(None, 100),
    "context no bytes": lambda options: options.set_ep_context_data_read_func(lambda name, buffer: None, 0),
    "context fewer bytes": lambda options: options.set_ep_context_data_read_func(lambda name, buffer: None, -1),
    "context cleared": lambda options: options.clear_ep_context_data_read_func(),
    "context without bytes": lambda options: options.set_ep_context_data_read_func(print),
    "context by another name": lambda options: options.set_ep_context_data_read_func(print, max_size=5),
    "context half a byte": lambda options: options.set_ep_context_data_read_func(print, 1.5),
    "context bytes as text": lambda options: options.set_ep_context_data_read_func(print, "5"),
    "context most bytes": lambda options: options.set_ep_context_data_read_func(print, (1 << 64) - 2),
    "context every byte": lambda options: options.set_ep_context_data_read_func(print, (1 << 64) - 1),
    "context more bytes": lambda options: options.set_ep_context_data_read_func(print, 1 << 64),
    "context twice": lambda options: [options.set_ep_context_data_read_func(print, 5) for _ in range(2)],
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_methods_take_and_refuse_alike(name: str) -> None:
    """Arguments are checked when a method is called."""
    expect_agreement(lambda runtime: CALLS[name](runtime.SessionOptions()))


def test_functions_for_compiled_models_are_for_compiled_models() -> None:
    """A model without compiled parts never calls them."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.set_ep_context_data_read_func(lambda *_: 1 // 0, 5)
        results = [runtime.InferenceSession(RELU, options, providers=CPU).run(None, {"x": np.ones((1, 3), np.float32)})]
        options.clear_ep_context_data_read_func()
        options.clear_ep_context_data_read_func()
        return [
            *results,
            runtime.InferenceSession(RELU, options, providers=CPU).run(None, {"x": np.ones((1, 3), np.float32)}),
        ]

    expect_agreement(case)


def test_a_native_library_of_operators_is_refused(tmp_path: Path) -> None:
    """onnxruntime would load it; the error says what to do instead."""
    library = tmp_path / "library.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(ort_py.Fail, match="cannot be loaded") as caught:
        ort_py.SessionOptions().register_custom_ops_library(library)
    assert "plug-in" in caught.value.fix
