"""Engines on disk: what makes a hit, what makes a miss, and that damage is a miss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from ort_py.contracts import SessionContext
from ort_py.errors import EPFail
from ort_py_tensorrt import engine_source
from ort_py_tensorrt.engine_cache import EngineCache, open_cache, region_key
from ort_py_tensorrt.engine_source import EngineSource, background_builds
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import model_of
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import RTX, TENSORRT
from providers.tensorrt.tests.asking import region_of, rtx_wishes
from providers.tensorrt.tests.models import mlp

PROFILE = Profile.of(["x"], [(4, 32)])


class _Library:
    """A module with a version."""

    ILogger = object
    __version__ = "1.7.1"


@pytest.fixture
def kit() -> Toolkit:
    """A library of which nothing but the version matters."""
    made = Toolkit.__new__(Toolkit)
    made.variant, made.module, made.detailed = RTX, _Library(), False
    return made


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Requests for which an engine was built."""
    found: list[Request] = []

    def build(request: Request, **_options: Any) -> tuple[bytes, None]:
        found.append(request)
        return f"engine {len(found)}".encode(), None

    monkeypatch.setattr(engine_source, "run_build", build)
    return found


def _source(
    kit: Toolkit, folder: Path, model: onnx.ModelProto | None = None, capability: int = 0, **given: Any
) -> EngineSource:
    wishes = rtx_wishes(context=SessionContext(cache_folder=str(folder)), **given)
    region = model_of(region_of(model or mlp()))
    cache = open_cache(kit, wishes)
    return EngineSource(kit, region, region_key(kit, region, wishes, capability), cache, wishes, 0, capability)


def test_the_next_session_finds_the_engine(kit: Toolkit, tmp_path: Path, built: list[Request]) -> None:
    assert _source(kit, tmp_path).obtain(PROFILE) == b"engine 1"
    assert _source(kit, tmp_path).obtain(PROFILE) == b"engine 1"
    assert len(built) == 1


def test_other_weights_structures_shapes_options_and_devices_are_misses(
    kit: Toolkit, tmp_path: Path, built: list[Request]
) -> None:
    _source(kit, tmp_path).obtain(PROFILE)
    _source(kit, tmp_path, mlp(seed=8)).obtain(PROFILE)
    renamed = mlp()
    renamed.graph.node[1].op_type = "Sigmoid"
    _source(kit, tmp_path, renamed).obtain(PROFILE)
    _source(kit, tmp_path).obtain(PROFILE.widened([(9, 32)]))
    _source(kit, tmp_path, use_tf32=True).obtain(PROFILE)
    _source(kit, tmp_path, capability=86).obtain(PROFILE)
    assert len(built) == 6


def test_another_version_of_the_library_is_a_miss(
    kit: Toolkit, tmp_path: Path, built: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    _source(kit, tmp_path).obtain(PROFILE)
    monkeypatch.setattr(_Library, "__version__", "1.7.2")
    _source(kit, tmp_path).obtain(PROFILE)
    assert len(built) == 2


def test_limits_of_time_and_the_like_do_not_matter(kit: Toolkit, tmp_path: Path, built: list[Request]) -> None:
    _source(kit, tmp_path).obtain(PROFILE)
    _source(kit, tmp_path, build_seconds=5.0, max_rebuilds=1, claim_small=True).obtain(PROFILE)
    assert len(built) == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_damaged_engine_is_a_miss(
    damage: str, kit: Toolkit, tmp_path: Path, built: list[Request], caplog: pytest.LogCaptureFixture
) -> None:
    source = _source(kit, tmp_path)
    source.obtain(PROFILE)
    assert source.key is not None
    (file,) = tmp_path.rglob(f"{source.key.of(PROFILE)}*")
    content = file.read_bytes()
    changed = {"flip": content[:-1] + bytes([content[-1] ^ 1]), "cut": content[:-3], "empty": b"", "other": b"x" * 90}
    file.write_bytes(changed[damage])
    assert _source(kit, tmp_path).obtain(PROFILE) == b"engine 2"
    assert "is damaged and was ignored" in caplog.text
    assert _source(kit, tmp_path).obtain(PROFILE) == b"engine 2"


def test_the_last_profile_is_found_again(kit: Toolkit, tmp_path: Path, built: list[Request]) -> None:
    """So that the next process does not build for each shape what this one has built for all."""
    wide = PROFILE.widened([(9, 32)])
    source = _source(kit, tmp_path)
    assert source.last_profile() is None
    source.obtain(PROFILE)
    source.obtain(wide)
    assert _source(kit, tmp_path).last_profile() == wide


@pytest.mark.parametrize("given", [{"nv_engine_cache_enable": False}, {"context": SessionContext(caches=False)}])
def test_nothing_is_written_where_nothing_is_to_be_kept(given: dict[str, Any], kit: Toolkit, tmp_path: Path) -> None:
    context = given.get("context", SessionContext(cache_folder=str(tmp_path)))
    options = {name: value for name, value in given.items() if name != "context"}
    assert not open_cache(kit, rtx_wishes(context=context, **options)).keeps
    assert not list(tmp_path.iterdir())


def test_a_folder_can_be_named(kit: Toolkit, tmp_path: Path) -> None:
    cache = open_cache(kit, rtx_wishes(nv_engine_cache_path=str(tmp_path / "mine")))
    assert cache.keeps
    assert (tmp_path / "mine").is_dir()


def test_times_are_kept_for_the_library_that_measures(kit: Toolkit, tmp_path: Path) -> None:
    context = SessionContext(cache_folder=str(tmp_path))
    assert open_cache(kit, rtx_wishes(context=context)).times(kit, 90) is None
    kit.variant = TENSORRT
    cache = open_cache(kit, rtx_wishes(TENSORRT, context))
    assert cache.times(kit, 90) == b""
    cache.put_times(kit, 90, b"measured")
    assert open_cache(kit, rtx_wishes(TENSORRT, context)).times(kit, 90) == b"measured"
    assert cache.times(kit, 80) == b""


def test_a_build_in_the_background_fills_the_cache(kit: Toolkit, tmp_path: Path, built: list[Request]) -> None:
    source = _source(kit, tmp_path)
    source.begin(PROFILE)
    for thread in background_builds():
        thread.join()
    assert source.find(PROFILE) == b"engine 1"
    assert not background_builds()


def test_a_build_in_the_background_that_fails_is_logged(
    kit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def build(request: Request, **_options: Any) -> tuple[bytes, None]:
        raise EPFail("no engine")

    monkeypatch.setattr(engine_source, "run_build", build)
    source = _source(kit, tmp_path)
    source.begin(PROFILE)
    for thread in background_builds():
        thread.join()
    assert "failed: no engine" in caplog.text
    assert source.find(PROFILE) is None


def test_a_cache_that_keeps_nothing_builds_each_time(kit: Toolkit, tmp_path: Path, built: list[Request]) -> None:
    source = replace(_source(kit, tmp_path), key=None, cache=EngineCache(None))
    assert [source.obtain(PROFILE), source.obtain(PROFILE)] == [b"engine 1", b"engine 2"]
    assert not list(tmp_path.rglob("*.code"))
