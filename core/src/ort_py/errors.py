"""All exceptions that ort-py raises, and the four parts of their messages.

A leaf. Everything else may import it, plug-ins included.

A message answers *what* happened, *where* (node, provider, value, file), *why* (all reasons, not the
first) and *what to do*. The class names and codes are onnxruntime's, so ``except`` clauses written for it
keep their meaning; unlike there, all classes share one base, and the builtin class that onnxruntime
raises in the same place is a second base where the two differ.

::

    OrtPyError
    ├── Fail                            1
    │   ├── LimitError                  a budget of `Limits` was exceeded
    │   │   └── MemoryLimitError        the memory that a session or a run may take
    │   ├── RunTimeoutError             also TimeoutError: a run took longer than its caller allowed
    │   ├── CompiledModelError          a compiled model is damaged, or was not made for this session
    │   ├── BindingError                also RuntimeError: a run with an IOBinding failed; `__cause__` says how
    │   ├── PluginError                 a plug-in broke; `__cause__` is its own exception
    │   └── ExecutionError              a kernel or region raised during `run`
    ├── InvalidArgument                 2
    │   ├── AbsentInputError            also Fail: an input that is not optional was fed None
    │   ├── MissingInputError           also ValueError
    │   ├── OptionError                 also ValueError: unknown or malformed option
    │   ├── UsageError                  also RuntimeError: a call onnxruntime's binding refuses
    │   ├── KernelInputError            also Fail, RuntimeException: a kernel refused what reached it in a run
    │   ├── ArgumentTypeError           also TypeError, AttributeError: an argument of an unusable type
    │   └── KernelConflictError         two kernels claim the same operator version and types
    ├── NoSuchFile                      3  also FileNotFoundError
    ├── NoModel                         4
    ├── EngineError                     5
    ├── RuntimeException                6
    ├── InvalidProtobuf                 7
    ├── ModelLoaded                     8
    ├── NotImplemented                  9
    │   ├── NotYetError                 also NotImplementedError: a function of onnxruntime that is not written yet
    │   └── KernelNotFoundError         no provider of the session has a kernel
    ├── InvalidGraph                    10
    │   ├── InconsistentGraph           also Fail: names, types or shapes do not fit together
    │   └── DanglingInputError          also InvalidArgument: a node reads a value that no node writes
    ├── EPFail                          11
    │   ├── ProviderNotAvailableError   also RuntimeError: installed, but not usable here
    │   └── ProviderNotFoundError       also RuntimeError: no such provider is installed
    ├── ModelLoadCanceled               12
    ├── ModelRequiresCompilation        13
    ├── NotFound                        14
    └── DeviceReset                     15
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line, printable


def operator_title(op_type: str, domain: str) -> str:
    """An operator as messages and reports write it: ``Conv``, ``com.example.Gelu``."""
    return f"{domain}.{op_type}" if domain else op_type


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a model where something happened. Empty fields are unknown and left out of messages.

    Attributes:
        node: Name of the node; where a node has none, the name of its first output.
        op_type: Operator, e.g. ``"Conv"``.
        domain: Operator domain, ``""`` for ``ai.onnx``.
        provider: Execution provider, e.g. ``"CPUExecutionProvider"``.
        value: Name of the tensor, input or output concerned.
        path: Names of the enclosing control-flow nodes and functions, outermost first.
        file: File concerned.
    """

    node: str = ""
    op_type: str = ""
    domain: str = ""
    provider: str = ""
    value: str = ""
    path: tuple[str, ...] = ()
    file: str = ""

    def __str__(self) -> str:
        op = operator_title(self.op_type, self.domain)
        parts = [
            f"node '{self.node}'" if self.node else "",
            f"operator {op}" if op else "",
            f"value '{self.value}'" if self.value else "",
            f"provider {self.provider}" if self.provider else "",
            f"inside {' > '.join(repr(step) for step in self.path)}" if self.path else "",
            f"file '{self.file}'" if self.file else "",
        ]
        return ", ".join(one_line(part) for part in parts if part)


class OrtPyError(Exception):
    """Base of everything ort-py raises on purpose.

    Args:
        what: One sentence: what went wrong.
        where: Place in the model, or free text.
        why: Every reason known, in the order they were found.
        fix: Advice to the reader.

    Attributes:
        code: onnxruntime's numeric status of this class, 0 where it has none.
        what, where, why, fix: The parts of the message, for programs.
    """

    code: ClassVar[int] = 0

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is not None:
            cls.code = code

    def __init__(self, what: str, *, where: Location | str = "", why: Iterable[str] | str = (), fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why: tuple[str, ...] = (why,) if isinstance(why, str) else tuple(why)
        self.why = tuple(reason for reason in self.why if reason)
        self.fix = fix

    @property
    def location(self) -> Location:
        """The place as a record; empty if only its text is known."""
        return self.where if isinstance(self.where, Location) else Location()

    def __str__(self) -> str:
        # Names of a model are in every part: none of them begins a line of its own.
        lines = [_part(self.what, "  ")]
        where = str(self.where)
        if where:
            lines.append(_part(f"  where: {where}", "    "))
        if len(self.why) == 1:
            lines.append(_part(f"  why: {self.why[0]}", "    "))
        elif self.why:
            lines.append("  why:")
            lines.extend(_part(f"    - {reason}", "      ") for reason in self.why)
        if self.fix:
            lines.append(_part(f"  what to do: {self.fix}", "    "))
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own pickling replays `args` only and would lose the keyword parts.
        return (_rebuild, (type(self), self.what, self.where, self.why, self.fix))


def _part(text: str, indent: str) -> str:
    """Format a part of a message. Further lines, such as another library's message, are indented more."""
    return text if text.isprintable() else printable(text).replace("\n", f"\n{indent}| ")


def _rebuild(cls: type[OrtPyError], what: str, where: Location | str, why: tuple[str, ...], fix: str) -> OrtPyError:
    return cls(what, where=where, why=why, fix=fix)


class Fail(OrtPyError, code=1):
    """A general failure (onnxruntime status 1, FAIL)."""


class LimitError(Fail):
    """A model or a run asked for more than `Limits` allow; nothing was allocated."""


class MemoryLimitError(LimitError):
    """A session, or one of its runs, would hold more memory than `SessionOptions.memory_limit_bytes` allows.

    Attributes:
        largest: The largest consumers: (name of a node or a constant, bytes), the largest first.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Location | str = "",
        why: str | Iterable[str] = (),
        fix: str = "",
        largest: tuple[tuple[str, int], ...] = (),
    ) -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.largest = largest

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"largest": self.largest})


class RunTimeoutError(Fail, TimeoutError):
    """A run took longer than the caller of `run_asyncio` allowed, and was stopped."""


class CompiledModelError(Fail):
    """A compiled model is damaged, or was made for another machine, other versions or other options; see `why`."""


class BindingError(Fail, RuntimeError):
    """A run with an `IOBinding` failed; ``__cause__`` says how. onnxruntime raises a builtin RuntimeError here."""


class PluginError(Fail):
    """A plug-in raised, was malformed, or does not fit this core. ``__cause__`` is its own exception."""


class ExecutionError(Fail):
    """A kernel or a compiled region raised while a model ran. ``__cause__`` is its own exception."""


class InvalidArgument(OrtPyError, code=2):
    """The caller passed something wrong (onnxruntime status 2, INVALID_ARGUMENT)."""


class AbsentInputError(InvalidArgument, Fail):
    """An input that is not optional was fed None. onnxruntime's kernels raise Fail here."""


class MissingInputError(InvalidArgument, ValueError):
    """`run` was called without a required input. onnxruntime raises a builtin ValueError here."""


class OptionError(InvalidArgument, ValueError):
    """An option is unknown or its value is malformed."""


class UsageError(InvalidArgument, RuntimeError):
    """A call that cannot be answered. onnxruntime's binding raises a builtin RuntimeError in these places."""


class ArgumentTypeError(InvalidArgument, TypeError, AttributeError):
    """An argument of a wrong type.

    onnxruntime's binding raises a builtin TypeError in these places, its Python part asks the object for something and
    so raises an AttributeError.
    """


class KernelConflictError(InvalidArgument):
    """Two kernels of one provider claim the same operator versions and types."""


class NoSuchFile(OrtPyError, FileNotFoundError, code=3):
    """A file does not exist (onnxruntime status 3, NO_SUCHFILE)."""


class NoModel(OrtPyError, code=4):
    """No model was given (onnxruntime status 4, NO_MODEL)."""


class EngineError(OrtPyError, code=5):
    """The engine is in a state it should not be in (onnxruntime status 5, ENGINE_ERROR)."""


class RuntimeException(OrtPyError, code=6):
    """An unexpected failure while running (onnxruntime status 6, RUNTIME_EXCEPTION)."""


class KernelInputError(InvalidArgument, Fail, RuntimeException):
    """A kernel refused, during a run, what reached it: shapes that do not fit, an index out of range, a zero divisor.

    onnxruntime has three classes for it, another one from operator to operator, so all of them are bases.
    """


class InvalidProtobuf(OrtPyError, code=7):
    """The bytes are not an ONNX model (onnxruntime status 7, INVALID_PROTOBUF)."""


class ModelLoaded(OrtPyError, code=8):
    """A model is loaded already (onnxruntime status 8, MODEL_LOADED)."""


class NotImplemented(OrtPyError, code=9):  # noqa: A001 - onnxruntime's public name, which applications catch
    """Valid, but nothing here implements it (onnxruntime status 9, NOT_IMPLEMENTED)."""


class NotYetError(NotImplemented, NotImplementedError):
    """A function that onnxruntime has and ort-py does not have yet; says what to use instead."""


class KernelNotFoundError(NotImplemented):
    """No provider of the session can run a node. `why` lists every refusal."""


class InvalidGraph(OrtPyError, code=10):
    """The model contradicts the ONNX specification (onnxruntime status 10, INVALID_GRAPH)."""


class InconsistentGraph(InvalidGraph, Fail):
    """Parts of a model do not fit together. onnxruntime reports this as a general failure (status 1, FAIL)."""


class DanglingInputError(InvalidGraph, InvalidArgument):
    """A node reads a value that no node writes. onnxruntime blames the caller for it (status 2, INVALID_ARGUMENT)."""


class EPFail(OrtPyError, code=11):
    """An execution provider failed (onnxruntime status 11, EP_FAIL)."""


class ProviderNotAvailableError(EPFail, RuntimeError):
    """A provider is installed but cannot be used here; the reason is in `why`."""


class ProviderNotFoundError(EPFail, RuntimeError):
    """No installed distribution has a provider of this name."""


class ModelLoadCanceled(OrtPyError, code=12):
    """Loading was cancelled by the caller (onnxruntime status 12, MODEL_LOAD_CANCELED)."""


class ModelRequiresCompilation(OrtPyError, code=13):
    """The model has to be compiled first (onnxruntime status 13, MODEL_REQUIRES_COMPILATION)."""


class NotFound(OrtPyError, code=14):
    """Something looked up by name is not there (onnxruntime status 14, NOT_FOUND)."""


class DeviceReset(OrtPyError, code=15):
    """The device was reset or lost (onnxruntime status 15, DEVICE_RESET)."""


class ProviderFallbackWarning(UserWarning):
    """A requested provider was skipped for a later one; the session's report holds the reason."""
