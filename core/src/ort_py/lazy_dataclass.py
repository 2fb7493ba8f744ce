"""`dataclass` of the standard library, without code that is generated while modules are imported.

The standard decorator compiles up to seven methods for each class when its module is imported. In a process that starts
and answers once, that is a quarter of the time, and most of these classes are never instantiated. Here `__init__` is
compiled when a class is used for the first time, and the other methods are ordinary functions over the fields. Type
checkers see the standard decorator.

`dataclasses.fields`, `replace`, `asdict` and `field` serve these classes as they serve others. `InitVar` is not
supported: such a class uses the standard decorator. Plug-ins may import this module. It must not know the rest.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

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
            methods = {}
            if init and "__init__" not in own:
                methods["__init__"] = _LazyInit(frozen, slots)
            made = dataclasses.dataclass(plain, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)
            fields = dataclasses.fields(made)
            compared = _values(field.name for field in fields if field.compare)
            if repr and "__repr__" not in own:
                methods["__repr__"] = _repr(tuple(field.name for field in fields if field.repr))
            if eq and "__eq__" not in own:
                methods["__eq__"] = _comparison("__eq__", compared)
            if eq and not hashes:
                hashed = (field.name for field in fields if (field.compare if field.hash is None else field.hash))
                methods["__hash__"] = _hash(_values(hashed)) if frozen else None
            if order:
                methods |= {name: _comparison(name, compared) for name in ("__lt__", "__le__", "__gt__", "__ge__")}
            if frozen:
                methods |= _frozen(made)
                if slots and "__getstate__" not in own:
                    methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
            for name, method in methods.items():
                setattr(made, name, method)
                if method is not None:
                    method.__set_name__(made, name) if name == "__init__" else _name(method, made, name)
            return made

        return decorated if cls is None else decorated(cls)


class _LazyInit:
    """The `__init__` of a class until it is looked up for the first time: then it is compiled and replaces this."""

    def __init__(self, frozen: bool, slots: bool) -> None:
        self._frozen = frozen
        self._slots = slots
        self._cls: type[Any] = object

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._cls = owner

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        made = _init(self._cls, self._frozen, self._slots)
        type.__setattr__(self._cls, "__init__", made)
        return made.__get__(instance, owner)


class _Factory:
    """The default of a parameter whose field has a default factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: type[Any], frozen: bool, slots: bool) -> Any:
    """Compile the `__init__` of a class from its fields."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    body = []
    fields = dataclasses.fields(cls)
    for place, field in enumerate(fields):
        made = field.default_factory is not dataclasses.MISSING
        given = field.default is not dataclasses.MISSING
        names[f"_{place}"] = field.default_factory if made else field.default
        value = field.name
        if field.init:
            default = " = _FACTORY" if made else f" = _{place}" if given else ""
            parameters[bool(field.kw_only)].append(field.name + default)
            if made:
                value = f"_{place}() if {field.name} is _FACTORY else {field.name}"
        elif made:
            value = f"_{place}()"
        elif given and slots:  # without slots, the class has the default as an attribute
            value = f"_{place}"
        else:
            continue
        body.append(f"_set(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    listed = ["self", *parameters[False], *(["*", *parameters[True]] if parameters[True] else [])]
    source = f"def __init__({', '.join(listed)}):\n " + "\n ".join(body or ["pass"])
    exec(source, names)  # noqa: S102 - of names of fields, which are identifiers, as the standard library does it
    method = names["__init__"]
    method.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    _name(method, cls, "__init__")
    return method


def _values(names: Any) -> Any:
    """A function that returns the values of an object's fields as a tuple."""
    listed = tuple(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    return lambda self: tuple(getattr(self, name) for name in listed)


def _repr(names: tuple[str, ...]) -> Any:
    @recursive_repr()
    def shown(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return shown


def _comparison(name: str, values: Any) -> Any:
    compare = getattr(tuple, name)

    def compared(self: Any, other: Any) -> Any:
        return compare(values(self), values(other)) if type(other) is type(self) else NotImplemented

    return compared


def _hash(values: Any) -> Any:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _frozen(cls: type[Any]) -> dict[str, Any]:
    """Methods that refuse to change fields, and whatever else of instances of the class itself."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _name(method: Any, cls: type[Any], name: str) -> None:
    """Name a method as if it stood in the class."""
    if method in (_getstate, _setstate):
        return
    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
