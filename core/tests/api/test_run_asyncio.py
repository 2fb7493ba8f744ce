"""`run_asyncio`: awaited runs that a cancelled task or a timeout stops between steps."""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import Any

import numpy as np
import pytest

from core.tests.options.test_run_options import LOOP
from core.tests.small_models import RELU, open_model
from ort_py import Fail, InferenceSession, InvalidArgument, RunOptions, RunTimeoutError, SessionOptions

X = np.array([[-1.0, 2.0, -3.0]], np.float32)
ENDLESS: dict[str, Any] = {"n": 10**12, "x": np.ones(4, np.float32)}
SHORT: dict[str, Any] = {"n": 3, "x": np.ones(4, np.float32)}


def looping(threads: int) -> InferenceSession:
    """A session of a loop that runs as long as its feed says."""
    options = SessionOptions()
    options.intra_op_num_threads = threads
    return open_model(LOOP, options)


def frames_out(session: InferenceSession) -> int:
    """Frames of the session that were taken and never came back."""
    assert session.engine.runner is not None
    pool = session.engine.runner.pool
    return sum(frame.thread != 0 for frame in pool._made)


def test_awaited_results() -> None:
    (y,) = asyncio.run(open_model(RELU).run_asyncio(["y"], {"x": X}))
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_the_loop_goes_on_meanwhile() -> None:
    """Other tasks run while a run is awaited."""

    async def main() -> int:
        session, ticks = looping(1), 0
        run = asyncio.create_task(session.run_asyncio(None, {**SHORT, "n": 20_000}))
        while not run.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ticks

    assert asyncio.run(main()) > 3


@pytest.mark.parametrize("threads", [1, 2])
def test_cancelled_task_stops_its_run(threads: int) -> None:
    """Promptly, on one thread too; the session is usable afterwards and has its frames back."""
    session = looping(threads)

    async def main() -> float:
        task = asyncio.create_task(session.run_asyncio(None, ENDLESS))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.monotonic() - start
        assert frames_out(session) == 0
        np.testing.assert_array_equal((await session.run_asyncio(None, SHORT))[0], -np.ones(4))
        return seconds

    assert asyncio.run(main()) < 2
    np.testing.assert_array_equal(session.run(None, SHORT)[0], -np.ones(4))


@pytest.mark.parametrize("threads", [1, 2])
def test_timeout_stops_the_run(threads: int) -> None:
    """A TimeoutError with four parts; the session is usable afterwards and has its frames back."""
    session = looping(threads)

    async def main() -> float:
        start = time.monotonic()
        with pytest.raises(RunTimeoutError, match=r"The run took longer than 0\.05 s") as caught:
            await session.run_asyncio(None, ENDLESS, timeout=0.05)
        seconds = time.monotonic() - start
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, Fail)
        assert caught.value.why
        assert caught.value.fix
        assert frames_out(session) == 0
        return seconds

    assert 0.05 <= asyncio.run(main()) < 2
    assert session.run(None, SHORT)


def test_timeout_of_asyncio_stops_the_run_too() -> None:
    session = looping(1)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await session.run_asyncio(None, ENDLESS)
        assert frames_out(session) == 0

    asyncio.run(main())


def test_run_that_waits_for_a_thread_can_be_cancelled() -> None:
    """It is never begun, and the one before it goes on undisturbed."""
    session = looping(1)

    async def main() -> None:
        first = asyncio.create_task(session.run_asyncio(None, ENDLESS))
        second = asyncio.create_task(session.run_asyncio(None, SHORT))
        await asyncio.sleep(0.05)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not first.done()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(main())


def test_many_awaits_are_bounded() -> None:
    """Three hundred at once: all right, on no more threads than the session has."""
    session = open_model(RELU)

    async def main() -> None:
        feeds = [np.full((1, 3), number, np.float32) for number in range(300)]
        results = await asyncio.gather(*[session.run_asyncio(None, {"x": x}) for x in feeds])
        for x, (y,) in zip(feeds, results, strict=True):
            np.testing.assert_array_equal(x, y)

    asyncio.run(main())
    assert session.engine.runner is not None
    assert len(session.engine.runner.pool._made) <= session._queue.threads


def test_errors_are_raised_by_the_await() -> None:
    """The exceptions of `run`, missing inputs included."""

    async def main() -> None:
        session = open_model(RELU)
        with pytest.raises(InvalidArgument, match="The model has no output 'nope'"):
            await session.run_asyncio(["nope"], {"x": X})
        with pytest.raises(InvalidArgument, match="Required input"):
            await session.run_asyncio(None, {})

    asyncio.run(main())


def test_run_options_are_honoured() -> None:
    """The caller's `terminate` stops the run, and stopping the run does not set the caller's `terminate`."""
    options = RunOptions()
    session = looping(1)

    async def main() -> None:
        with pytest.raises(RunTimeoutError):
            await session.run_asyncio(None, ENDLESS, options, timeout=0.05)
        assert options.terminate is False
        task = asyncio.create_task(session.run_asyncio(None, ENDLESS, options))
        await asyncio.sleep(0.05)
        options.terminate = True
        with pytest.raises(Fail, match="The run was stopped"):
            await task

    asyncio.run(main())


def test_cancelled_run_says_nothing_later(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio complains neither about an exception that was not retrieved nor about a closed loop."""
    session = looping(1)

    async def main() -> None:
        with pytest.raises(RunTimeoutError):
            await session.run_asyncio(None, ENDLESS, timeout=0.01)

    asyncio.run(main(), debug=True)
    session.close()
    assert [record for record in caplog.records if record.name == "asyncio" and record.levelname == "ERROR"] == []


def test_context_variables_reach_the_run() -> None:
    """Hooks and logging filters see the caller's context, as with `asyncio.to_thread`; steps have one of their own."""
    request = contextvars.ContextVar("request", default="")
    seen: list[str] = []

    class Options(RunOptions):
        """Run options that note from where they are read."""

        __slots__ = ()

        @property
        def terminate(self) -> bool:  # type: ignore[override]  # an option can be set, this cannot
            """Never."""
            seen.append(request.get())
            return False

    async def main() -> None:
        request.set("42")
        await open_model(RELU).run_asyncio(None, {"x": X}, Options())

    asyncio.run(main())
    assert seen[0] == "42"
