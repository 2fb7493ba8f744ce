"""Engines on disk: found again by the next session and process that asks for the same.

The name of a file is a hash of all that an engine depends on: the region, its weights, the profile, the options it is
built with, the version of the library, and the GPU. Files hold the library's own bytes behind a checksum; nothing is
unpickled. A damaged file is a miss. The files are those of ort-py-cuda's cache, in a folder of their own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code.cache import CodeCache, code_key, default_folder
from ort_py_tensorrt.parsing import Verdict
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.wishes import Wishes

__all__ = ["EngineCache", "EngineKey", "open_cache", "region_key"]

CAPACITY = 8 << 30
"""Bytes that all engines of a folder may take."""


@dataclass(frozen=True, slots=True)
class EngineKey:
    """A region, and everything but shapes that its engines depend on."""

    text: str

    def of(self, profile: Profile) -> str:
        """Return the name of the engine for a profile."""
        return code_key([self.text, "engine", json.dumps(profile.to_json())])

    @property
    def profile(self) -> str:
        """Name of the record of the profile that was built last."""
        return code_key([self.text, "profile"])


def region_key(toolkit: Toolkit, model: RegionModel, wishes: Wishes, capability: int) -> EngineKey:
    """Return the key of a region. Reads every weight once, at some 1 GB/s; building takes much longer.

    Args:
        toolkit: The library.
        model: The region, in the precision that it is computed in.
        wishes: The options.
        capability: Compute capability of the GPU, times 10; 0 if the engine is not for one.
    """
    digest = hashlib.blake2b(digest_size=32)
    for name, array in model.weights.items():
        digest.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        digest.update(array.reshape(-1).view("u1").data)
    return EngineKey(
        code_key(
            [
                toolkit.variant.module,
                toolkit.version,
                str(capability),
                json.dumps(asdict(wishes.build), sort_keys=True),
                hashlib.blake2b(model.proto.SerializeToString(deterministic=True)).hexdigest(),
                digest.hexdigest(),
            ]
        )
    )


class EngineCache:
    """Engines, profiles, answers of the parser and times of kernels of one library.

    Args:
        folder: Folder of the engines; None for a cache that keeps nothing.
        timing: Folder of the times; None if they are not kept.
    """

    def __init__(self, folder: Path | None, timing: Path | None = None) -> None:
        self._engines = CodeCache(folder, CAPACITY)
        self._times = CodeCache(timing)

    @property
    def keeps(self) -> bool:
        """True if engines are kept."""
        return self._engines.usable

    def engine(self, key: EngineKey, profile: Profile) -> bytes | None:
        """Return an engine, or None if there is none or it is damaged."""
        return self._engines.get(key.of(profile))

    def put_engine(self, key: EngineKey, profile: Profile, engine: bytes) -> None:
        """Keep an engine, and its profile as the last one of the region."""
        if self._engines.put(key.of(profile), engine):
            self._engines.put(key.profile, json.dumps(profile.to_json()).encode())

    def last_profile(self, key: EngineKey) -> Profile | None:
        """Return the profile of the region's last engine, or None if there is none."""
        found = self._engines.get(key.profile)
        return None if found is None else Profile.from_json(json.loads(found))

    def verdict(self, key: str) -> Verdict | None:
        """Return what the parser answered, or None if it is not known."""
        found = self._engines.get(key)
        return None if found is None else Verdict.from_json(json.loads(found))

    def put_verdict(self, key: str, verdict: Verdict) -> None:
        """Keep what the parser answered."""
        self._engines.put(key, json.dumps(verdict.to_json()).encode())

    def times(self, toolkit: Toolkit, capability: int) -> bytes | None:
        """Return times of kernels on a GPU: empty if there are none yet, None if they are not kept."""
        if not self._times.usable:
            return None
        return self._times.get(_times_key(toolkit, capability)) or b""

    def put_times(self, toolkit: Toolkit, capability: int, times: bytes) -> None:
        """Keep times of kernels."""
        self._times.put(_times_key(toolkit, capability), times)


def open_cache(toolkit: Toolkit, wishes: Wishes) -> EngineCache:
    """Return the cache that a session's options name."""
    standard: Path | None
    if wishes.cuda.cache_folder is not None:
        standard = Path(wishes.cuda.cache_folder)
    else:
        environment = default_folder()
        standard = None if environment is None else environment.parent
    folder = Path(wishes.cache_folder) if wishes.cache_folder else standard and standard / toolkit.variant.module
    times = Path(wishes.timing_folder) if wishes.timing_folder else folder
    return EngineCache(
        folder if wishes.caches else None,
        times if wishes.timing and not toolkit.variant.compiles_ahead else None,
    )


def _times_key(toolkit: Toolkit, capability: int) -> str:
    return code_key([toolkit.variant.module, toolkit.version, str(capability), "times"])
