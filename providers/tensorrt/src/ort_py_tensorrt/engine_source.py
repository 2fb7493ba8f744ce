"""The source of the engines of one region: the cache, or a build, now or in the background.

Comes after `engine_cache` and `jobs`; before `region`, which loads what it gets here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

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
_running: dict[str, threading.Thread] = {}


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

    def last_profile(self) -> Profile | None:
        """Return the profile that the region's last engine in the cache was built for; None if there is none."""
        return None if self.key is None else self.cache.last_profile(self.key)

    def find(self, profile: Profile) -> bytes | None:
        """Return an engine from the cache."""
        return None if self.key is None else self.cache.engine(self.key, profile)

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

    def begin(self, profile: Profile) -> None:
        """Build an engine for the cache on a thread, unless one already does."""
        assert self.key is not None, "engines that are not kept are not built in the background"
        name = self.key.of(profile)
        with _lock.held():
            if name not in _running:
                _running[name] = threading.Thread(target=self._build, args=(name, profile), daemon=True)
                _running[name].start()

    def _build(self, name: str, profile: Profile) -> None:
        try:
            self.obtain(profile)
        except EPFail as error:
            _logger.warning("an engine that was built in the background failed: %s", error)
        finally:
            with _lock.held():
                _running.pop(name, None)


def background_builds() -> list[threading.Thread]:
    """Return the threads that build engines now; for programs that wait for them."""
    with _lock.held():
        return list(_running.values())


def _log_step(phase: str, step: int, steps: int) -> None:
    _logger.debug("%s: step %s of %s", phase, step, steps)
