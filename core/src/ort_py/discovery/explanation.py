"""The explanation of a session's providers: every provider that was considered, taken or not, with the reason.

Comes after `selection`, whose answer it explains; it decides nothing. Taken providers come first, in the order in which
they are asked for nodes, then the others by rank, then what was asked for and is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.discovery.records import CPU_ROLE, ProviderRecord
from ort_py.discovery.selection import Origin, Selected, Selection
from ort_py.lazy_dataclass import dataclass

_TAKEN = {
    Origin.NAMED: "asked for by name",
    Origin.AUTOMATIC: "usable here, and the choice was left to ort-py",
    Origin.STAND_IN: "fills the role of {role}: it runs the nodes that it runs faster, and {role} runs the rest",
    Origin.COMPLETION: "not requested: it runs the nodes that the other providers do not run",
}


@dataclass(frozen=True, slots=True)
class ConsideredProvider:
    """One provider, taken or not.

    Attributes:
        name: The provider's name, or what was asked for where nothing has it.
        place: Its place among those that are taken, from 1 on; 0 where it is not.
        fix: Advice, where the provider could be used after it is followed.
        state: Its state on this machine; ``"not installed"`` where nothing has the name.
        requested_as: The name it was asked for by: a role, where it stands in for one.
        device_class: Class of its best device, ``""`` where its plug-in was not loaded.
        origin: Distribution, version and folder.
    """

    name: str
    taken: bool
    place: int
    why: str
    fix: str = ""
    state: str = ""
    requested_as: str = ""
    device_class: str = ""
    rank: int = 0
    origin: str = ""


@dataclass(frozen=True, slots=True)
class SelectionExplanation:
    """An account of how providers were selected.

    Attributes:
        mode: ``"automatic"``: the choice was left to ort-py; ``"preferred"``: some were named, and may be skipped;
            ``"required"``: some were named, and strict mode forbids to skip one.
        source: Origin of the wish: the argument, the options, a policy, the environment, or nowhere.
        strict: ``""``, ``"provider"`` or ``"node"``.
        compat: Whether onnxruntime's leniency is on.
        considered: Every provider, in rank order; see the module.
        error: Why no session can be made; ``""`` where one can.
    """

    mode: str
    source: str
    strict: str
    compat: bool
    considered: tuple[ConsideredProvider, ...]
    error: str = ""

    @property
    def taken(self) -> list[str]:
        """Names of the providers that are used, in order."""
        return [one.name for one in self.considered if one.taken]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "mode": self.mode,
            "source": self.source,
            "strict": self.strict,
            "compat": self.compat,
            "taken": self.taken,
            "considered": [asdict(one) for one in self.considered],
            "error": self.error,
        }

    def __str__(self) -> str:
        switches = [f"strict: {self.strict}"] * bool(self.strict) + ["onnxruntime's leniency"] * self.compat
        lines = [f"{self.mode}, by {self.source}" + (f" ({', '.join(switches)})" if switches else "")]
        for one in self.considered:
            mark = f"{one.place:2d}." if one.taken else " - "
            kind = ", ".join(
                text for text in (one.device_class, f"rank {one.rank}" if one.device_class else "") if text
            )
            lines.append(f"{mark} {one.name}{f' ({kind})' if kind else ''}: {one.why.rstrip('.')}")
            if one.fix:
                lines.append(f"      what to do: {one.fix}")
        if self.error:
            lines.append(f"no session can be created: {self.error}")
        return "\n".join(lines)


def explained(
    records: Sequence[ProviderRecord],
    selection: Selection | None,
    *,
    source: str,
    named: bool,
    strict: str,
    compat: bool,
    pin_plain_cpu: bool,
    fallbacks: Iterable[FallbackRecord] = (),
    error: str = "",
) -> SelectionExplanation:
    """Put an answer of `select_providers` into words.

    Args:
        records: All providers, in rank order.
        selection: The result; None if there is only an error.
        pin_plain_cpu: CPUExecutionProvider means that provider itself.
        fallbacks: Records of providers that were selected and could not be created.
        error: Reason why there is no result.
    """
    chosen = selection.selected if selection is not None else ()
    dropped = {record.provider: record.reason for record in fallbacks if record.kind == "initialisation"}
    skipped = {record.provider: record.reason for record in (selection.fallbacks if selection is not None else ())}
    in_reserve = why_in_reserve(selection) if selection is not None else {}
    considered = [_taken(place, one) for place, one in enumerate(_created(chosen, dropped), 1)]
    taken = {one.record.address for one in _created(chosen, dropped)}
    for record in records:
        if record.address not in taken:
            why = dropped.get(record.name) or in_reserve.get(record.address)
            why = why or _why_not(record, named=named and not error, plain_cpu=pin_plain_cpu)
            considered.append(_entry(record, False, 0, why, "" if record.usable else record.fix))
    known = {name for record in records for name in (record.name, record.address)}
    considered += [
        ConsideredProvider(name, False, 0, reason, state="not installed", requested_as=name)
        for name, reason in skipped.items()
        if name not in known
    ]
    mode = "automatic" if not named else "required" if strict else "preferred"
    return SelectionExplanation(mode, source, strict, compat, tuple(considered), error)


def why_in_reserve(selection: Selection) -> dict[str, str]:
    """The reason why each provider of the reserve is left out, by its address."""
    filled = " and ".join(selection.cpu_engines)
    why = (
        f"{filled} fills the role of {CPU_ROLE}; a session has one native CPU engine, unless it names two or tune() "
        "measured that both are faster"
    )
    return {one.record.address: why for one in selection.reserve}


def _created(chosen: Sequence[Selected], dropped: Iterable[str]) -> list[Selected]:
    left_out = set(dropped)
    return [one for one in chosen if one.record.name not in left_out]


def _taken(place: int, one: Selected) -> ConsideredProvider:
    return _entry(one.record, True, place, _TAKEN[one.origin].format(role=one.requested_as), "", one.requested_as)


def _why_not(record: ProviderRecord, *, named: bool, plain_cpu: bool) -> str:
    if not record.usable:
        return f"it is {record.state.value}: {record.reason}"
    if record.stands_in_for == CPU_ROLE and plain_cpu:
        return f"the session option pin_cpu reserves the role for the plain {CPU_ROLE}"
    if not record.automatic:
        return "it is used only where it is named"
    return "it was not asked for" if named else "nothing could be selected"


def _entry(
    record: ProviderRecord, taken: bool, place: int, why: str, fix: str, requested_as: str = ""
) -> ConsideredProvider:
    kind = record.device_class.value if record.device_class is not None else ""
    return ConsideredProvider(
        record.name, taken, place, why, fix, record.state.value, requested_as, kind, record.rank, record.origin
    )
