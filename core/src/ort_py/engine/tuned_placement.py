"""The participating providers of a session and their order: named by a config entry, or measured and remembered.

Between `engine`, which asks before it looks for a prepared model, and the cache's store. `tuning` measures and
writes what is read here. A remembered order is a file of a few names under a key over the model, the machine, the
providers with their versions and the options; it holds no code and no weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts import IExecutionProvider
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions, entry_of
from ort_py.suggestions import did_you_mean

if TYPE_CHECKING:
    from ort_py.cache.store import CacheStore

PLACEMENT_KEY = "session.placement"
"""Config entry: names of the session's providers that take part in its placement, in this order, separated by commas;
or `IN_ORDER`, for all of them in their order, whatever was measured. A usable provider that would fill the CPU role
joins the session where it is named here."""

IN_ORDER = "order"

_KIND = "placement"
_logger = lazy_logger("ort_py.cache")


@dataclass(frozen=True, slots=True)
class TunedPlacement:
    """Measurements for a model.

    Attributes:
        providers: Providers that take part, in order; all of them in the session's order where that was the fastest.
        in_order: Milliseconds of a run with all providers in the session's order; 0 where that could not be run.
    """

    providers: tuple[str, ...]
    milliseconds: float
    in_order: float
    measured: str

    def __str__(self) -> str:
        against = f", {self.in_order:.3g} ms in the order of providers" if self.in_order else ""
        return (
            f"tuned on {self.measured}: {', '.join(self.providers)}: {self.milliseconds:.3g} ms a run{against}; "
            f"the config entry {PLACEMENT_KEY} = '{IN_ORDER}' ignores it"
        )


def named_placement(options: SessionOptions, providers: Sequence[IExecutionProvider]) -> tuple[str, ...] | None:
    """The providers that the config entry names; empty for all in their order, None where it is not set.

    Raises:
        OptionError: It names none, or one that the session does not have.
    """
    text = entry_of(options, PLACEMENT_KEY).strip()
    if not text:
        return None
    if text == IN_ORDER:
        return ()
    names = entry_names(options)
    known = [provider.name for provider in providers]
    for name in names:
        if name not in known:
            raise OptionError(
                f"The config entry '{PLACEMENT_KEY}' names '{name}', which is not a provider of this session.",
                why=f"it has {', '.join(known)}",
                fix=f"{did_you_mean(name, known)} Name some of these, or '{IN_ORDER}' for all.".strip(),
            )
    if not names:
        raise OptionError(f"The config entry '{PLACEMENT_KEY}' names no provider.", fix=f"Name some, or '{IN_ORDER}'.")
    return names


def entry_names(options: SessionOptions) -> tuple[str, ...]:
    """The names in the config entry, known or not; empty where it is not set, or is `IN_ORDER`."""
    text = entry_of(options, PLACEMENT_KEY).strip()
    names = text.split(",") if text != IN_ORDER else []
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def in_placement(providers: Sequence[IExecutionProvider], names: Sequence[str]) -> list[IExecutionProvider]:
    """The providers with these names, in the order of the names; all as they are where there are no names."""
    if not names:
        return list(providers)
    by_name = {provider.name: provider for provider in providers}
    return [by_name[name] for name in names if name in by_name]


def read_tuned(store: CacheStore, key: str, names: Collection[str]) -> TunedPlacement | None:
    """The measurement under a key. None if there is none, or if it includes a provider that is not in `names`."""
    from ort_py.cache.format import description_of  # sessions without a cache do not need it

    content = store.read(key, _KIND)
    if content is None:
        return None
    try:
        import json  # only sessions with a cache have such a record

        data: dict[str, Any] = json.loads(description_of(content)[0])
        found = TunedPlacement(
            tuple(map(str, data["providers"])),
            float(data["milliseconds"]),
            float(data["in_order"]),
            str(data["measured"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        _logger.info("the tuned placement %s does not fit: %s: %s", key, type(error).__name__, error)
        store.discard(key, _KIND)
        return None
    return found if found.providers and set(names).issuperset(found.providers) else None


def write_tuned(store: CacheStore, key: str, title: str, tuned: TunedPlacement) -> bool:
    """Remember what was measured; returns whether it is there.

    Args:
        title: The model's name, for who lists the folder.
    """
    data = {
        "title": title,
        "providers": list(tuned.providers),
        "milliseconds": tuned.milliseconds,
        "in_order": tuned.in_order,
        "measured": tuned.measured,
    }
    import json

    return store.put(key, _KIND, json.dumps(data).encode())
