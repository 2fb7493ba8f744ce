"""Sessions with providers that fail to order, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import HostProvider, model_of
from ort_py.contracts import Availability, IExecutionProvider, ProviderFactory, SessionContext
from ort_py.discovery import default_catalog
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory
from ort_py_kit.faults import Faults, FaultyFactory

__all__ = ["FAULTY", "HOST", "TEXT", "HostFactory", "counted_plans", "expected", "faulty_session"]

FAULTY, HOST = "FaultyExecutionProvider", "HostExecutionProvider"

TEXT = "g (float[n, 3] x) => (float[n, 3] y) { a = Neg(x) b = Add(a, a) y = Abs(b) }"


class HostFactory(ProviderFactory):
    """A provider on the host that runs what the fake device can."""

    def __init__(self, name: str = HOST) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def probe(self) -> Availability:
        return Availability(True)

    def create(self, options: Any, context: SessionContext) -> IExecutionProvider:
        return HostProvider(name=self._name)


@contextmanager
def faulty_session(
    faults: Faults,
    text: str = TEXT,
    *,
    device: FakeFactory | None = None,
    compiles: bool = False,
    others: tuple[str, ...] = (HOST,),
    entries: dict[str, str] | None = None,
    **keywords: Any,
) -> Iterator[ort_py.InferenceSession]:
    """A session with a provider that has faults in front of others on the host.

    Args:
        faults: Its faults.
        text: The model.
        device: What it computes with; a fake device where None and it compiles regions, else the host.
        compiles: It compiles regions.
        others: The providers after it.
        entries: Config entries.
        **keywords: Of the session, or ``strict``.
    """
    catalog = default_catalog()
    catalog.reset()
    inner = device or (FakeFactory(behaviour=FakeBehaviour(compiles=True)) if compiles else HostFactory())
    catalog.register_provider(FaultyFactory(inner, faults, FAULTY))
    for name in others:
        catalog.register_provider(HostFactory(name))
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.strict = keywords.pop("strict", None)
    for key, value in {"session.fallback_retry_seconds": "0", **(entries or {})}.items():
        options.add_session_config_entry(key, value)
    model = model_of(text).SerializeToString()
    try:
        with ort_py.InferenceSession(model, options, [FAULTY, *others], **keywords) as session:
            yield session
    finally:
        catalog.reset()
        process_lost_devices().forget()


def expected(x: np.ndarray[Any, Any]) -> Any:
    """The expected result of `TEXT`."""
    return np.abs(-x - x)


def counted_plans(session: ort_py.InferenceSession, patch: pytest.MonkeyPatch) -> list[set[str]]:
    """The providers left out of each plan that the session makes from now on."""
    plans: list[set[str]] = []
    original = session.engine.plan_again

    def plan_again(left_out: set[str]) -> Any:
        plans.append(left_out)
        return original(left_out)

    patch.setattr(session.engine, "plan_again", plan_again)
    return plans
