"""Load one provider's plug-in and find its factory, in a guard. Ends in a record, never in an exception.

Comes after `entry_points`, before `probing`. The plug-in module is light by contract, so this imports no vendor
package; everything a listing or a ranking needs of the factory is read here, once, so that no later stage meets a
property that raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ort_py.contracts import CORE_API_RANGE, ApiRange, OptionSpec, ProviderFactory
from ort_py.contracts.version import deprecation
from ort_py.devices import DeviceClass
from ort_py.discovery.records import ProviderRecord, RecordState
from ort_py.discovery.suggestions import did_you_mean
from ort_py.errors import PluginError
from ort_py.hooks.entry_points import InstalledEntryPoint
from ort_py.hooks.guard import Raised, describe, guarded
from ort_py.hooks.manager import HookManager
from ort_py.hooks.switches import BLOCK

T = TypeVar("T")


def load_provider(entry: InstalledEntryPoint, hooks: HookManager, plugin_name: str) -> ProviderRecord:
    """Import a plug-in, register it and find the factory named like the entry point.

    Args:
        hooks: The manager that the plug-in is registered with, so that its other contributions are asked for too.

    Returns:
        A record in the state *installed* with a factory, or *broken* or *incompatible* with the reason.
    """
    record = ProviderRecord.of(entry)
    plugin = guarded(entry.load)
    if isinstance(plugin, Raised):
        return broken(record, f"importing {entry.value} raised {plugin}", plugin.error)
    registered = guarded(partial(hooks.register, plugin, plugin_name))
    if isinstance(registered, Raised):
        return broken(record, _one_line(registered.error), registered.error)
    factories = hooks.ask(registered, "ort_py_providers")
    if isinstance(factories, Raised):
        return broken(record, f"its hook ort_py_providers raised {_one_line(factories.error)}", factories.error)
    described = guarded(partial(_find, record, factories))
    if isinstance(described, Raised):
        outcome = broken(record, f"describing its provider raised {_one_line(described.error)}", described.error)
    else:
        outcome = described
    if outcome.factory is None and registered == plugin_name:
        hooks.unregister(plugin_name)  # other contributions of a plug-in are not used if its provider does not fit
    return outcome


def broken(record: ProviderRecord, reason: str, error: BaseException) -> ProviderRecord:
    """A record in the state *broken*, with the plug-in's own exception."""
    return replace(
        record, state=RecordState.BROKEN, reason=reason, fix=_fix(record, error), exception=error, factory=None
    )


def describe_factory(record: ProviderRecord, factory: ProviderFactory) -> ProviderRecord:
    """The record filled with what its factory declares, or *incompatible*. May raise what the factory raises.

    The contract version is checked before anything else is read.
    """
    written_for = _typed(factory.api_range, ApiRange, "api_range")
    if not written_for.meets(CORE_API_RANGE):
        newer = written_for.first > CORE_API_RANGE.last
        return replace(
            record,
            state=RecordState.INCOMPATIBLE,
            reason=f"it is written for contract version {written_for}, and this core supports {CORE_API_RANGE}",
            fix=f"pip install --upgrade {'ort-py-core' if newer or not record.distribution else record.distribution}",
        )
    stands_in_for = factory.stands_in_for
    return replace(
        record,
        reason=deprecation(written_for),
        factory=factory,
        device_class=_typed(factory.device_class, DeviceClass, "device_class"),
        rank=_typed(factory.default_rank, int, "default_rank"),
        vendor=_typed(factory.vendor, str, "vendor"),
        stands_in_for=None if stands_in_for is None else _typed(stands_in_for, str, "stands_in_for"),
        automatic=_typed(factory.automatic, bool, "automatic"),
        options=tuple(_typed(option, OptionSpec, "option_schema") for option in factory.option_schema),
    )


def _find(record: ProviderRecord, factories: Iterable[ProviderFactory]) -> ProviderRecord:
    by_name = {factory.name: factory for factory in factories}
    factory = by_name.get(record.name)
    if factory is not None:
        return describe_factory(record, factory)
    if not by_name:
        reason = (
            f"{record.entry_point} registers no provider: it lacks the hook ort_py_providers, or the hook "
            "returns nothing"
        )
    else:
        names = ", ".join(f"'{name}'" for name in sorted(by_name))
        reason = f"{record.entry_point} registers {names}, none of which is called '{record.name}'"
    hint = did_you_mean(record.name, by_name)
    return broken(
        record, reason, PluginError(f"The entry point '{record.name}' has no provider.", why=reason, fix=hint)
    )


def _typed(value: object, kind: type[T], member: str) -> T:
    if not isinstance(value, kind):
        raise PluginError(f"{member} is {value!r}.", why=f"It must be {kind.__name__}, not {type(value).__name__}.")
    return value


def _one_line(error: BaseException) -> str:
    if isinstance(error, PluginError):  # ours: its parts fit into one line, its layout does not
        return (
            " ".join([error.what, str(error.where) and f"({error.where})", *error.why]).replace("  ", " ").rstrip(".")
        )
    return describe(error)


def _fix(record: ProviderRecord, error: BaseException) -> str:
    if not record.distribution:
        return ""
    block = f"leave it out with {BLOCK}={record.distribution}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install what provides the module '{error.name}', reinstall {record.distribution}, or {block}."
    from ort_py.discovery.blame import culprit_of  # reads all metadata: only an error needs it

    culprit = culprit_of(error, record.distribution, [record.entry_point.partition(".")[0]])
    if culprit is not None:
        return f"{culprit.advice}, which {record.distribution} uses, or {block}."
    if isinstance(error, OSError):
        return f"Install the library named above, or {block}."
    if isinstance(error, PluginError) and error.fix:
        return error.fix
    return f"Report it to the maintainers of {record.distribution}, install another version, or {block}."
