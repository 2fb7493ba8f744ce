"""Validation of plug-ins before they are registered anywhere.

The plug-in is registered with a throw-away pluggy manager first, so a broken one leaves no trace in the real one,
whichever version of pluggy is installed. Comes before `manager`.
"""

from __future__ import annotations

from typing import Any

import pluggy

from ort_py.errors import PluginError
from ort_py.hooks import specs
from ort_py.hooks.guard import Raised, guarded
from ort_py.suggestions import did_you_mean

HOOK_NAMES: tuple[str, ...] = tuple(sorted(name for name in vars(specs) if name.startswith("ort_py_")))
"""Every hook there is."""


class _Manager(pluggy.PluginManager):
    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        """The options of a hook's specification. Nothing in a module of ours is computed when it is asked for, so it
        is not looked at as strangers' objects are, which takes a millisecond.
        """
        return getattr(vars(module_or_class).get(name), f"{self.project_name}_spec", None)


def new_pluggy_manager() -> pluggy.PluginManager:
    """A pluggy manager that knows ort-py's hooks and no plug-in."""
    manager = _Manager(specs.PROJECT)
    manager.add_hookspecs(specs)
    return manager


class PluginCheck:
    """Checks plug-ins one after the other. Not thread-safe."""

    def __init__(self) -> None:
        self._trial: pluggy.PluginManager | None = None

    def check(self, plugin: Any, name: str) -> None:
        """Check a plug-in as `validate_plugin` does."""
        trial, self._trial = self._trial or new_pluggy_manager(), None
        _validate(trial, plugin, name)
        trial.unregister(plugin)
        self._trial = trial  # only a check that passed leaves it as it was


def validate_plugin(plugin: Any, name: str) -> None:
    """Check a plug-in against the hook specifications.

    Raises:
        PluginError: It implements a hook that does not exist, takes an argument its hook does not have, forgets
            ``@hookimpl``, wraps other plug-ins, or implements nothing. All unknown hooks are named.
    """
    PluginCheck().check(plugin, name)


def _validate(trial: pluggy.PluginManager, plugin: Any, name: str) -> None:
    registered = guarded(lambda: trial.register(plugin, name))
    if isinstance(registered, Raised):
        raise PluginError(
            f"Plug-in '{name}' does not match the hooks of ort-py.",
            where=_place(plugin),
            why=str(registered.error),
            fix="See ort_py.hooks.specs for every hook and its arguments.",
        ) from registered.error
    callers = trial.get_hookcallers(plugin) or []
    try:
        trial.check_pending()
    except pluggy.PluginValidationError as error:
        unknown = sorted(caller.name for caller in callers if not caller.has_spec())
        raise PluginError(
            f"Plug-in '{name}' implements {_listed(unknown)}, which ort-py does not have.",
            where=_place(plugin),
            why=[_suggestion(hook) for hook in unknown],
            fix="Correct the function's name; ort_py.hooks.specs lists every hook.",
        ) from error
    if any(impl.wrapper or impl.hookwrapper for caller in callers for impl in caller.get_hookimpls()):
        raise PluginError(
            f"Plug-in '{name}' contains a hook wrapper.",
            where=_place(plugin),
            why="Plug-ins are called one by one, so there is nothing to wrap.",
            fix="Leave out wrapper=True.",
        )
    implemented = {caller.name for caller in callers}
    unmarked = [hook for hook in HOOK_NAMES if hook not in implemented and callable(getattr(plugin, hook, None))]
    if unmarked:
        raise PluginError(
            f"Plug-in '{name}' defines {_listed(unmarked)} without marking it as an implementation.",
            where=_place(plugin),
            fix="Put @hookimpl (from ort_py.hooks import hookimpl) above the function.",
        )
    if not callers:
        raise PluginError(
            f"Plug-in '{name}' implements no hook of ort-py.",
            where=_place(plugin),
            fix=f"Implement one of: {', '.join(HOOK_NAMES)}.",
        )


def _listed(hooks: list[str]) -> str:
    return f"the hook{'s' if len(hooks) > 1 else ''} {', '.join(repr(hook) for hook in hooks)}"


def _suggestion(hook: str) -> str:
    return f"There is no hook '{hook}'. {did_you_mean(hook, HOOK_NAMES)}".rstrip()


def _place(plugin: Any) -> str:
    return f"file '{file}'" if isinstance(file := getattr(plugin, "__file__", None), str) else repr(plugin)
