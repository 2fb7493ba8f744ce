"""Checks of config entries: keys when they are set, values when they are used."""

from __future__ import annotations

import re

import pytest

from ort_py.errors import Fail, InvalidArgument, OptionError, OrtPyError, UsageError
from ort_py.options.config_checks import check_key, check_run_entries, check_session_entries
from ort_py.options.config_entries import RUN_ENTRIES, SESSION_ENTRIES, effect_of
from ort_py.options.spec import Effect


@pytest.mark.parametrize("scope", ["session", "run"])
def test_every_key_of_the_table_is_accepted(scope: str) -> None:
    """For either kind of options, since programs set keys of one on the other; warnings are errors here."""
    for key in (*SESSION_ENTRIES, *RUN_ENTRIES):
        check_key(key, scope)


@pytest.mark.parametrize(
    ("key", "scope", "meant"),
    [("session.model_cach", "session", "session.model_cache"), ("gpu_graph_ids", "run", "gpu_graph_id")],
)
def test_a_misspelt_key_is_refused(key: str, scope: str, meant: str) -> None:
    """The error names what was probably meant."""
    with pytest.raises(OptionError, match=re.escape(f"There is no {scope} config key '{key}'")) as caught:
        check_key(key, scope)
    assert f"Did you mean '{meant}'?" in caught.value.fix


def test_compatibility_mode_accepts_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports neither an error nor a warning, like onnxruntime."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    check_key("session.model_cach", "session")
    check_key("mine", "session")


def test_an_unknown_key_has_no_effect() -> None:
    """Nor has a known one that ort-py ignores."""
    assert effect_of("mine") is effect_of("session.disable_prepacking") is Effect.NONE
    assert effect_of("session.fast_math") is Effect.PROGRAM
    assert effect_of("memory.enable_memory_arena_shrinkage") is Effect.RUNS


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        ("session.dynamic_block_base", "x", OptionError),
        ("session.qdq_matmulnbits_accuracy_level", "5", Fail),
        ("session.qdq_matmulnbits_accuracy_level", "", Fail),
        ("session.fast_math", "yes", InvalidArgument),
        ("optimization.minimal_build_optimizations", "x", InvalidArgument),
        ("session.intra_op_thread_affinities", "1;", UsageError),
    ],
)
def test_values_that_a_session_cannot_accept(key: str, value: str, refusal: type[OrtPyError]) -> None:
    """Each is refused with onnxruntime's class of error, and the message says what the key takes."""
    with pytest.raises(refusal, match=re.escape(f"The config entry '{key}' is {value!r}")) as caught:
        check_session_entries({key: value}, 1)
    assert f"it takes {SESSION_ENTRIES[key].title}" in caught.value.why


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session.dynamic_block_base", " -4"),
        ("session.qdq_matmulnbits_accuracy_level", " 4 "),
        ("session.fast_math", "1"),
        ("optimization.minimal_build_optimizations", ""),
        ("session.intra_op_thread_affinities", "1-2; 3,4-5"),
        ("session.disable_cpu_ep_fallback", "yes"),
        ("unknown", "anything"),
    ],
)
def test_values_that_a_session_accepts(key: str, value: str) -> None:
    """Those in the form of the key, and any value of a key without a form."""
    check_session_entries({key: value}, 3)


def test_affinities_are_as_many_as_threads() -> None:
    """Less one: the first thread is the caller's."""
    with pytest.raises(UsageError, match=r"session\.intra_op_thread_affinities") as caught:
        check_session_entries({"session.intra_op_thread_affinities": "1;2"}, 4)
    assert caught.value.why == ("it needs 3 groups, one for each of the 4 threads except the first",)


@pytest.mark.parametrize(
    ("value", "shrinks"), [("cpu:0", True), ("gpu:0;cpu:0", True), (";cpu:1;;", True), ("", False), (";", False)]
)
def test_devices_whose_memory_is_given_back(value: str, shrinks: bool) -> None:
    """The host has to be among them, where there are any."""
    assert check_run_entries({"memory.enable_memory_arena_shrinkage": value}) is shrinks


@pytest.mark.parametrize("value", ["gpu:0", "cpu", "cpu:0cpu:1", "npu:0", "cpu:x"])
def test_devices_that_cannot_give_memory_back(value: str) -> None:
    """Malformed ones, and those whose memory is not kept here."""
    with pytest.raises(InvalidArgument, match=r"memory\.enable_memory_arena_shrinkage"):
        check_run_entries({"memory.enable_memory_arena_shrinkage": value})


@pytest.mark.parametrize(("value", "right"), [("1", True), (" -1", True), ("x", False), ("1.5", False)])
def test_the_number_of_a_recorded_graph(value: str, right: bool) -> None:
    """It has no effect and is checked nevertheless, as onnxruntime does."""
    if right:
        assert check_run_entries({"gpu_graph_id": value}) is False
        return
    with pytest.raises(InvalidArgument, match="gpu_graph_id"):
        check_run_entries({"gpu_graph_id": value})
