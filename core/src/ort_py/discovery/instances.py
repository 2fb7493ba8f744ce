"""Create the providers of one session, each in its own guard, and close them again.

Comes after `selection`. A provider whose `create` raises is dropped with a record if another one takes over, that is,
if the user did not name it or named others too; otherwise session creation raises. A wrong option is the user's mistake
and raises. If the provider for the CPU role is dropped, the next of the reserve fills the role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ort_py.contracts import IExecutionProvider, SessionContext
from ort_py.discovery.cpu_role import fills_cpu_role
from ort_py.discovery.environment import strictness
from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.discovery.records import CPU_ROLE, ProviderRecord
from ort_py.discovery.selection import Origin, Selected
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import (
    InvalidArgument,
    LimitError,
    Location,
    OrtPyError,
    PluginError,
    ProviderFallbackWarning,
    ProviderNotAvailableError,
)
from ort_py.hooks.guard import Raised, describe, guarded
from ort_py.logs import lazy_logger

logger = lazy_logger(__name__)


class ProviderInstances:
    """The providers of one session: iterates over (record, provider) pairs in order. Close once, after all regions.

    Attributes:
        joined: Those of the reserve that were created, because no other provider fills the CPU role.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[ProviderRecord, IExecutionProvider]],
        fallbacks: Iterable[FallbackRecord] = (),
        joined: Iterable[Selected] = (),
    ) -> None:
        self.pairs = tuple(pairs)
        self.fallbacks = tuple(fallbacks)
        self.joined = tuple(joined)
        self._closed = False

    @property
    def providers(self) -> list[IExecutionProvider]:
        return [provider for _, provider in self.pairs]

    def join(self, one: Selected, context: SessionContext) -> IExecutionProvider | FallbackRecord:
        """Create one more provider, which takes its place before the provider that completes.

        Returns:
            The provider, or the record of its failure: the session continues with the providers that it has.
        """
        provider = guarded(partial(_create, one, context))
        if isinstance(provider, Raised):
            return FallbackRecord("initialisation", one.record.name, str(provider))
        pairs = list(self.pairs)
        pairs.insert(_place_of_completion(pairs), (one.record, provider))
        self.pairs, self.joined = tuple(pairs), (*self.joined, one)
        return provider

    def close(self) -> None:
        """Close all in reverse order; an exception of one is logged and does not keep the others open."""
        if not self._closed:
            self._closed = True
            _close_all(self.pairs)

    def __iter__(self) -> Iterator[tuple[ProviderRecord, IExecutionProvider]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


def create_instances(
    selected: Sequence[Selected],
    context: SessionContext,
    *,
    strict: str | None = None,
    reserve: Sequence[Selected] = (),
) -> ProviderInstances:
    """Create the providers of a session.

    Args:
        strict: ``"provider"`` or ``"node"``: no provider may be dropped; None leaves it to ``ORT_PY_STRICT``.
        reserve: Providers that would fill the CPU role too, best first: the first that can be created does where one of
            those selected cannot be created and none of the others fills the role.

    Raises:
        ProviderNotAvailableError: A provider that cannot be replaced raised; its own exception is the cause.
        InvalidArgument: A provider asked for by name refused its options.
        LimitError: A provider asked for by name would have passed a limit.
    """
    level = strictness(strict)
    created: list[tuple[ProviderRecord, IExecutionProvider]] = []
    failed: list[tuple[int, Selected, Raised]] = []
    wanted = 0  # those created that are more than a completion
    try:
        for one in selected:
            made = guarded(partial(_create, one, context))
            if isinstance(made, Raised):
                if level or (one.origin is Origin.NAMED and isinstance(made.error, InvalidArgument | LimitError)):
                    raise _error(one, made.error)
                failed.append((len(created), one, made))
            else:
                created.append((one.record, made))
                wanted += one.origin is not Origin.COMPLETION
        joined = _fill_cpu_role(selected, created, failed, reserve, context)
        wanted += sum(one.origin is not Origin.COMPLETION for one in joined)
        if failed and not wanted:
            raise _error(failed[0][1], failed[0][2].error)
        fallbacks = [_drop(place, one, failure, created) for place, one, failure in failed]
        return ProviderInstances(created, fallbacks, joined)
    except BaseException:  # an error of ours, Ctrl-C, or a warning that the user turned into an error
        _close_all(created)
        raise


def _fill_cpu_role(
    selected: Sequence[Selected],
    created: list[tuple[ProviderRecord, IExecutionProvider]],
    failed: list[tuple[int, Selected, Raised]],
    reserve: Sequence[Selected],
    context: SessionContext,
) -> list[Selected]:
    """Create the first of the reserve that can be, where those that were to fill the CPU role could not be created."""
    alive = {record.address for record, _ in created}
    if not any(fills_cpu_role(one.record, one.options) for _, one, _ in failed) or any(
        fills_cpu_role(one.record, one.options) for one in selected if one.record.address in alive
    ):
        return []
    place = _place_of_completion(created)
    for one in reserve:
        made = guarded(partial(_create, one, context))
        if not isinstance(made, Raised):
            created.insert(place, (one.record, made))
            return [one]
        failed.append((place, one, made))
    return []


def _place_of_completion(pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]]) -> int:
    return next((place for place, (record, _) in enumerate(pairs) if record.name == CPU_ROLE), len(pairs))


def _create(one: Selected, context: SessionContext) -> IExecutionProvider:
    factory = one.record.factory
    assert factory is not None, "only usable providers are selected"
    provider = factory.create(dict(one.options), context)
    if not isinstance(provider, IExecutionProvider):
        raise PluginError(
            f"create() of {one.record.name} returned {provider!r}, which is not an IExecutionProvider.",
            fix=f"Report this to the author of {one.record.origin}.",
        )
    if provider.name != one.record.name:
        raise PluginError(
            f"create() of {one.record.name} returned a provider called '{provider.name}'.",
            why="placement and kernels refer to the provider by name, so its name must be that of its factory",
            fix=f"Report this to the author of {one.record.origin}.",
        )
    return provider


def _error(one: Selected, error: BaseException) -> OrtPyError:
    if one.origin is Origin.NAMED and isinstance(error, InvalidArgument | LimitError):
        return error
    wrapped = ProviderNotAvailableError(
        f"The provider {one.record.name} could not be created for this session.",
        where=Location(provider=one.record.name),
        why=describe(error),
        fix=error.fix if isinstance(error, OrtPyError) else f"Name another provider; see {one.record.origin}.",
    )
    wrapped.__cause__ = error
    return wrapped


def _drop(
    place: int, one: Selected, failure: Raised, created: Sequence[tuple[ProviderRecord, IExecutionProvider]]
) -> FallbackRecord:
    record = (list(created[place:]) or list(created))[0][0]
    reason = f"create() raised {failure}".rstrip(".")
    if one.origin is Origin.NAMED:
        message = f"The provider {one.requested_as} is not used: {reason}. {record.name} is used instead."
        warn_user(message, ProviderFallbackWarning)
    else:
        logger.warning("The provider %s is not used: %s. %s takes over.", one.record.name, reason, record.name)
    return FallbackRecord("initialisation", one.record.name, reason, replacement=record.name)


def _close_all(pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]]) -> None:
    for record, provider in reversed(pairs):
        outcome = guarded(provider.close)
        if isinstance(outcome, Raised):
            logger.warning("close() of %s raised %s", record.name, outcome, exc_info=outcome.error)
