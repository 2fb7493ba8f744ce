"""Rates of providers on this machine, in the cache's folder: one small file a provider, read when sessions are made.

Between `engine` and `partition`, which prices placements with them. `calibration` measures and writes them. The
core's own figures count for a provider whose file is missing or does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ort_py.cache.artifacts import artifact_key
from ort_py.cache.circumstances import machine
from ort_py.cache.format import description_of
from ort_py.cache.store import CacheStore
from ort_py.contracts import IExecutionProvider
from ort_py.discovery import ProviderRecord
from ort_py.partition.rates import Calibration, Rates

_KIND = "rates"


def read_calibration(
    store: CacheStore | None, pairs: Iterable[tuple[ProviderRecord, IExecutionProvider]], threads: int
) -> Calibration:
    """Read the measurements of some providers.

    Args:
        store: The folder; None for nowhere.
        threads: Threads of a run: they decide how fast the host is.
    """
    found: dict[str, Rates] = {}
    for record, provider in pairs if store is not None and store.exists else ():
        content = store.read(_key(record, provider, threads), _KIND) if store is not None else None
        if content is None:
            continue
        try:
            data = json.loads(description_of(content)[0])
        except ValueError:
            continue
        rates = Rates.of(data) if isinstance(data, Mapping) else None
        if rates is not None:
            found[provider.name] = rates
    return Calibration(found)


def write_rates(
    store: CacheStore, record: ProviderRecord, provider: IExecutionProvider, threads: int, rates: Rates
) -> bool:
    """Remember what was measured; returns whether it is there."""
    data = {"title": provider.name, **rates.to_json()}
    return store.put(_key(record, provider, threads), _KIND, json.dumps(data).encode())


def _key(record: ProviderRecord, provider: IExecutionProvider, threads: int) -> str:
    return artifact_key(["rates", machine(), record.address, record.version, str(provider.device), str(threads)])
