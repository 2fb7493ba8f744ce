"""Lists of C calls: order, the first failure, and the loop in Python where memory may not be executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ort_py.errors import EPFail
from ort_py_onednn.binding import calls
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import CallList, Repeated

Make = Callable[..., CallList]


@pytest.fixture(params=["machine code", "Python"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Lists of both kinds."""
    if request.param == "Python":
        monkeypatch.setattr(calls, "native_loop", lambda: 0)
    return CallList


def _recorder(seen: list[tuple[int, ...]], status: int = 0) -> Any:
    def function(a: int, b: int, c: int, d: int) -> int:
        seen.append((a, b, c, d))
        return status

    return ffi.callback("int (intptr_t, intptr_t, intptr_t, intptr_t)", function)


def test_calls_are_made_in_order_with_their_arguments(make: Make) -> None:
    """Four arguments each; those not given are 0."""
    seen: list[tuple[int, ...]] = []
    function = _recorder(seen)
    make([(function, (1, 2, 3, 4), True), (function, (5,), True)], ["a", "b"]).run()
    assert seen == [(1, 2, 3, 4), (5, 0, 0, 0)]


def test_an_argument_may_be_changed(make: Make) -> None:
    seen: list[tuple[int, ...]] = []
    listed = make([(_recorder(seen), (1, 2), True)], ["a"])
    listed.words[CallList.place(0, 1)] = 7
    listed.run()
    assert seen == [(1, 7, 0, 0)]


def test_calls_are_repeated_with_arguments_that_grow(make: Make) -> None:
    """Some of them, forwards or backwards; what follows is made once."""
    seen: list[tuple[int, ...]] = []
    function = _recorder(seen)
    again = Repeated([(function, (1, 10), True), (function, (9,), True)], 3, {(0, 1): 5, (1, 0): -2})
    assert len(again) == 6
    make([again, (function, (4,), True)], ["again", "once"]).run()
    assert seen[::2] == [(1, 10, 0, 0), (1, 15, 0, 0), (1, 20, 0, 0), (4, 0, 0, 0)]
    assert seen[1::2] == [(9, 0, 0, 0), (7, 0, 0, 0), (5, 0, 0, 0)]


def test_a_failure_behind_what_is_repeated_is_named(make: Make) -> None:
    """Names are those of the calls, however many records come before."""
    again = Repeated([(_recorder([]), (), True)], 4)
    with pytest.raises(EPFail, match="failed for last"):
        make([again, (_recorder([], 2), (), True)], ["again", "last"]).run()


def test_the_first_failure_ends_it_and_is_named(make: Make) -> None:
    """Status 2 of the second call: the third is not made, and a later run is judged again."""
    seen: list[tuple[int, ...]] = []
    good, bad = _recorder(seen), _recorder(seen, 2)
    listed = make([(good, (1,), True), (bad, (2,), True), (good, (3,), True)], ["one", "two", "three"])
    for _ in range(2):
        seen.clear()
        with pytest.raises(EPFail, match=r"failed for two: status 2 \(invalid_arguments\)"):
            listed.run()
        assert [call[0] for call in seen] == [1, 2]


def test_out_of_memory_is_a_memory_error(make: Make) -> None:
    """The core then trims and runs once more."""
    with pytest.raises(MemoryError, match="out_of_memory"):
        make([(_recorder([], 1), (), True)], ["one"]).run()


def test_what_a_call_without_status_returns_does_not_matter(make: Make) -> None:
    seen: list[tuple[int, ...]] = []
    make([(_recorder(seen, 5), (), False), (_recorder(seen), (), True)], ["one", "two"]).run()
    assert len(seen) == 2


def test_the_machine_code_is_what_the_comments_say() -> None:
    """Its jumps: to the end, to the failure, back to the loop."""
    code = calls._LOOP
    assert code[0x0E] == 0x74
    assert 0x10 + code[0x0F] == len(code) - 2
    assert code[0x25] == 0x75
    assert 0x27 + code[0x26] == 0x2D
    assert code[0x2B] == 0xEB
    assert 0x2D + code[0x2C] - 256 == 0x08


def test_watched_calls_are_the_same_calls(make: Make) -> None:
    """The check is made before each; a later run without it makes all calls, too."""
    seen: list[Any] = []
    function = _recorder(seen)
    listed = make([(function, (1,), True), Repeated([(function, (2,), True)], 2)], ["a", "b"])
    listed.run_watched(lambda: seen.append("check"))
    assert seen == ["check", (1, 0, 0, 0), "check", (2, 0, 0, 0), "check", (2, 0, 0, 0)]
    seen.clear()
    listed.run()
    assert seen == [(1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 0, 0)]


@pytest.mark.parametrize(("bound", "checks"), [(float("inf"), 1), (0.0, 3)])
def test_a_short_list_is_made_in_one_go(make: Make, monkeypatch: pytest.MonkeyPatch, bound: float, checks: int) -> None:
    """The first watched run measures; where it was short, the next ones look at the clock once."""
    monkeypatch.setattr("ort_py_onednn.binding.calls._SHORT", bound)
    seen: list[Any] = []
    listed = make([(_recorder(seen), (number,), True) for number in range(3)], ["a", "b", "c"])
    listed.run_watched(lambda: None)
    seen.clear()
    listed.run_watched(lambda: seen.append("check"))
    assert seen.count("check") == checks
    assert [one for one in seen if one != "check"] == [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]


def test_a_check_that_raises_ends_the_calls(make: Make) -> None:
    """Those that follow are not made, and the list is as it was."""
    seen: list[Any] = []
    listed = make([(_recorder(seen), (number,), True) for number in range(3)], ["a", "b", "c"])

    def time_check() -> None:
        if len(seen) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        listed.run_watched(time_check)
    assert seen == [(0, 0, 0, 0), (1, 0, 0, 0)]
    listed.run()
    assert len(seen) == 5


def test_a_watched_call_that_fails_is_named(make: Make) -> None:
    """The error names the call, as in other runs."""
    seen: list[Any] = []
    listed = make([(_recorder(seen), (), True), (_recorder(seen, 3), (), True)], ["good", "bad"])
    with pytest.raises(EPFail, match="bad"):
        listed.run_watched(lambda: None)
    assert len(seen) == 2
