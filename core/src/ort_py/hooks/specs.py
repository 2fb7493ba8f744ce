"""Every hook a plug-in may implement, with when it is called and what may be left out.

Hooks are for contributing things and for observing. Questions to one provider are plain method calls on the
contracts, never hooks, because a hook call stops at the first exception. Implementations may take fewer arguments
than a specification lists. An exception in a contributing hook makes that plug-in *broken* and leaves the others
alone; an exception in an observing hook is logged once.

Comes before: `manager`, which registers plug-ins and calls hooks one plug-in at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts import IAllocator, IDataTransfer, KernelDef, OperatorSchema, ProviderFactory, Transform

PROJECT = "ort_py"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Mark an implementation: ``@hookimpl def ort_py_providers(): …``."""


@dataclass(frozen=True, slots=True)
class KernelContribution:
    """Kernels for a provider that may belong to another package.

    A kernel is added only where the provider has none for the same versions and types, unless the session option
    ``session.plugin_kernels_override`` is set.
    """

    provider: str
    kernels: Sequence[KernelDef]


@dataclass(frozen=True, slots=True)
class AllocatorContribution:
    """An allocator that answers for a provider's device instead of its own: in the memory report, and when memory is
    to be given back."""

    provider: str
    allocator: IAllocator


class CliCommand(Protocol):
    """A command of ``ort-py``."""

    name: str
    help: str

    def add_arguments(self, parser: Any) -> None:
        """Add arguments to an ``argparse.ArgumentParser``."""

    def run(self, arguments: Any) -> int:
        """Run with the parsed arguments; returns the exit code."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A session was created or is closing."""

    session_id: str
    model: str
    providers: tuple[str, ...]
    node_counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A run has ended. `error` is None where it succeeded."""

    session_id: str
    seconds: float
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class FallbackEvent:
    """Something did not run where it was asked to run."""

    session_id: str
    kind: str
    provider: str
    reason: str
    node: str = ""
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """A provider compiled a region of `nodes` nodes, or restored it from the cache."""

    session_id: str
    provider: str
    nodes: int
    seconds: float
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class DeclinedEvent:
    """A region left a run to other kernels, though nothing failed: see `RunDeclined` of the contracts.

    Attributes:
        session_id: The session.
        provider: The provider that compiled the region.
        region: Its name.
        node: Name of its first node.
        reason: Its reason; its last one, where it was not asked in this run.
        replacement: The providers whose kernels answered the run.
        asked: Whether it was asked; False in the pause that follows several such answers in a row.
    """

    session_id: str
    provider: str
    region: str
    node: str
    reason: str
    replacement: tuple[str, ...] = ()
    asked: bool = True


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """A run was repeated by the NumPy provider, and the results were compared: see `SessionOptions.verify`.

    Attributes:
        session_id: The session.
        outcome: ``"agreed"``, ``"tie"``, ``"drift"``, ``"mismatch"`` or ``"failed"``.
        run: Number of the run in its session, counted from 1.
        outputs: Names of the outputs that differ beyond the tolerance.
        node: Name of the first node whose result differs; ``""`` where none was found.
        value: Name of that result.
        provider: The provider that ran the node.
        reason: The finding, in words.
        pinned: Whether the session was moved to the NumPy provider for it.
    """

    session_id: str
    outcome: str
    run: int
    outputs: tuple[str, ...] = ()
    node: str = ""
    value: str = ""
    provider: str = ""
    reason: str = ""
    pinned: bool = False


@hookspec
def ort_py_providers() -> Iterable[ProviderFactory]:  # type: ignore[empty-body]  # pluggy specs have no body
    """Contribute providers. Called once, when a provider of this plug-in is first asked about. Required for an
    ``ort_py.providers`` entry point: one of the factories must have the entry point's name."""


@hookspec
def ort_py_kernels() -> Iterable[KernelContribution]:  # type: ignore[empty-body]  # as above
    """Contribute kernels to providers. Called when the first session is created."""


@hookspec
def ort_py_operator_schemas() -> Iterable[OperatorSchema]:  # type: ignore[empty-body]  # as above
    """Contribute schemas for operators of own domains. Called when the first model is loaded."""


@hookspec
def ort_py_transforms() -> Iterable[Transform]:  # type: ignore[empty-body]  # as above
    """Contribute graph transforms and rewrite rules. Called when the first session is created."""


@hookspec
def ort_py_allocators() -> Iterable[AllocatorContribution]:  # type: ignore[empty-body]  # as above
    """Contribute allocators. Called when a session with that provider is created."""


@hookspec
def ort_py_data_transfers() -> Iterable[IDataTransfer]:  # type: ignore[empty-body]  # as above
    """Contribute copies between devices. Asked after the providers' own. Called when a session is created."""


@hookspec
def ort_py_cli_commands() -> Iterable[CliCommand]:  # type: ignore[empty-body]  # as above
    """Contribute commands to ``ort-py``. Called when the command line starts."""


@hookspec
def ort_py_session_created(event: SessionEvent) -> None:
    """Observe: a session is ready. On the creating thread."""


@hookspec
def ort_py_session_closed(event: SessionEvent) -> None:
    """Observe: a session was closed. On the closing thread."""


@hookspec
def ort_py_run_finished(event: RunEvent) -> None:
    """Observe: a run ended, well or not. On the running thread; only called where a plug-in implements it."""


@hookspec
def ort_py_fallback(event: FallbackEvent) -> None:
    """Observe: a fallback happened. On the thread where it happened."""


@hookspec
def ort_py_region_compiled(event: CompileEvent) -> None:
    """Observe: a region was compiled. On the creating thread."""


@hookspec
def ort_py_run_declined(event: DeclinedEvent) -> None:
    """Observe: a region left a run to other kernels. On the running thread; the run continues."""


@hookspec
def ort_py_run_verified(event: VerifiedEvent) -> None:
    """Observe: a run was verified, whatever the outcome. On a background thread, some time after the run."""
