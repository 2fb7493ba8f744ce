"""The provider that fills the CPU role of a session: at most one native engine, whatever is installed.

Two engines in one session have two pools of threads that compete for the same cores, and installing the second one
would change the numbers and the speed of sessions that did not ask for it. So the best ranked usable engine fills the
role alone, and an engine that the user names fills it in its place. Two share a session where the user names both,
where `tune` has measured that this is faster, or where one says that it assists others with operators that they lack.

Comes before `selection`, which asks for each provider. Creates nothing and knows no provider by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any

from ort_py.discovery.records import CPU_ROLE, ProviderRecord
from ort_py.hooks.guard import Raised, guarded
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

logger = lazy_logger(__name__)


@dataclass(slots=True)
class CpuRole:
    """The CPU role of one session while its providers are selected.

    Attributes:
        beside: Names of providers that share the role with the one that fills it.
        engines: Names of the providers that fill the role, in the order in which they were found.
    """

    beside: frozenset[str] = frozenset()
    engines: list[str] = field(default_factory=list)

    def named(self, record: ProviderRecord, options: Mapping[str, Any]) -> None:
        """Let a provider that the user names fill the role, if it does with these options."""
        if record.name not in self.engines and fills_cpu_role(record, options):
            self.engines.append(record.name)

    def takes(self, record: ProviderRecord, options: Mapping[str, Any]) -> bool:
        """Return whether a provider that was not named joins the session for the role. Called in the order of rank."""
        if not fills_cpu_role(record, options) or (self.engines and record.name not in self.beside):
            return False
        if record.name not in self.engines:
            self.engines.append(record.name)
        return True


def fills_cpu_role(record: ProviderRecord, options: Mapping[str, Any]) -> bool:
    """Return whether a provider made with these options computes on the CPU in place of the last-resort provider."""
    if record.stands_in_for != CPU_ROLE or record.factory is None:
        return False
    answer = guarded(partial(record.factory.fills_role, options))
    if isinstance(answer, Raised):
        logger.warning("fills_role() of %s raised %s; it is treated as a CPU provider", record.name, answer)
        return True
    return bool(answer)


def assistance(record: ProviderRecord) -> Mapping[str, Any] | None:
    """Options with which a provider assists the one that fills the CPU role; None where it does not."""
    factory = record.factory
    if factory is None:
        return None
    answer = guarded(lambda: factory.assisting_options)
    if isinstance(answer, Raised):
        logger.warning("assisting_options of %s raised %s; it assists nobody", record.name, answer)
        return None
    return answer
