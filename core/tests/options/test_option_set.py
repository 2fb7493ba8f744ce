"""Options as descriptors: documentation, completion, types, overlays, and what the engine asks of options."""

from __future__ import annotations

import copy
import math
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.errors import OptionError
from ort_py.options import (
    calculates_fast,
    changed_values,
    entries_of,
    entry_of,
    is_on,
    overlay_of,
    reuses_memory,
    specs_of,
    values_of,
    with_adapters,
    without_effect,
)
from ort_py.options.option_set import Option, OptionSet
from ort_py.options.spec import FLAG, NUMBER, TEXT, Effect, one_of

KINDS = [ort_py.SessionOptions, ort_py.RunOptions]


class Example(OptionSet):
    """Options of a test."""

    __slots__ = ()

    level = Option(NUMBER, 3, "How much.", effect=Effect.PROGRAM)
    ignored = Option(FLAG, False, "Nothing.", effect=Effect.NONE)
    color = Option(one_of("red", "green").optional(), None, "Which.", effect=Effect.RUNS, own=True, since="0.2.0")


@pytest.mark.parametrize("kind", KINDS)
def test_help_explains_every_option(kind: type[OptionSet]) -> None:
    """`help(SessionOptions)` has the text, type and default of each."""
    page = pydoc.plain(pydoc.render_doc(kind))
    joined = " ".join(page.replace("|", " ").split())
    for spec in specs_of(kind):
        assert " ".join(spec.documentation().split()) in joined
        assert getattr(kind, spec.name).__doc__ == spec.documentation()


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_documented_in_sentences(kind: type[OptionSet]) -> None:
    """A text that begins with a capital and ends with a full stop."""
    for spec in specs_of(kind):
        assert spec.help[0].isupper() or spec.help[0] == "`", spec.name
        assert spec.help.endswith("."), spec.name


def test_an_option_of_a_class_is_its_description() -> None:
    """Reading it from the class gives the descriptor, which says type and default."""
    assert repr(Example.level) == "<option level: int = 3>"
    assert Example.level.spec.onnxruntime_name == "level"
    assert (Example.color.spec.onnxruntime_name, Example.color.spec.since) == (None, "0.2.0")
    assert Example.color.__doc__ == (
        "Which.\n\nstr or None, None by default; one of None, 'red', 'green'; an option of ort-py."
    )
    assert Example.ignored.__doc__ == "Nothing.\n\nbool, False by default; without effect here; as in onnxruntime."


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_values_that_may_be_set(kind: type[OptionSet]) -> None:
    """Setting each option to its default is accepted and changes nothing."""
    options = kind()
    for spec in specs_of(kind):
        setattr(options, spec.name, spec.default)
    assert changed_values(options) == {}


def test_a_subclass_adds_to_the_options_of_its_base() -> None:
    class More(Example):
        __slots__ = ()

        title = Option(TEXT, "", "A title.", effect=Effect.RUNS)

    assert [spec.name for spec in specs_of(More)] == ["level", "ignored", "color", "title"]
    assert [spec.name for spec in specs_of(Example)] == ["level", "ignored", "color"]
    options = More()
    options.level, options.title = 4, "x"
    assert changed_values(options) == {"level": 4, "title": "x"}


@pytest.mark.parametrize("name", ["add_initializer", "_values", "__doc__"])
def test_what_is_no_option_cannot_be_set(name: str) -> None:
    """Methods and private attributes are refused like unknown options."""
    with pytest.raises(AttributeError, match=f"SessionOptions has no option '{name}'"):
        setattr(ort_py.SessionOptions(), name, 1)


@pytest.mark.parametrize("value", [-0.1, 1.5, math.nan, math.inf])
def test_a_share_out_of_bounds_leaves_the_option_as_it_was(value: float) -> None:
    """It is refused before it is kept."""
    options = ort_py.SessionOptions()
    options.verify = 0.5
    with pytest.raises(OptionError, match=r"SessionOptions\.verify is"):
        options.verify = value
    assert options.verify == 0.5


def test_a_negative_axis_leaves_the_option_as_it_was() -> None:
    """It is refused before it is kept."""
    options = ort_py.RunOptions()
    options.batch_axis = 1
    with pytest.raises(OptionError, match=r"RunOptions\.batch_axis cannot be -1"):
        options.batch_axis = -1
    assert options.batch_axis == 1


def test_a_number_of_numpy_may_be_an_axis() -> None:
    """It is kept as a plain one."""
    options = ort_py.RunOptions()
    setattr(options, "batch_axis", np.int64(2))  # noqa: B010 - a plain assignment is an error for mypy
    assert type(options.batch_axis) is int


def test_the_limit_of_memory_is_a_field_of_the_limits() -> None:
    """Setting either is seen in the other; other limits stay."""
    options = ort_py.SessionOptions()
    options.limits = ort_py.Limits(run_seconds=3.0)
    options.memory_limit_bytes = 5 << 40
    assert options.limits == ort_py.Limits(run_seconds=3.0, total_memory_bytes=5 << 40)
    options.limits = ort_py.Limits()
    assert options.memory_limit_bytes is None
    assert "memory_limit_bytes" not in values_of(options)


def test_a_limit_of_memory_is_checked() -> None:
    """By the limits; the value stays as it was."""
    options = ort_py.SessionOptions()
    with pytest.raises(OptionError, match="total_memory_bytes is 0"):
        options.memory_limit_bytes = 0
    assert options.memory_limit_bytes is None


def test_what_was_set_and_has_no_effect_is_named() -> None:
    """Attributes whose value is not the default, and config entries, unknown ones included."""
    options = ort_py.SessionOptions()
    options.enable_mem_pattern = False
    options.logid = "mine"
    options.use_per_session_threads = True
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.model_cache", "0")
    options.add_session_config_entry("ep.mine", "1")
    assert without_effect(options) == ["logid", "session.disable_prepacking", "ep.mine"]
    assert without_effect(ort_py.RunOptions()) == []


def test_entries_are_asked_by_key() -> None:
    """With a default; `"0"` and the empty text are off."""
    options = ort_py.SessionOptions()
    assert (entry_of(options, "session.model_cache"), entry_of(options, "session.model_cache", "1")) == ("", "1")
    for value, on in (("1", True), ("0", False), ("", False), ("yes", True)):
        options.add_session_config_entry("session.model_cache", value)
        assert is_on(options, "session.model_cache") is on
    entries_of(options)["session.placement"] = "order"
    assert entries_of(options) == {"session.model_cache": "yes"}


@pytest.mark.parametrize(("attribute", "entry", "fast"), [(True, "0", True), (False, "1", True), (False, "0", False)])
def test_fast_math_has_two_names(attribute: bool, entry: str, fast: bool) -> None:
    options = ort_py.SessionOptions()
    options.fast_math = attribute
    options.add_session_config_entry("session.fast_math", entry)
    assert calculates_fast(options) is fast


def test_memory_is_reused_where_both_options_allow_it() -> None:
    """One alone has no effect, as in onnxruntime."""
    options = ort_py.SessionOptions()
    assert reuses_memory(options)
    options.enable_mem_reuse = False
    assert not reuses_memory(options)


# -- overlays ------------------------------------------------------------------------------------------------------


def test_an_overlay_shows_the_options_below() -> None:
    """They are read when needed: the caller may set `terminate` while the run is under way."""
    below = ort_py.RunOptions()
    overlay = overlay_of(below)
    below.logid = "later"
    below.add_run_config_entry("gpu_graph_id", "1")
    assert (overlay.logid, overlay.get_run_config_entry("gpu_graph_id")) == ("later", "1")
    below.terminate = True
    assert overlay.terminate


def test_an_overlay_leaves_the_options_below_as_they_are() -> None:
    """A value that is set here wins here and does not change the options below."""
    below = ort_py.RunOptions()
    overlay = overlay_of(below)
    overlay.terminate = True
    below.terminate = False
    assert (overlay.terminate, below.terminate) == (True, False)


def test_an_overlay_has_the_adapters_below() -> None:
    below = ort_py.RunOptions()
    below.add_active_adapter(ort_py.LoraAdapter())
    feed: dict[str, Any] = {"x": 1}
    assert with_adapters(overlay_of(below), feed) == feed
    assert with_adapters(ort_py.RunOptions(), feed) is feed


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_overlay_stands_alone(twin_of: Any) -> None:
    """It has the values of both, and later edits below do not reach it."""
    below = ort_py.RunOptions()
    below.logid = "before"
    overlay = overlay_of(below)
    overlay.terminate = True
    twin = twin_of(overlay)
    below.logid = "after"
    assert (twin.logid, twin.terminate) == ("before", True)


def test_an_overlay_of_nothing_has_the_defaults() -> None:
    """So a run without options can be stopped as well."""
    overlay = overlay_of(None)
    overlay.terminate = True
    assert (overlay.terminate, ort_py.RunOptions().terminate) == (True, False)
