"""The three questions about providers that need no session: which are installed, which work here, which exist.

The first reads metadata and imports nothing; the second loads the light plug-ins and probes; the third is a table and
the first. Which ones a session *uses* is the session's own answer.
"""

from __future__ import annotations

from ort_py.contracts import ProviderFactory
from ort_py.discovery.catalog import default_catalog
from ort_py.discovery.known_names import KNOWN_PROVIDERS
from ort_py.discovery.records import CPU_ROLE, ProviderRecord


def get_installed_providers() -> list[str]:
    """Names of the providers that are installed, sorted. From metadata: imports no plug-in, starts no thread."""
    return sorted({record.name for record in default_catalog().installed()})


def get_available_providers() -> list[str]:
    """Names of the providers usable on this machine, in automatic order, CPUExecutionProvider last.

    Behind it stand those that sessions use only where they are named (`ProviderFactory.automatic`).

    Loads the light plug-ins and probes them once a process; imports no vendor package.

    Raises:
        OptionError: ``ORT_PY_PROBE_TIMEOUT`` is malformed.
    """
    return [record.name for record in default_catalog().records() if record.usable]


def get_all_providers() -> list[str]:
    """Every name onnxruntime knows, in its order, and those installed besides; CPUExecutionProvider last."""
    others = [name for name in KNOWN_PROVIDERS if name != CPU_ROLE]
    others.extend(name for name in get_installed_providers() if name not in KNOWN_PROVIDERS)
    return [*others, CPU_ROLE]


def get_provider_records() -> list[ProviderRecord]:
    """Known facts about each provider, with the reason and the original exception if it is not available.

    Raises:
        OptionError: ``ORT_PY_PROBE_TIMEOUT`` is malformed.
    """
    return default_catalog().records()


def register_provider(factory: ProviderFactory) -> ProviderRecord:
    """Add a provider that does not come from a distribution, for tests and notebooks. It lives as long as the process.

    Raises:
        InvalidArgument: `factory` is not a `ProviderFactory`, or its name is taken.
        PluginError: The factory raised, or declares something of a wrong type.
    """
    return default_catalog().register_provider(factory)
