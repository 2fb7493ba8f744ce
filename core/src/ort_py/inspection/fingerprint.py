"""A session's identity in twelve letters: equal on every machine of a fleet that would run the same.

Model, versions, providers with their options, the session's options and the plan each have a part, so that two that
differ say where. Computed from an engine at the first request; knows no runs.
"""

from __future__ import annotations

import functools
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.engine.engine import Engine
from ort_py.hashing import blake2b
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions, additions_of, changed_values, entries_of, specs_of
from ort_py.options.config_entries import effect_of
from ort_py.options.spec import Effect
from ort_py.planning.plan import ExecutionPlan, KernelStep, RegionStep, Step, SubgraphKernelStep

if TYPE_CHECKING:
    from ort_py.discovery import ProviderRecord


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """A short hash and the facts that it is made of.

    Attributes:
        parts: Text by name: ``model``, ``ort-py-core``, ``numpy``, ``python``, ``machine``, ``options``, ``plan``, and
            ``provider NAME`` for each provider.
    """

    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Twelve hexadecimal letters."""
        return _hash([json.dumps(sorted(self.parts.items()))], 6)

    def to_json(self) -> dict[str, Any]:
        """Hash and parts in the types that JSON has."""
        return {"digest": self.digest, "parts": dict(self.parts)}

    def differences(self, other: Fingerprint) -> dict[str, tuple[str, str]]:
        """(here, there) of each part that is not the same; ``""`` where one has no such part."""
        pairs = {name: (self.parts.get(name, ""), other.parts.get(name, "")) for name in {**self.parts, **other.parts}}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def __str__(self) -> str:
        return self.digest

    def __repr__(self) -> str:
        return f"<Fingerprint {self.digest}: {', '.join(f'{name} {text}' for name, text in self.parts.items())}>"

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Fingerprint) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)


def fingerprint_of(engine: Engine, plan: ExecutionPlan) -> Fingerprint:
    providers = engine.providers
    return Fingerprint(
        {
            "model": str(engine.description.fingerprint)[:16],
            "ort-py-core": sys.modules["ort_py"].__version__,  # what was imported, installed or not
            "numpy": np.__version__,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "machine": f"{platform.system()} {platform.machine()}",
            **{
                f"provider {record.name}": _provider(record, providers.options)
                for record in providers.records
                if record.name not in providers.dropped
            },
            "options": _options(engine.options),
            "plan": _hash(_lines(plan), 6),
        }
    )


def _provider(record: ProviderRecord, options: Mapping[str, Mapping[str, str]]) -> str:
    given = options.get(record.name, {})
    words = [f"{record.distribution or 'registered'} {record.version}".strip()]
    return " ".join([*words, *(f"{key}={value}" for key, value in sorted(given.items()))])


def _options(options: SessionOptions) -> str:
    effects = {spec.name: spec.effect for spec in specs_of(SessionOptions)}
    values = {name: value for name, value in changed_values(options).items() if effects[name] is Effect.PROGRAM}
    values |= {key: value for key, value in entries_of(options).items() if effect_of(key) is Effect.PROGRAM}
    found = [f"{name}={_text(value)}" for name, value in sorted(values.items())]
    added = additions_of(options)
    found += [f"{key}={value}" for key, value in sorted({**added.dimensions, **added.denotations}.items())]
    found += [f"initializer {name}" for name in sorted({**added.initializers, **added.external_initializers})]
    return " ".join(found) or "defaults"


def _text(value: Any) -> str:
    """A value without what changes from process to process: the order of sets, the numbers of enumerations' names."""
    if isinstance(value, set | frozenset | list | tuple):
        return ",".join(sorted(map(str, value)))
    return str(getattr(value, "name", value))


def _lines(plan: ExecutionPlan) -> Iterator[str]:
    pending = [("plan", plan)]
    while pending:
        role, current = pending.pop()
        yield f"{role} {len(current.template)}"
        for step in current.steps:
            where = step.location
            yield f"{where.domain}:{where.op_type} {step.provider} {_implementation(step)} {step.inputs} {step.outputs}"
            pending.extend((role, body.plan) for role, body in step.bodies)


def _implementation(step: Step) -> str:
    if isinstance(step, RegionStep):
        return f"{_name_of(type(step.region))} of {step.node_count}"
    if isinstance(step, KernelStep | SubgraphKernelStep):
        return _name_of(step.call)
    return type(step).__name__


def _name_of(call: Callable[..., Any]) -> str:
    """A callable's name, without parts that differ between processes."""
    while isinstance(call, functools.partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    if owner is not None and not isinstance(owner, type | type(sys)):
        return f"{type(owner).__module__}.{type(owner).__qualname__}.{getattr(call, '__name__', '')}"
    name = getattr(call, "__qualname__", None) or getattr(call, "__name__", None)
    if name is None:
        call = type(call)
        name = call.__qualname__
    return f"{getattr(call, '__module__', None) or ''}.{name}"


def _hash(lines: Iterable[str], size: int) -> str:
    found = blake2b(digest_size=size)
    for line in lines:
        found.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()
