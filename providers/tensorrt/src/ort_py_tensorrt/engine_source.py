"""The source of the engines of one region: the cache, or a build, now or in the background.

Comes after `engine_cache` and `jobs`; before `region`, which loads what it gets here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any
from weakref import WeakValueDictionary

from ort_py.contracts import RegionNotReady
from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py.platform.forks import ProcessLock
from ort_py_tensorrt.engine_cache import EngineCache, EngineKey
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.jobs import run_build
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.wishes import Wishes
from ort_py_tensorrt.workers import Worker

__all__ = ["EngineSource", "background_builds"]

_logger = logging.getLogger("ort_py_tensorrt.building")
_lock = ProcessLock()
_builds: WeakValueDictionary[str, BackgroundBuild] = WeakValueDictionary()


class BackgroundBuild:
    """One build on a thread. It lives for as long as a session waits for it, and holds the engine until then.

    Attributes:
        engine: The engine, once it is built.
        thread: The thread.
    """

    def __init__(self, source: EngineSource, profile: Profile) -> None:
        self.engine: bytes | None = None
        self._error: Exception | None = None
        self.thread = threading.Thread(target=self._build, args=(source, profile), daemon=True)

    def ready(self) -> bool:
        """Return whether the engine can be had.

        Raises:
            Exception: It could not be built.
        """
        over = self.over
        if self._error is not None:
            raise self._error
        if over and self.engine is None:
            raise EPFail("The process was forked while an engine was built.", fix="Make sessions after forking.")
        return self.engine is not None

    @property
    def over(self) -> bool:
        """True if it failed or succeeded, or if this is a process that was forked meanwhile."""
        return not self.thread.is_alive()

    def _build(self, source: EngineSource, profile: Profile) -> None:
        try:
            self.engine = source.obtain(profile)
        except Exception as error:  # reported where a session asks
            self._error = error
            _logger.warning("an engine that was built in the background failed: %s", error)


@dataclass(slots=True)
class Rebuilds:
    """Builds of one region's engine for other shapes. Runs that want the same shapes want one build.

    Attributes:
        profiles: The shapes.
    """

    profiles: set[Profile] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Number of builds."""
        return len(self.profiles)

    def admit(self, profile: Profile, most: int) -> bool:
        """Count a build, unless it is counted already; returns False if it would be one too many."""
        if profile not in self.profiles:
            if len(self.profiles) >= most:
                return False
            self.profiles.add(profile)
        return True


@dataclass(slots=True)
class EngineSource:
    """Engines of one region.

    Attributes:
        toolkit: The library.
        model: The region, in the precision that it is computed in.
        key: What its engines depend on; None if they are not kept.
        cache: Engines on disk.
        wishes: The options.
        device: Number of the GPU.
        capability: Its compute capability, times 10.
        held: What keeps the weights readable.
        resting: Returns a process that is there already, for the next build.
        rebuilds: Number of builds for other shapes so far, of all regions that the session made of these nodes.
    """

    toolkit: Toolkit
    model: RegionModel
    key: EngineKey | None
    cache: EngineCache
    wishes: Wishes
    device: int
    capability: int
    held: tuple[Any, ...] = ()
    resting: Callable[[], Worker | None] = lambda: None
    rebuilds: Rebuilds = field(default_factory=Rebuilds)

    @property
    def weights(self) -> RegionModel | None:
        """The region, if engines are built without its weights."""
        return self.model if self.wishes.build.stripped else None

    def last_profile(self) -> Profile | None:
        """Return the profile that the region's last engine in the cache was built for; None if there is none."""
        return None if self.key is None else self.cache.last_profile(self.key)

    def find(self, profile: Profile) -> bytes | None:
        """Return an engine that was built before: from the cache, or from a build that has just ended."""
        if self.key is None:
            return None
        with _lock.held():
            build = _builds.get(self.key.of(profile))
        return self.cache.engine(self.key, profile) or (None if build is None else build.engine)

    def obtain(self, profile: Profile, check: Callable[[], None] | None = None) -> bytes:
        """Return an engine from the cache, or build it.

        Args:
            profile: Shapes of the inputs.
            check: Raises if nobody waits for the engine any longer.

        Raises:
            EPFail: None can be built, or not in the time that is allowed.
            Exception: As `check`.
        """
        found = self.find(profile)
        if found is not None:
            return found
        start = time.monotonic()
        engine, times = run_build(
            Request(
                self.toolkit.variant.provider,
                self.model,
                profile,
                self.wishes.build,
                self.wishes.detailed_log,
                self.cache.times(self.toolkit, self.capability),
            ),
            device=None if self.toolkit.variant.compiles_ahead else self.device,
            limit=self.wishes.build_seconds,
            check=check,
            step=_log_step,
            resting=self.resting,
        )
        _logger.info("built an engine of %s bytes in %.1f s", len(engine), time.monotonic() - start)
        if self.key is not None:
            self.cache.put_engine(self.key, profile, engine)
        if times is not None:
            self.cache.put_times(self.toolkit, self.capability, times)
        return engine

    def engine(self, profile: Profile, check: Callable[[], None] | None = None) -> bytes:
        """Return an engine: one that was built before, or one that is built now unless that is done in the background.

        Args:
            profile: Shapes of the inputs.
            check: As for `obtain`.

        Raises:
            RegionNotReady: It is being built in the background.
            Exception: As `obtain`.
        """
        if not self.wishes.background:
            return self.obtain(profile, check)
        found = self.find(profile)
        if found is None:
            raise self.begin(profile)
        return found

    def begin(self, profile: Profile) -> RegionNotReady:
        """Build an engine on a thread, unless one already does.

        Returns:
            The error that says so.
        """
        assert self.key is not None, "engines that are not kept are not built in the background"
        name = self.key.of(profile)
        with _lock.held():
            build = _builds.get(name)
            if build is None or (build.over and build.engine is None):
                build = _builds[name] = BackgroundBuild(self, profile)
                build.thread.start()
        return RegionNotReady(
            "An engine is being built in the background.",
            why="build_in_background is set, and the cache has none",
            fix="Let the next provider run the region until it is built, or make the session then.",
            ready=build.ready,
        )


def background_builds() -> list[threading.Thread]:
    """Return the threads that build engines now; for programs that wait for them."""
    with _lock.held():
        return [build.thread for build in _builds.values() if not build.over]


def _log_step(phase: str, step: int, steps: int) -> None:
    _logger.debug("%s: step %s of %s", phase, step, steps)
