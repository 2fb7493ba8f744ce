"""`typing.NamedTuple`, of which each class is made in a sixth of the time.

The standard library compiles the constructor of each such class when its module is imported. Here the code is that of
any class with as many fields, under other names, and the archive of bytecode keeps it. Classes have the same methods
and attributes, and no base but `tuple`. They are made by the class statement only, and are not generic. Type checkers
see the standard class. Plug-ins may import this module. It must not know the rest.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined] # typeshed leaves it out
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ort_py.bytecode import compiled

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        def __new__(mcs, name, bases, content):
            if not bases:
                return super().__new__(mcs, name, bases, content)
            if len(bases) > 1:
                raise TypeError(f"{name} has bases besides NamedTuple")
            fields = tuple(content.get("__annotations__", ()))
            defaults = {field: content.pop(field) for field in fields if field in content}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"a field of {name} without a default follows one with a default")
            for place, field in enumerate(fields):
                if field.startswith("_"):
                    raise ValueError(f"the field {field!r} of {name} begins with an underscore")
                content[field] = _tuplegetter(place, f"Alias for field number {place}")
            content.setdefault("__doc__", f"{name}({', '.join(fields)})")
            added = _METHODS | {
                "__slots__": (),
                "__new__": _constructor(name, fields, tuple(defaults.values())),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
            }
            return type(name, (tuple,), added | content)

    class NamedTuple(metaclass=_Maker):
        """The base of a class statement whose annotations are the fields; as `typing.NamedTuple`."""


def _constructor(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> Any:
    listed = "".join([f", f{place}" for place in range(len(fields))])
    source = f"def __new__(_cls{listed}):\n return _new(_cls, ({listed[2:]}{',' if fields else ''}))"
    code = next(one for one in compiled(source).co_consts if isinstance(one, CodeType))
    known = {"_new": tuple.__new__, "__builtins__": {}, "__name__": f"namedtuple_{name}"}
    made = FunctionType(code.replace(co_varnames=("_cls", *fields)), known, "__new__")
    made.__defaults__ = defaults or None
    made.__doc__ = f"Create new instance of {name}({', '.join(fields)})"
    return made


def _make(cls: Any, iterable: Any) -> Any:
    made = tuple.__new__(cls, iterable)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **named: Any) -> Any:
    made = self._make([named.pop(field, value) for field, value in zip(self._fields, self, strict=True)])
    if named:
        raise ValueError(f"Got unexpected field names: {list(named)!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    shown = ", ".join([f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)])
    return f"{self.__class__.__name__}({shown})"


def _arguments(self: Any) -> tuple[Any, ...]:
    return tuple(self)


_METHODS: dict[str, Any] = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "__replace__": _replace,
    "_asdict": _asdict,
    "__repr__": _repr,
    "__getnewargs__": _arguments,
}
