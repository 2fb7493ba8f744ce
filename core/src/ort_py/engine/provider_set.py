"""The providers of one engine: chosen, created, put in an order, left out after failures, and closed.

Comes after `provider_choice`, which selects them. Holds what providers and plug-ins contribute. It does not depend on
models or programs: the engine prepares one for the providers that are in use here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.contracts import IExecutionProvider, SessionContext
from ort_py.discovery import (
    FallbackKind,
    FallbackRecord,
    ProviderInstances,
    ProviderRecord,
    Selected,
    Selection,
    create_instances,
)
from ort_py.engine.contributions import Contributions, provider_failure, quietly
from ort_py.engine.load_report import LoadReport
from ort_py.engine.participants import Participants
from ort_py.engine.provider_choice import selection_notes
from ort_py.engine.recovery.state import expect_device
from ort_py.engine.run_callbacks import wants_runs
from ort_py.errors import KernelConflictError
from ort_py.fallback.policy import FallbackPolicy
from ort_py.fallback.report import FallbackLog
from ort_py.graph.reading.given_model import GivenModel
from ort_py.hooks.manager import HookManager
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions, is_on, without_effect


class ProviderSet:
    """The providers of one engine and their contributions.

    Args:
        policy: Decides which failures another provider may answer.
        fallbacks: Takes a record of each provider that is replaced.
        participants: Provides the order of providers that was named or measured for the model.

    Attributes:
        names: Names of the providers as they were asked for, in order.
        contributions: Kernels, transforms, copies and allocators of providers and plug-ins.
        dropped: Names of the providers that are left out after a failure in a run.
        failed: Whether a provider failed while it was introduced or while the model was prepared.
    """

    selection: Selection

    def __init__(
        self,
        options: SessionOptions,
        hooks: HookManager,
        policy: FallbackPolicy,
        fallbacks: FallbackLog,
        participants: Participants,
        provider_options: dict[str, dict[str, str]],
    ) -> None:
        self._session_options = options
        self._hooks = hooks
        self._policy = policy
        self._fallbacks = fallbacks
        self.participants = participants
        self.options = provider_options
        self.records: list[ProviderRecord] = []
        self.names: list[str] = []
        self.contributions = Contributions()
        self.dropped: set[str] = set()
        self.failed = False
        self._instances: ProviderInstances | None = None
        self._unusable: set[str] = set()

    @property
    def in_use(self) -> list[IExecutionProvider]:
        """The providers that the present program was planned for, in rank order."""
        if not self.dropped:
            return self.participants.order(self.created)
        # A provider that was left out for speed is there again when another one fails.
        return [provider for provider in self.created if provider.name not in self.dropped]

    @property
    def created(self) -> list[IExecutionProvider]:
        """All providers that were created and can be used, also those left out for speed or after failures."""
        return [provider for _, provider in self._usable]

    @property
    def pairs_in_use(self) -> list[tuple[ProviderRecord, IExecutionProvider]]:
        """Record and provider of each provider in use, in rank order."""
        by_name = {provider.name: (record, provider) for record, provider in self._usable}
        return [by_name[provider.name] for provider in self.in_use]

    @property
    def have_run_callbacks(self) -> bool:
        """True if a provider in use wants to be called before and after runs."""
        return any(wants_runs(provider) for provider in self.in_use)

    @property
    def _usable(self) -> list[tuple[ProviderRecord, IExecutionProvider]]:
        return [pair for pair in self._instances or () if pair[1].name not in self._unusable]

    def create(self, selection: Selection, context: SessionContext, report: LoadReport) -> None:
        """Create the selected providers and collect their contributions and those of plug-ins.

        Raises:
            OrtPyError: A provider that is needed cannot be created.
        """
        self._context = context
        for record in selection.fallbacks:
            self._fallbacks.note(record)
        with report.stage("providers") as notes:
            self._instances = create_instances(
                selection.selected, context, strict=self._policy.strictness.value, reserve=selection.reserve
            )
            self.selection = selection.joined_by(self._instances.joined)
            for record in self._instances.fallbacks:
                self._fallbacks.note(record)
            for found, provider in self._instances:
                self._introduce(provider, found.origin)
            self.contributions.add_plugins(
                self._hooks,
                {provider.name for provider in self.in_use},
                override_kernels=is_on(self._session_options, "session.plugin_kernels_override"),
            )
            notes.extend([*selection_notes(self.selection), *precision_notes(self.in_use, context.precision)])
            notes.extend(f"left out: {line}" for line in self.contributions.kernels.skipped)
            notes.extend(f"the session option {name} has no effect" for name in without_effect(self._session_options))
        self.records = [found for found, _ in self._usable]
        self.names = self.selection.names_of(self.records)
        self.options |= self.selection.options_of(self.names)

    def order_for(self, source: GivenModel, report: LoadReport, *, threads: int, explicit: bool) -> None:
        """Find the order of providers that was named or measured for a model; see `Participants.decide`.

        Args:
            report: Gets a stage where the order is not the usual one.

        Raises:
            OptionError: The config entry names a provider that is not here.
        """
        reserve = {one.record.name: one for one in self.selection.reserve}
        self.participants.decide(
            source,
            self._usable,
            report,
            strict=self._policy.strictness.value,
            threads=threads,
            explicit=explicit,
            reserve=reserve,
        )
        if not all(self._join(reserve[name]) for name in self.participants.names if name in reserve):
            self.participants.names = ()

    def note_failure(self, provider: str, error: Exception, node: str = "", kind: FallbackKind = "assignment") -> None:
        """Record that a provider failed while it was introduced, asked or compiling, and that others take over."""
        self.failed = True
        others = [other.name for other in self.in_use if other.name != provider]
        if not others or not self._policy.may_replace(error):
            raise provider_failure(provider, error, node, alone=not others) from error
        self._fallbacks.note(FallbackRecord(kind, provider, f"{type(error).__name__}: {error}", node, others[0]))

    def device_names(self) -> Mapping[str, str]:
        """Device of each provider in use, as text."""
        return {provider.name: str(provider.device) for provider in self.in_use}

    def synchronize(self) -> None:
        """Wait for all devices; a provider that raises is logged."""
        for provider in self._instances.providers if self._instances is not None else ():
            quietly(f"synchronize() of {provider.name}", provider.synchronize)

    def close(self) -> None:
        """Close what the providers contributed, then the providers."""
        self.contributions.close()
        if self._instances is not None:
            self._instances.close()

    def _introduce(self, provider: IExecutionProvider, origin: str) -> None:
        try:
            expect_device(provider)
            self.contributions.introduce(provider, origin)
        except KernelConflictError:
            raise
        except Exception as error:  # a plug-in's code: whatever it raises must not take the session with it
            self.note_failure(provider.name, error, kind="initialisation")
            self._unusable.add(provider.name)

    def _join(self, one: Selected) -> bool:
        """Create a provider that was measured to make this model faster; returns whether it can be used."""
        assert self._instances is not None  # the providers are created
        provider = self._instances.join(one, self._context)
        if isinstance(provider, FallbackRecord):
            self._fallbacks.note(provider)
            return False
        self._introduce(provider, one.record.origin)
        self.selection = self.selection.joined_by([one])
        self.records = [found for found, _ in self._usable]
        return one.record.name not in self._unusable


_logger = lazy_logger("ort_py.session")


def precision_notes(providers: Sequence[IExecutionProvider], precision: str) -> list[str]:
    """Return a line for each provider that does not compute in the requested precision. If none does, log a warning.

    Args:
        providers: The session's, in rank order.
    """
    refusals = {provider.name: _refusal(provider, precision) for provider in providers}
    if precision != "float32" and refusals and None not in refusals.values():
        _logger.warning("precision '%s' has no effect: no provider of this session computes in it", precision)
    return [f"{name} leaves float32 models in float32: {reason}" for name, reason in refusals.items() if reason]


def _refusal(provider: IExecutionProvider, precision: str) -> str | None:
    try:
        return provider.precision_refusal(precision)
    except Exception as error:  # a plug-in's code: whatever it raises, the session is made
        return f"asking it raised {type(error).__name__}: {error}"
