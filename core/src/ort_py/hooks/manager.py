"""The plug-in manager: pluggy with a guard around each plug-in.

pluggy's own hook call stops at the first exception and its entry-point loader at the first broken import; here every
plug-in is registered, queried and notified on its own. A plug-in that fails while contributing is *broken*: it is
unregistered, its failure is kept and reported once, the others go on. An observer that fails is logged once.

Comes after `specs` and `validation`. It does not depend on providers, records or sessions; `discovery` registers the
plug-ins behind provider entry points here. Nothing is loaded before the first question.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ort_py import contracts
from ort_py.errors import PluginError
from ort_py.hooks.entry_points import Scan, scan
from ort_py.hooks.guard import Raised, guarded
from ort_py.hooks.specs import AllocatorContribution, KernelContribution
from ort_py.hooks.switches import blocked_reason
from ort_py.hooks.validation import HOOK_NAMES, PluginCheck, new_pluggy_manager
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.platform.forks import ProcessLock

PLUGIN_GROUP = "ort_py.plugins"
"""Entry points of plug-ins that contribute or observe but provide no execution provider."""

_ITEM_TYPES: dict[str, Callable[[], type]] = {
    "ort_py_providers": lambda: contracts.ProviderFactory,
    "ort_py_kernels": lambda: KernelContribution,
    "ort_py_operator_schemas": lambda: contracts.OperatorSchema,
    "ort_py_transforms": lambda: contracts.Transform,
    "ort_py_allocators": lambda: AllocatorContribution,
    "ort_py_data_transfers": lambda: contracts.IDataTransfer,
}
"""Types of what plug-ins contribute. A contract is imported with the first contribution of its kind."""

# What depends on a session's device is asked for each session; the rest is asked once and kept.
_ASKED_EACH_TIME = frozenset({"ort_py_allocators", "ort_py_data_transfers"})

logger = lazy_logger(__name__)


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plug-in that broke, and where.

    Attributes:
        plugin: Name it was registered under, or of its entry point.
        hook: Hook it broke in, ``""`` where it broke while being loaded.
        error: Its own exception.
    """

    plugin: str
    hook: str
    error: BaseException

    def __str__(self) -> str:
        place = f"in the hook '{self.hook}'" if self.hook else "while being loaded"
        return f"Plug-in '{self.plugin}' broke {place}: {Raised(self.error)}"


class HookManager:
    """Registers plug-ins and asks them one by one. Thread-safe.

    Args:
        on_failure: Called once for each plug-in that breaks; the default logs a warning.
        entry_points: Finds the plug-ins to load at the first question; those of ``ort_py.plugins`` where None.
    """

    def __init__(
        self, on_failure: Callable[[PluginFailure], None] | None = None, entry_points: Callable[[], Scan] | None = None
    ) -> None:
        self._pluggy = new_pluggy_manager()
        self._check = PluginCheck()
        self._on_failure = on_failure or _log_failure
        self._entry_points: Callable[[], Scan] | None = entry_points or partial(scan, PLUGIN_GROUP)
        self._loaded = False
        self._failures: dict[str, PluginFailure] = {}
        self._answers: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._observers: dict[str, tuple[tuple[str, Callable[..., Any]], ...]] = {}
        self._logged: set[str] = set()
        self._lock = ProcessLock()

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Plug-ins that broke, in the order in which they did."""
        return tuple(self._failures.values())

    def failure(self, name: str) -> PluginFailure | None:
        """The failure that broke the plug-in of this name, or None."""
        return self._failures.get(name)

    def register(self, plugin: Any, name: str) -> str:
        """Register a plug-in: a module or object whose functions are marked with ``@hookimpl``.

        Returns:
            The name it is registered under: an earlier one where the same object serves two entry points.

        Raises:
            PluginError: It does not fit the hook specifications, or another plug-in has this name. Nothing is kept.
        """
        with self._lock.held():
            for known, other in self._pluggy.list_name_plugin():
                if other is plugin:
                    return known
                if known == name:
                    raise PluginError(
                        f"Two plug-ins are called '{name}'.",
                        why=[f"one is {other!r}", f"the other is {plugin!r}"],
                        fix="Rename the entry point of one of them, or uninstall it.",
                    )
            self._check.check(plugin, name)
            self._pluggy.register(plugin, name)
            self._observers = {}
        return name

    def unregister(self, name: str) -> None:
        """Forget a plug-in. An unknown name is ignored."""
        with self._lock.held():
            if self._pluggy.has_plugin(name):
                self._pluggy.unregister(name=name)
            self._answers = {key: items for key, items in self._answers.items() if key[0] != name}
            self._failures.pop(name, None)
            self._observers = {}

    def plugins(self) -> list[str]:
        """Names of the plug-ins registered now, sorted."""
        self._load_installed()
        return sorted(name for name, plugin in self._pluggy.list_name_plugin() if plugin is not None)

    def modules(self) -> list[str]:
        """Names of the modules that the plug-ins registered now are, or are made in.

        Those that do nothing but name providers are left out: which of them are loaded depends on what sessions of this
        process asked for before, and they do nothing for a session that does not use their provider.
        """
        self._load_installed()
        registered = [plugin for _, plugin in self._pluggy.list_name_plugin() if plugin is not None]
        others = [
            plugin
            for plugin in registered
            if [caller.name for caller in self._pluggy.get_hookcallers(plugin) or ()] != ["ort_py_providers"]
        ]
        return sorted({getattr(plugin, "__name__", "") or type(plugin).__module__ for plugin in others})

    def contributions(self, hook_name: str) -> list[tuple[str, Any]]:
        """Ask every plug-in for its contributions.

        Args:
            hook_name: One of the contributing hooks, e.g. ``"ort_py_kernels"``.

        Returns:
            ``(plug-in, item)`` pairs, by name of the plug-in, then in its own order. Those of a plug-in that raises or
            returns something of a wrong type are left out as a whole.
        """
        if hook_name not in HOOK_NAMES:
            raise PluginError(f"There is no hook '{hook_name}'.", fix=f"The hooks are: {', '.join(HOOK_NAMES)}.")
        found: list[tuple[str, Any]] = []
        with self._lock.held():
            for name in self.plugins():
                items = self.ask(name, hook_name)
                if not isinstance(items, Raised):
                    found.extend((name, item) for item in items)
        return found

    def ask(self, name: str, hook_name: str) -> tuple[Any, ...] | Raised:
        """Return one plug-in's contributions: nothing if it does not implement the hook, a `Raised` if it failed."""
        with self._lock.held():
            key = (name, hook_name)
            if key in self._answers:
                return self._answers[key]
            items: list[Any] = []
            for _, implementation in self._implementations(hook_name, name):
                answer = guarded(partial(_checked_items, hook_name, implementation))
                if isinstance(answer, Raised):
                    self._break(PluginFailure(name, hook_name, answer.error))
                    return answer
                items.extend(answer)
            if hook_name not in _ASKED_EACH_TIME:
                self._answers[key] = tuple(items)
            return tuple(items)

    def has_observers(self, hook_name: str) -> bool:
        """Return whether any plug-in observes this hook. After the first call this is a dictionary look-up."""
        return bool(self._observing(hook_name))

    def observe(self, hook_name: str, event: Any) -> None:
        """Tell every observer, each in its own guard. The first exception of each plug-in is logged."""
        for name, implementation in self._observing(hook_name):
            outcome = guarded(partial(implementation, event))
            if isinstance(outcome, Raised) and name not in self._logged:
                self._logged.add(name)
                logger.warning(
                    "Plug-in '%s' raised in the observing hook '%s' (further exceptions of it are not logged): %s",
                    name,
                    hook_name,
                    outcome,
                    exc_info=outcome.error,
                )

    def _observing(self, hook_name: str) -> tuple[tuple[str, Callable[..., Any]], ...]:
        known = self._observers.get(hook_name)
        if known is not None and self._loaded:
            return known
        with self._lock.held():
            self._load_installed()
            found = tuple(self._implementations(hook_name))
            self._observers[hook_name] = found
            return found

    def _implementations(self, hook_name: str, plugin: str | None = None) -> list[tuple[str, Callable[..., Any]]]:
        """Implementations by plug-in name, as functions of all the hook's arguments by position."""
        caller = getattr(self._pluggy.hook, hook_name)
        return sorted(
            (
                (impl.plugin_name, partial(_call_with_known, impl.function, frozenset(impl.argnames)))
                for impl in caller.get_hookimpls()
                if plugin is None or impl.plugin_name == plugin
            ),
            key=lambda found: found[0],
        )

    def _load_installed(self) -> None:
        if self._loaded:
            return
        with self._lock.held():  # other threads wait here until all are loaded
            find, self._entry_points = self._entry_points, None
            if find is None:
                return  # a plug-in asks while it is being loaded, or another thread was faster
            for entry in find().entries:
                if blocked_reason(entry.name, entry.distribution, provider=False):
                    continue
                name = f"{entry.distribution}:{entry.name}"
                plugin = guarded(entry.load)
                outcome = plugin if isinstance(plugin, Raised) else guarded(partial(self.register, plugin, name))
                if isinstance(outcome, Raised):
                    self._break(PluginFailure(name, "", outcome.error))
            self._loaded = True

    def _break(self, failure: PluginFailure) -> None:
        self.unregister(failure.plugin)
        self._failures[failure.plugin] = failure
        self._on_failure(failure)


def _checked_items(hook_name: str, implementation: Callable[..., Any]) -> list[Any]:
    result = implementation()
    items = [] if result is None else list(result)  # may be a generator: it must run dry inside the guard
    wanted = _ITEM_TYPES.get(hook_name)
    for item in items:
        if wanted is not None and not isinstance(item, wanted()):
            raise PluginError(
                f"The hook '{hook_name}' returned {item!r}.",
                why=f"Its items must be {wanted().__name__}, not {type(item).__name__}.",
                fix="See ort_py.hooks.specs for what each hook returns.",
            )
    return items


def _call_with_known(function: Callable[..., Any], names: frozenset[str], *event: Any) -> Any:
    """Implementations may leave out arguments; observing hooks have one, ``event``, and contributing hooks none."""
    return function(*event) if "event" in names else function()


def _log_failure(failure: PluginFailure) -> None:
    logger.warning("%s. The other plug-ins are not affected.", failure, exc_info=failure.error)


_default = HookManager()


def default_hook_manager() -> HookManager:
    """The process's manager."""
    return _default
