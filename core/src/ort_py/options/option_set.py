"""Options as typed attributes, config entries, and what can be asked of both.

`Option` is a descriptor: an option is declared once, as a class attribute, and that declaration is the entry of the
table. `OptionSet` is the base of `SessionOptions` and `RunOptions`, which declare the attributes. What the engine asks
of options are functions here and no methods, so that a user who looks at `dir(SessionOptions)` sees options and
onnxruntime's methods only. It is independent of particular options.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from ort_py.errors import UsageError
from ort_py.options.spec import Effect, EngineOption, Kind, engine_option
from ort_py.suggestions import did_you_mean

T = TypeVar("T")

_MAX_KEY = 1024


class Option(Generic[T]):
    """An option, declared as an attribute of its class. Reading gives the value, setting checks it.

    Args:
        default: Its value if it is not set.
        own: Whether it is ort-py's own; onnxruntime has an attribute of the same name otherwise.
        **facts: `since`, `guarded`, `carried` of `EngineOption`.

    Attributes:
        stored: Whether the option has a value of its own, rather than being a view of another one's.
    """

    spec: EngineOption
    stored: ClassVar[bool] = True

    def __init__(
        self, kind: Kind[T], default: T, text: str, *, effect: Effect, own: bool = False, **facts: Any
    ) -> None:
        self._kind = kind
        self._default = default
        self._spec_of = partial(engine_option, values=kind, default=default, text=text, effect=effect, own=own, **facts)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.spec = self._spec_of(name=name)
        self.__doc__ = self.spec.documentation()

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: OptionSet, owner: type) -> T: ...

    def __get__(self, instance: OptionSet | None, owner: type) -> Self | T:
        if instance is None:
            return self
        found: T = instance._values[self.name]
        return found

    def __set__(self, instance: OptionSet, value: T) -> None:
        instance._values[self.name] = self._kind.accepted(value, f"{type(instance).__name__}.{self.name}")

    def __repr__(self) -> str:
        return f"<option {self.name}: {self._kind.title} = {self._default!r}>"


class OptionSet:
    """Attributes declared as `Option`s, and config entries. Any other attribute is refused by name."""

    __slots__ = ("_config", "_values")

    _options: ClassVar[dict[str, Option[Any]]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}
    _config: dict[str, str]
    _values: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = {name: found for name, found in vars(cls).items() if isinstance(found, Option)}
        cls._options = {**cls._options, **declared}
        cls._defaults = {name: option.spec.default for name, option in cls._options.items() if option.stored}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", self._defaults.copy())
        object.__setattr__(self, "_config", {})

    if not TYPE_CHECKING:  # a type checker that saw these would take every name for an option

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_unknown(self, name))

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in self._options:
                raise AttributeError(_unknown(self, name))
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in changed_values(self).items()]
        changed += [f"{key!r}: {value!r}" for key, value in self._config.items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __copy__(self) -> Self:
        twin = type(self)()
        twin._values.update(values_of(self))
        twin._config.update(self._config)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), values_of(self), dict(self._config)))

    def _add_entry(self, key: str, value: str, scope: str) -> None:
        from ort_py.options.config_checks import check_key

        key, value = _text(key), _text(value)
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"Config entries are strings, not {key!r}: {value!r}.")
        if not key or len(key) > _MAX_KEY:
            raise UsageError(
                f"A config key must have 1 to {_MAX_KEY} characters; this one has {len(key)}.",
                fix="Use a key from the documentation.",
            )
        check_key(key, scope)
        self._config[key] = value

    def _get_entry(self, key: str) -> str:
        key = _text(key)
        if not isinstance(key, str):
            raise TypeError(f"Config keys are strings, not {key!r}.")
        if key not in self._config:
            raise UsageError(
                f"There is no config entry '{key}' in these {type(self).__name__}.",
                why=f"set are: {', '.join(self._config)}" if self._config else "none is set",
                fix="Set it first.",
            )
        return self._config[key]


def specs_of(kind: type[OptionSet]) -> tuple[EngineOption, ...]:
    """The records of a class's attributes, in the order of their declaration."""
    return tuple(option.spec for option in kind._options.values())


def values_of(options: OptionSet) -> dict[str, Any]:
    """Return every attribute that has a value of its own, with this value."""
    values = options._values
    if type(values) is dict:
        return values.copy()
    return {name: values[name] for name in options._defaults}  # an overlay has but those that were set


def changed_values(options: OptionSet) -> dict[str, Any]:
    """Return the attributes that are not as they are by default, with their values."""
    return {name: value for name, value in values_of(options).items() if value != options._defaults[name]}


def entries_of(options: OptionSet) -> dict[str, str]:
    return dict(options._config)


def entry_of(options: OptionSet, key: str, default: str = "") -> str:
    """Return a config entry, or a default where it was never set."""
    return options._config.get(key, default)


def is_on(options: OptionSet, key: str) -> bool:
    """Return whether a config entry is switched on: set, and not to ``"0"`` or ``""``."""
    return options._config.get(key, "0") not in ("", "0")


def without_effect(options: OptionSet) -> list[str]:
    """Names of the attributes and config entries that were set and change nothing here."""
    names = [name for name in changed_values(options) if options._options[name].spec.effect is Effect.NONE]
    if options._config:
        from ort_py.options.config_entries import effect_of

        names += [key for key in options._config if effect_of(key) is Effect.NONE]
    return names


def _unknown(options: OptionSet, name: str) -> str:
    return f"{type(options).__name__} has no option '{name}'. {did_you_mean(name, options._options)}".rstrip()


def _text(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _restored(kind: type[OptionSet], values: dict[str, Any], config: dict[str, str]) -> OptionSet:
    options = kind()
    options._values.update(values)
    options._config.update(config)
    return options
