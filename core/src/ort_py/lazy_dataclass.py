"""`dataclass` of the standard library, whose methods are made when they are needed.

The standard decorator examines each class and compiles up to seven methods for it when its module is imported. In a
process that starts and answers once, that is a quarter of the time, and most of these classes are never instantiated.
Here a class is only given its slots when its module is imported. The first few instances are filled by an ordinary
function, because most classes have no more of them; then `__init__` is compiled. The other methods are ordinary
functions over the fields. Type checkers see the standard decorator.

`dataclasses.fields`, `replace`, `asdict` and `field` serve these classes as they serve others. `InitVar` and `KW_ONLY`
are not supported: such a class uses the standard decorator. Plug-ins may import this module. It must not know the rest.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from ort_py.bytecode import compiled

__all__ = ["dataclass"]

_FEW = 4
"""Instances of a class that are made before its `__init__` is compiled, which takes as long as filling thirty."""

_ABSENT = object()
_FIELDS = "__dataclass_fields__"
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls=None,
        /,
        *,
        init=True,
        repr=True,  # noqa: A002 - the name of the standard decorator
        eq=True,
        order=False,
        frozen=False,
        kw_only=False,
        slots=False,
    ):
        """Add the methods of a data class to a class; arguments as of `dataclasses.dataclass`."""

        def decorated(plain):
            own = vars(plain)
            # A class that defines __eq__ alone gets a __hash__ of None from the interpreter.
            hashes = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
            fields = _Fields(plain, frozen=frozen, slots=slots, kw_only=kw_only)
            added = {
                _FIELDS: fields,
                "__dataclass_params__": _Late(fields, "__dataclass_params__", _parameters),
                "__match_args__": _Late(fields, "__match_args__", _match_args),
            }
            if init and "__init__" not in own:
                added["__init__"] = _LazyInit(fields)
            if repr and "__repr__" not in own:
                added["__repr__"] = _LateMethod(fields, "__repr__", _repr)
            if eq and "__eq__" not in own:
                added["__eq__"] = _LateMethod(fields, "__eq__", _comparison)
            if eq and not hashes:
                added["__hash__"] = _LateMethod(fields, "__hash__", _hash) if frozen else None
            if order:
                added |= {name: _LateMethod(fields, name, _comparison) for name in _ORDER}
            if frozen:
                added |= {"__setattr__": _set_attribute(fields), "__delattr__": _delete_attribute(fields)}
                if slots and "__getstate__" not in own:
                    added |= {"__getstate__": _getstate, "__setstate__": _setstate}
            return _with_slots(plain, fields, added) if slots else _with_attributes(plain, fields, added)

        return decorated if cls is None else decorated(cls)


class _Entry:
    """One field.

    Attributes:
        default, factory: `dataclasses.MISSING` where it has none.
        init, kw_only: Whether it is a parameter of `__init__`, and whether by name only.
        compared, hashed, shown: Whether it takes part in comparisons, hashes and the text.
    """

    __slots__ = ("compared", "default", "factory", "hashed", "init", "kw_only", "name", "shown", "type")

    def __init__(self, name: str, annotation: Any, given: Any, kw_only: bool) -> None:
        self.name, self.type = name, annotation
        self.default: Any = given
        self.factory: Any = MISSING
        self.init = self.compared = self.hashed = self.shown = True
        self.kw_only = kw_only
        if isinstance(given, dataclasses.Field):
            self.default, self.factory = given.default, given.default_factory
            self.init, self.compared, self.shown = given.init, given.compare, given.repr
            self.hashed = given.compare if given.hash is None else given.hash
            self.kw_only = kw_only if given.kw_only is MISSING else given.kw_only


class _Fields:
    """The fields of a class, as `__dataclass_fields__` of the class until the standard library asks for them.

    Attributes:
        given: Default or `dataclasses.field` of each field that the class itself annotates, or `dataclasses.MISSING`.
    """

    def __init__(self, plain: type[Any], *, frozen: bool, slots: bool, kw_only: bool) -> None:
        self.cls = plain
        self.frozen, self.slots = frozen, slots
        self._kw_only = kw_only
        given = vars(plain).get
        self._types: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        for name, annotation in plain.__annotations__.items():
            text = annotation if isinstance(annotation, str) else str(annotation)
            if text.startswith(("ClassVar", "typing.ClassVar")):
                continue
            self._types[name] = annotation
            self.given[name] = value = given(name, MISSING)
            if value is not MISSING and value.__class__.__hash__ is None:
                raise ValueError(f"the default of the field {name!r} is mutable: use field(default_factory=…)")
        self._entries: tuple[_Entry, ...] | None = None

    def __get__(self, instance: object, owner: type[Any] | None = None) -> dict[str, Any]:
        # What the standard library makes of the same fields. It must not create a class with the true bases, which
        # may register what is derived from them.
        inherited = {name: one for base in self._bases() for name, one in getattr(base, _FIELDS).items()}
        above = {_FIELDS: inherited, "__dataclass_params__": _Parameters(frozen=False)} if inherited else {}
        # With a docstring, the standard library does not make one from the signature, which takes longer than the rest.
        content = {"__doc__": self.cls.__name__, "__annotations__": dict(self._types)} | self.given
        scratch = type(self.cls.__name__, (type("base", (), above),), content)
        for name, value in self.given.items():
            if value is MISSING:
                delattr(scratch, name)
        scratch.__module__ = self.cls.__module__
        made: Any = dataclasses.dataclass(scratch, init=False, repr=False, eq=False, kw_only=self._kw_only)
        fields: dict[str, Any] = getattr(made, _FIELDS)
        type.__setattr__(self.cls, _FIELDS, fields)
        return fields

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.cls = owner

    def _bases(self) -> list[type[Any]]:
        return [base for base in reversed(self.cls.__mro__[1:]) if _FIELDS in vars(base)]

    @property
    def names(self) -> dict[str, None]:
        return dict.fromkeys([name for base in self._bases() for name in _names(base)] + list(self._types))

    @property
    def entries(self) -> tuple[_Entry, ...]:
        """All fields, those of the bases first."""
        if self._entries is None:
            found: dict[str, _Entry] = {}
            for base in self._bases():
                own = vars(base)[_FIELDS]
                entries = own.entries if isinstance(own, _Fields) else _standard_entries(base)
                found |= {entry.name: entry for entry in entries}
            for name, value in self.given.items():
                found[name] = _Entry(name, self._types[name], value, self._kw_only)
            self._entries = tuple(found.values())
        return self._entries


class _Parameters:
    """Arguments of the decorator that a derived class is compared with."""

    def __init__(self, *, frozen: bool) -> None:
        self.frozen = frozen


def _names(base: type[Any]) -> list[str]:
    own = vars(base)[_FIELDS]
    return [entry.name for entry in own.entries] if isinstance(own, _Fields) else list(own)


def _standard_entries(base: type[Any]) -> list[_Entry]:
    return [_Entry(one.name, one.type, one, bool(one.kw_only)) for one in dataclasses.fields(base)]


def _with_attributes(plain: type[Any], fields: _Fields, added: dict[str, Any]) -> type[Any]:
    """The class itself: a default is an attribute of it, the record of a field is not."""
    for name, value in fields.given.items():
        if isinstance(value, dataclasses.Field):
            if value.default is MISSING:
                delattr(plain, name)
            else:
                setattr(plain, name, value.default)
    for name, value in added.items():
        setattr(plain, name, value)
    return plain


def _with_slots(plain: type[Any], fields: _Fields, added: dict[str, Any]) -> type[Any]:
    """The class made again, with a slot for each field that no base has one for."""
    content = dict(vars(plain))
    if plain.__bases__ == (object,):
        content["__slots__"] = tuple(fields.given)
    else:
        inherited = {name for base in plain.__mro__[1:-1] for name in _slots_of(base)}
        content["__slots__"] = tuple([name for name in fields.names if name not in inherited])
    for name in (*fields.given, "__dict__", "__weakref__"):
        content.pop(name, None)
    content["__qualname__"] = plain.__qualname__
    content |= added
    metaclass: Any = type(plain)
    made: type[Any] = metaclass(plain.__name__, plain.__bases__, content)
    return made


def _slots_of(base: type[Any]) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


class _Late:
    """An attribute of a class that is computed when it is looked up for the first time."""

    __slots__ = ("_fields", "_make", "_name")

    def __init__(self, fields: _Fields, name: str, make: Any) -> None:
        self._fields, self._name, self._make = fields, name, make

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        value = self._made()
        type.__setattr__(self._fields.cls, self._name, value)
        return value.__get__(instance, owner) if isinstance(value, FunctionType) else value

    def _made(self) -> Any:
        return self._make(self._fields)


class _LateMethod(_Late):
    """A method that is made when it is looked up for the first time."""

    __slots__ = ()

    def _made(self) -> Any:
        return _named(self._make(self._name, self._fields.entries), self._fields.cls, self._name)


def _parameters(fields: _Fields) -> _Parameters:
    """The record of the decorator's arguments, as far as the standard library asks a base for it."""
    return _Parameters(frozen=fields.frozen)


def _match_args(fields: _Fields) -> tuple[str, ...]:
    """Names of the positional parameters."""
    return tuple([entry.name for entry in fields.entries if entry.init and not entry.kw_only])


class _LazyInit:
    """The `__init__` of a class until it is worth compiling."""

    def __init__(self, fields: _Fields) -> None:
        self._fields = fields
        self._left = _FEW

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        self._left -= 1
        if instance is None or self._left < 0:
            return self._compiled().__get__(instance, owner)
        return partial(self._fill, instance)

    def _compiled(self) -> Any:
        made = _init(self._fields)
        type.__setattr__(self._fields.cls, "__init__", made)
        return made

    def _fill(self, instance: Any, /, *args: Any, **named: Any) -> None:
        """Do what the compiled `__init__` does."""
        fields = self._fields
        filled = []
        given, taken = iter(args), 0
        wrong = False
        for entry in fields.entries:
            name = entry.name
            value = next(given, _ABSENT) if entry.init and not entry.kw_only else _ABSENT
            if value is _ABSENT and entry.init and name in named:
                value = named[name]
                taken += 1
            if value is _ABSENT:
                if entry.factory is not MISSING:
                    value = entry.factory()
                elif entry.default is not MISSING:
                    if not entry.init and not fields.slots:
                        continue  # the class has the default as an attribute
                    value = entry.default
                else:
                    wrong |= entry.init
                    continue
            filled.append((name, value))
        if wrong or taken < len(named) or next(given, _ABSENT) is not _ABSENT:
            self._compiled()(instance, *args, **named)  # it says what is wrong
            return
        if fields.frozen:
            for name, value in filled:
                object.__setattr__(instance, name, value)
        else:
            for name, value in filled:
                setattr(instance, name, value)
        if hasattr(fields.cls, "__post_init__"):
            instance.__post_init__()


class _Factory:
    """The default of a parameter whose field has a default factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(fields: _Fields) -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    parameters: dict[bool, dict[str, Any]] = {False: {}, True: {}}
    renamed, body = {}, []
    for place, entry in enumerate(fields.entries):
        made = entry.factory is not MISSING
        given = entry.default is not MISSING
        names[f"_{place}"] = entry.factory if made else entry.default
        value = f"f{place}"
        renamed[value] = entry.name
        if entry.init:
            parameters[bool(entry.kw_only)][value] = _FACTORY if made else entry.default
            if made:
                value = f"_{place}() if {value} is _FACTORY else {value}"
        elif made:
            value = f"_{place}()"
        elif given and fields.slots:  # without slots, the class has the default as an attribute
            value = f"_{place}"
        else:
            continue
        slot = getattr(fields.cls, entry.name, None) if fields.frozen else None
        if isinstance(slot, MemberDescriptorType):
            names[f"_slot{place}"] = slot.__set__  # a third faster than by name
            body.append(f"_slot{place}(self, {value})")
        else:
            names[f"_name{place}"] = entry.name
            body.append(f"_set(self, _name{place}, {value})" if fields.frozen else f"self.f{place} = {value}")
    if hasattr(fields.cls, "__post_init__"):
        body.append("self.__post_init__()")
    positional, named = parameters[False], parameters[True]
    listed = ["self", *positional, *(["*", *named] if named else [])]
    source = f"def __init__({', '.join(listed)}):\n " + "\n ".join(body or ["pass"])
    # Fields have numbers in it, so that classes of as many fields share it. A constant is what the definition makes.
    code = next(one for one in compiled(source).co_consts if isinstance(one, CodeType))
    seen, used = (tuple([renamed.get(one, one) for one in known]) for known in (code.co_varnames, code.co_names))
    defaults = [value is not MISSING for value in positional.values()]
    if defaults != sorted(defaults):
        raise TypeError(f"a field of {fields.cls.__name__} without a default follows one with a default")
    method = FunctionType(code.replace(co_varnames=seen, co_names=used), names, "__init__")
    method.__defaults__ = tuple([value for value in positional.values() if value is not MISSING])
    method.__kwdefaults__ = {renamed[name]: value for name, value in named.items() if value is not MISSING}
    method.__annotations__ = {entry.name: entry.type for entry in fields.entries if entry.init} | {"return": None}
    return _named(method, fields.cls, "__init__")


def _values(names: Any) -> Any:
    """A function that returns the values of an object's fields as a tuple."""
    listed = tuple(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    return lambda self: tuple(getattr(self, name) for name in listed)


def _repr(_: str, entries: tuple[_Entry, ...]) -> Any:
    names = tuple(entry.name for entry in entries if entry.shown)

    @recursive_repr()
    def shown(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return shown


def _comparison(name: str, entries: tuple[_Entry, ...]) -> Any:
    compare = getattr(tuple, name)
    values = _values(entry.name for entry in entries if entry.compared)

    def compared(self: Any, other: Any) -> Any:
        return compare(values(self), values(other)) if type(other) is type(self) else NotImplemented

    return compared


def _hash(_: str, entries: tuple[_Entry, ...]) -> Any:
    values = _values(entry.name for entry in entries if entry.hashed)

    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _set_attribute(fields: _Fields) -> Any:
    """A method that refuses to change fields, and whatever else of instances of the class itself."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is fields.cls or name in fields.names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(fields.cls, self).__setattr__(name, value)

    return set_attribute


def _delete_attribute(fields: _Fields) -> Any:
    """A method that refuses to delete fields, and whatever else of instances of the class itself."""

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is fields.cls or name in fields.names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(fields.cls, self).__delattr__(name)

    return delete_attribute


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _named(method: Any, cls: type[Any], name: str) -> Any:
    """Name a method as if it stood in the class."""
    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
    return method
