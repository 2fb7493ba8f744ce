"""Selection of a session's providers from the user's request, in order, with every fallback on record.

Comes after `request` and `catalog`, before `instances`. Nothing is created here. The rules, `name` being asked for:

* installed and usable: used. ``CPUExecutionProvider`` is a role: a usable provider that stands in for it comes first.
* not installed, without its device, or blocked: skipped for another usable provider, with a `ProviderFallbackWarning`
  and a record; raises in strict mode, or where nothing usable is left.
* broken, in conflict or incompatible, or an unknown name: raises, with the plug-in's own exception as the cause.
* in compatibility mode all of these are skipped, as onnxruntime does, and CPU is used where nothing else is left.

Left to ort-py, every usable provider is used by rank; of those that stand in for CPU, `cpu_role` takes one, under the
name of the role. What is faulty is recorded and logged once a process. So is a stand-in that cannot be used: the
processor is there on every machine, so something is missing that can be had, and without it sessions are slow for no
reason anyone would see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any

from ort_py.discovery.catalog import ProviderCatalog, default_catalog
from ort_py.discovery.cpu_role import CpuRole, assistance
from ort_py.discovery.environment import compat_mode, strictness
from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.discovery.known_names import is_known
from ort_py.discovery.options import check_options
from ort_py.discovery.records import CPU_ROLE, ProviderRecord, RecordState, ranked
from ort_py.discovery.refusals import FAULTY, Skip, misspelt, none_usable, not_installed, refuse
from ort_py.discovery.request import ProviderRequest, parse_request
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import InvalidArgument, ProviderFallbackWarning
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

logger = lazy_logger(__name__)
_logged: set[str] = set()


class Origin(Enum):
    """The reason why a provider is part of a session."""

    NAMED = "named"
    """The user asked for it."""

    AUTOMATIC = "automatic"
    """The user left the choice to ort-py."""

    STAND_IN = "stand-in"
    """It fills a role: the one the user asked for, or the CPU's where the choice was left to ort-py."""

    COMPLETION = "completion"
    """Not requested; it runs the nodes that the requested providers leave over."""


@dataclass(frozen=True, slots=True)
class Selected:
    """One provider of a session.

    Attributes:
        options: Every option it declares, with the user's value or the default.
        requested_as: Name the user asked for: the role, where it stands in for one.
        ignored_options: Options given that have no effect, with the reason.
    """

    record: ProviderRecord
    options: Mapping[str, Any] = field(default_factory=dict)
    requested_as: str = ""
    origin: Origin = Origin.NAMED
    ignored_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The providers of a session.

    Attributes:
        selected: In the order in which they are asked for nodes.
        fallbacks: Providers that were asked for, or are faulty, and are not used.
        automatic: Whether the choice was left to ort-py.
        passed_over: Providers that an automatic choice left out, in any state.
        cpu_engines: Names of the providers that fill the CPU role, besides the provider of that name.
        reserve: Usable providers that would fill the CPU role too and are left out, because another one does; best
            first.
    """

    selected: tuple[Selected, ...]
    fallbacks: tuple[FallbackRecord, ...] = ()
    automatic: bool = False
    passed_over: tuple[ProviderRecord, ...] = ()
    cpu_engines: tuple[str, ...] = ()
    reserve: tuple[Selected, ...] = ()

    @property
    def named(self) -> frozenset[str]:
        """Providers that the user named. A provider that fills the CPU provider's role was not named."""
        return frozenset(
            [one.record.name for one in self.selected if one.origin is Origin.NAMED and one.requested_as != CPU_ROLE]
        )

    @property
    def names(self) -> list[str]:
        """Providers as asked for, those skipped left out: what ``get_providers()`` gives. A role has its last place."""
        asked = [one.requested_as for one in self.selected if one.origin is not Origin.COMPLETION]
        return list(reversed(dict.fromkeys(reversed(asked))))

    def names_of(self, created: Iterable[ProviderRecord]) -> list[str]:
        """`names` as far as something was created: a role is there as long as one of those who fill it is."""
        there = {record.address for record in created}
        present = {one.requested_as for one in self.selected if one.record.address in there}
        return [name for name in self.names if name in present]

    def options_of(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Options of the providers asked for by these names, as text; of a role, those of its own provider."""
        return {
            one.requested_as: {key: str(value) for key, value in one.options.items()}
            for one in self.selected
            if one.origin is not Origin.STAND_IN and one.requested_as in names
        }

    def joined_by(self, joined: Sequence[Selected]) -> Selection:
        """The same with some of the reserve in the session, before the provider that completes."""
        if not joined:
            return self
        place = next((i for i, one in enumerate(self.selected) if one.record.name == CPU_ROLE), len(self.selected))
        return replace(
            self,
            selected=(*self.selected[:place], *joined, *self.selected[place:]),
            cpu_engines=(*self.cpu_engines, *(one.record.name for one in joined)),
            reserve=tuple(one for one in self.reserve if one not in joined),
        )


def select_providers(
    providers: Iterable[Any] | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    *,
    catalog: ProviderCatalog | None = None,
    strict: str | None = None,
    pin_plain_cpu: bool = False,
    compat: bool | None = None,
    beside: Collection[str] = (),
) -> Selection:
    """Choose the providers of a session.

    Args:
        providers: Names, ``distribution:Name``, or (name, options) pairs, in order of preference. None or empty:
            ``ORT_PY_PROVIDERS``, else every usable provider by rank.
        provider_options: One mapping a provider, where `providers` has names only.
        catalog: The catalogue to look in; the process's where None.
        strict: ``"provider"`` or ``"node"`` make every skip an error, ``node`` also adds no completing CPU provider;
            None leaves it to ``ORT_PY_STRICT``.
        pin_plain_cpu: CPUExecutionProvider means that provider itself; nothing stands in for it.
        compat: onnxruntime's leniency and its default, CPU only; None leaves it to ``ORT_PY_COMPAT``.
        beside: Names of providers that share the CPU role of this session, though one would fill it.

    Raises:
        OptionError: An argument, option or environment variable is malformed.
        ProviderNotFoundError: No installed provider has that name; the message suggests similar names.
        PluginError: A provider asked for is broken or incompatible; its own exception is the cause.
        ProviderNotAvailableError: A provider asked for is in conflict, or none is usable; lists every reason.
        InvalidArgument: Two distributions' providers of one name are asked for.
    """
    level = strictness(strict)
    lenient = not level and compat_mode(compat)
    chooser = _Chooser(catalog or default_catalog(), level, pin_plain_cpu, lenient, CpuRole(frozenset(beside)))
    requests = parse_request(providers, provider_options)
    if requests is None and chooser.lenient:
        requests = [ProviderRequest(CPU_ROLE)]
    return chooser.automatic() if requests is None else chooser.explicit(requests)


@dataclass(slots=True)
class _Chooser:
    catalog: ProviderCatalog
    level: str
    plain_cpu: bool
    lenient: bool
    role: CpuRole
    selected: list[Selected] = field(default_factory=list)
    skips: list[tuple[int, Skip]] = field(default_factory=list)
    fallbacks: list[FallbackRecord] = field(default_factory=list)
    reserve: list[Selected] = field(default_factory=list)

    def automatic(self) -> Selection:
        """Every usable provider by rank."""
        passed_over: list[ProviderRecord] = []
        for record in self.catalog.records():
            stands_in = record.stands_in_for == CPU_ROLE
            if not record.usable:
                passed_over.append(record)
                if record.state in FAULTY or (_lacks_something(record) and not self.plain_cpu):
                    self._note(record, raises=record.state in FAULTY)
            elif not record.automatic or (stands_in and self.plain_cpu):
                passed_over.append(record)
            elif stands_in:
                self._stand_in(record, Origin.STAND_IN)
            else:
                self._add(record, {}, record.name, Origin.AUTOMATIC)
        if not self.selected:
            raise none_usable([refuse(record.name, record) for record in passed_over], self.catalog)
        return self._selection(automatic=True, passed_over=passed_over)

    def explicit(self, requests: Sequence[ProviderRequest]) -> Selection:
        named = {request.name for request in requests}
        if not self.plain_cpu:
            self._note_named_engines(requests)
        for request in requests:
            self._choose(request, named)
        if not self.selected and self.lenient and CPU_ROLE not in named:
            self._choose(ProviderRequest(CPU_ROLE), named)
        if not self.selected:
            raise none_usable([skip for _, skip in self.skips], self.catalog)
        for place, skip in self.skips:
            self._fall_back(place, skip)
        if self.level != "node":
            self._complete()
        return self._selection()

    def _selection(self, *, automatic: bool = False, passed_over: Iterable[ProviderRecord] = ()) -> Selection:
        return Selection(
            tuple(self.selected),
            tuple(self.fallbacks),
            automatic,
            tuple(passed_over),
            tuple(self.role.engines),
            tuple(self.reserve),
        )

    def _note_named_engines(self, requests: Sequence[ProviderRequest]) -> None:
        """A provider that the user names fills the CPU role wherever it stands in the list: no second one joins it."""
        for request in requests:
            record = self.catalog.record(request.name)
            if record is not None and record.usable and record.stands_in_for == CPU_ROLE:
                declared = {option.name for option in record.options}  # the others are judged when it is added
                given = {name: value for name, value in request.options.items() if name in declared}
                self.role.named(record, check_options(record.name, record.options, given).values)

    def _choose(self, request: ProviderRequest, named: set[str]) -> None:
        record = self.catalog.record(request.name)
        if request.name == CPU_ROLE and not self.plain_cpu:
            self._add_stand_ins(named, Origin.STAND_IN)
        if record is None:
            known = is_known(request.name)
            self._skip(not_installed(request.name) if known else misspelt(request.name, self.catalog), faulty=not known)
        elif record.usable:
            self._add(record, request.options, request.name, Origin.NAMED)
        else:
            self._skip(refuse(request.name, record), faulty=record.state in FAULTY)

    def _skip(self, skip: Skip, *, faulty: bool) -> None:
        if self.level or (faulty and not self.lenient):
            raise skip.error
        self.skips.append((len(self.selected), skip))

    def _fall_back(self, place: int, skip: Skip) -> None:
        later = self.selected[place:] or self.selected
        if skip.name == CPU_ROLE:  # those that stand in for it were placed before it
            later = [one for one in self.selected if one.requested_as == CPU_ROLE] or later
        replacement = later[0].record.name
        self.fallbacks.append(FallbackRecord("selection", skip.name, skip.reason, replacement=replacement))
        warn_user(
            f"The provider {skip.name} is not used: {skip.reason.rstrip('.')}. {replacement} is used instead. "
            f"What to do: {skip.fix or 'name another provider.'}",
            ProviderFallbackWarning,
        )

    def _add_stand_ins(self, named: set[str], origin: Origin) -> None:
        """Put the provider that fills the CPU role before it; one the user names has its own place."""
        for record in ranked(self.catalog.records()):
            if record.name in named or record.address in named or not record.automatic:
                continue
            if record.usable and record.stands_in_for == CPU_ROLE:
                self._stand_in(record, origin)
            elif record.stands_in_for == CPU_ROLE and (record.state in FAULTY or _lacks_something(record)):
                self._note(record, raises=False)
            elif record.state in FAULTY and record.device_class is None:
                # It might fill the role, but only its factory could tell.
                _log_once(record, refuse(record.name, record))

    def _stand_in(self, record: ProviderRecord, origin: Origin) -> None:
        """Let a usable provider fill the CPU role; where another one does, assist it or stay in reserve."""
        options = check_options(record.name, record.options, {}).values
        if self.role.takes(record, options):
            self._add(record, {}, CPU_ROLE, origin)
        elif (more := assistance(record)) is not None:
            if all(one.record.address != record.address for one in self.selected):
                self._add(record, more, CPU_ROLE, origin)
        elif all(one.record.name != record.name for one in self.reserve):
            self.reserve.append(Selected(record, options, CPU_ROLE, origin))

    def _complete(self) -> None:
        present = {one.record.name for one in self.selected}
        plain = self.catalog.record(CPU_ROLE)
        if CPU_ROLE in present or plain is None or not plain.usable:
            return
        if not self.plain_cpu:
            self._add_stand_ins(present, Origin.COMPLETION)
        self._add(plain, {}, CPU_ROLE, Origin.COMPLETION)

    def _add(self, record: ProviderRecord, given: Mapping[str, Any], requested_as: str, origin: Origin) -> None:
        rival = next((one for one in self.selected if one.record.name == record.name), None)
        if rival is not None and rival.record.address == record.address:
            warn_user(f"The provider {record.name} is named twice; its first place and options count.", UserWarning)
            return
        if rival is not None:
            raise InvalidArgument(
                f"Two providers called {record.name} are asked for.",
                why=[f"one is from {rival.record.origin}", f"the other is from {record.origin}"],
                fix="A session can use one of them.",
            )
        checked = check_options(record.name, record.options, given, lenient=self.lenient)
        self.selected.append(Selected(record, checked.values, requested_as, origin, checked.ignored))

    def _note(self, record: ProviderRecord, *, raises: bool) -> None:
        """Record a provider that the user did not name, and log it once per process. With `raises` it is an error in
        strict mode.
        """
        skip = refuse(record.name, record)
        if self.level and raises:
            raise skip.error
        note = FallbackRecord("selection", record.name, skip.reason)
        if note not in self.fallbacks:
            self.fallbacks.append(note)
        _log_once(record, skip)


def _lacks_something(record: ProviderRecord) -> bool:
    """Return whether the provider would stand in for CPU if this machine had what it needs."""
    return record.state is RecordState.UNAVAILABLE and record.stands_in_for == CPU_ROLE


def _log_once(record: ProviderRecord, skip: Skip) -> None:
    if record.address not in _logged:
        _logged.add(record.address)
        logger.warning("The provider %s (%s) is not used: %s. %s", record.name, record.origin, skip.reason, skip.fix)
