"""`benchmarks.soak`: how the slope is found, what a round does, and what the exit status says."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace

import pytest

from benchmarks import soak
from benchmarks.soak_work import MADE, Soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")

_MIB = 1 << 20


def _samples(resident: list[float]) -> list[soak.Sample]:
    return [soak.Sample(10.0 * place, round(size * _MIB)) for place, size in enumerate(resident)]


def test_the_slope_of_a_line() -> None:
    """Two MiB more every ten seconds are twelve a minute."""
    assert soak.slope(_samples([100 + 2 * place for place in range(20)])) == pytest.approx(12)


def test_a_peak_is_no_slope() -> None:
    """A few high samples do not move it."""
    assert soak.slope(_samples([100.0] * 10 + [500.0] + [100.0] * 10)) == 0
    assert soak.slope(_samples([100.0])) == 0


def test_a_round_does_everything() -> None:
    """Sessions, runs, threads, bound outputs, and errors where errors are due."""
    work = Soak([MADE])
    work.round()
    work.close()
    assert work.counts == {"sessions": 1, "runs": 8, "threads": 2, "bound": 2, "errors": 8, "refused": 1}


@pytest.mark.parametrize(("growth", "status"), [(0, 0), (_MIB, 1)])
def test_growth_is_the_exit_status(
    growth: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that grows by a MiB each sample, and one that does not."""
    sizes: Iterator[int] = (100 * _MIB + growth * number for number in count())
    monkeypatch.setattr(soak, "resident_bytes", lambda: next(sizes))
    seconds = count(step=0.05)  # a busy machine could spend all of the time on one round
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    arguments = [MADE, "--minutes", "0.02", "--every", "0.05"]
    assert soak.main(arguments) == status
    assert f"memory {'grows' if status else 'is flat'}" in capsys.readouterr().out


def test_it_sleeps_for_its_share() -> None:
    """With a duty of a tenth, a tenth of the time is work."""
    worked: Counter[str] = Counter()

    def work() -> None:
        begun = time.monotonic()
        time.sleep(0.01)
        worked["ms"] += round((time.monotonic() - begun) * 1000)

    soak.soak(work, 0.6, 0.1, 0.1, Counter())
    assert worked["ms"] < 300
