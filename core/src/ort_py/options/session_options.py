"""SessionOptions: the table of attributes with onnxruntime's methods. Sessions copy their options when they are made.

Comes after `session_attributes`, which declares the attributes, and `added`, which holds what the methods add.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ort_py.enums import OrtExecutionProviderDevicePolicy
from ort_py.errors import Fail, Location, UsageError
from ort_py.options.added import Added
from ort_py.options.option_set import entry_of
from ort_py.options.session_attributes import SessionAttributes

if TYPE_CHECKING:
    from ort_py.values.ort_value import OrtValue

_NO_BOUND = (1 << 64) - 1
"""Number that C programs write where any size will do."""


class SessionOptions(SessionAttributes):
    """Options of a session: onnxruntime's attributes and methods with its defaults, and those of ort-py.

    Attributes are checked when they are set. A session copies its options when it is made, so later edits have no
    effect on it. ``docs/user/options.md`` lists all attributes and config entries.
    """

    __slots__ = ("_added",)

    _added: Added

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_added", Added())

    def __copy__(self) -> Self:
        """Copy the options. Both hold the same values and the same cancellation flag; later edits stay apart."""
        twin = super().__copy__()
        object.__setattr__(twin, "_added", self._added.copied())
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, arguments = super().__reduce__()
        return (rebuild, arguments, self._added.to_state())

    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "_added", Added.from_state(state))

    def __repr__(self) -> str:
        text, added = super().__repr__(), str(self._added)
        return text if not added else f"{text[:-1]}{', ' if text[-2] != '(' else ''}{added})"

    # -- config entries ----------------------------------------------------------------------------------------

    def add_session_config_entry(self, key: str, value: str, /) -> None:
        """Set a config entry by onnxruntime's key.

        Raises:
            TypeError: Key or value is not a string.
            UsageError: The key is empty or longer than 1024 characters; a builtin RuntimeError too.
            OptionError: The key is close to a known one.
        """
        self._add_entry(key, value, "session")

    def get_session_config_entry(self, key: str, /) -> str:
        """A config entry.

        Raises:
            UsageError: It was never set; a builtin RuntimeError too, as in onnxruntime.
        """
        return self._get_entry(key)

    # -- initializers and dimensions ---------------------------------------------------------------------------

    def add_initializer(self, name: str, value: OrtValue, /) -> None:
        """Replace an initializer of the model; a name the model does not have changes nothing.

        The value is kept alive by the options and by sessions made with them.

        Raises:
            TypeError: `name` is not a string.
            UsageError: `value` is not a tensor in an `OrtValue`, or the name was given before.
        """
        _expect_text("name", name)
        from ort_py.values.ort_value import OrtValue

        if not isinstance(value, OrtValue):
            raise UsageError(
                f"The initializer '{name}' cannot be a {type(value).__name__}.",
                fix="Pass an OrtValue, e.g. OrtValue.ortvalue_from_numpy(array).",
            )
        _expect_new(name, self._added.initializers)
        self._added.initializers[name] = value

    def add_external_initializers(self, names: list[str], values: list[OrtValue], /) -> None:
        """Supply the data of initializers whose data is in files. These files are not read.

        Args:
            names: Names of the initializers.
            values: An `OrtValue` each, of the initializer's type and shape.

        Raises:
            TypeError: One of them is not a list.
            UsageError: There are not as many values as names, a value is not an `OrtValue`, or a name was given before.
        """
        from ort_py.values.ort_value import OrtValue

        for given in (names, values):
            if not isinstance(given, list):
                raise TypeError(f"names and values must be lists, not {type(given).__name__}.")
        _expect_equal_lengths(names, values)
        for name, value in zip(names, values, strict=True):
            _expect_text("names", name)
            if not isinstance(value, OrtValue):
                raise AttributeError(f"The initializer '{name}' must be an OrtValue, not {type(value).__name__}.")
            _expect_new(name, self._added.external_initializers)
            self._added.external_initializers[name] = value

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int], /
    ) -> None:
        """Supply the content of files with external data. These files are not read from disk.

        Args:
            names: Names of the files, as they appear in the model.
            buffers: Their content, anything with the buffer protocol; not copied, so it must not change.
            lengths: Number of bytes to use from each.

        Raises:
            TypeError: Something without the buffer protocol is given.
            UsageError: The lists differ in length.
        """
        _expect_equal_lengths(names, buffers)
        _expect_equal_lengths(names, lengths)
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            _expect_text("names", name)
            # A length past the end of the buffer gives what is there.
            self._added.files[name] = memoryview(buffer).cast("B")[: max(0, length)].toreadonly()

    def add_free_dimension_override_by_name(self, name: str, value: int, /) -> None:
        """Fix the size of a symbolic dimension; a name the model does not have changes nothing. The first call for a
        name counts. A negative size is reported and not enforced, as in onnxruntime.

        Raises:
            TypeError: `name` is not a string, or `value` not an integer.
        """
        _expect_text("name", name)
        self._added.dimensions.setdefault(name, _whole(value))

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int, /) -> None:
        """Fix the size of each dimension of the model's inputs with a denotation, e.g. ``DATA_BATCH``.

        Raises:
            TypeError: `denotation` is not a string, or `value` not an integer.
        """
        _expect_text("denotation", denotation)
        self._added.denotations.setdefault(denotation, _whole(value))

    # -- providers ---------------------------------------------------------------------------------------------

    def register_custom_ops_library(self, path: str | os.PathLike[str], /) -> None:
        """Refuse a library of custom operators, which is native code for onnxruntime's own kernels.

        Raises:
            TypeError: `path` is not a path.
            Fail: The file does not exist, or is a native library, which ort-py does not load.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"A library must be given by its path, not by {path!r}.")
        file = os.fspath(path)
        if not os.path.exists(file):  # `Path.exists` raises where a path is too long
            raise Fail(
                f"The library '{file}' does not exist.", where=Location(file=file), fix="Check the path of the library."
            )
        raise Fail(
            f"The library '{file}' of custom operators cannot be loaded.",
            where=Location(file=file),
            why="it calls onnxruntime's native interface, which ort-py does not have",
            fix="Contribute the operators as a Python plug-in: see docs/plugin-author.",
        )

    def add_provider(self, name: str, options: Mapping[str, str], /) -> None:
        """Add a provider, after those added before, for sessions that are created without `providers`.

        Args:
            name: Its name.
            options: Its options; names and values are strings.

        Raises:
            TypeError: An argument has a wrong type.
            ProviderNotFoundError: No provider of that name is known; a builtin RuntimeError too.
            InvalidArgument: It is known and cannot be used here.
        """
        from ort_py.discovery.refusals import check_provider_name

        _expect_text("name", name)
        checked = _text_options(options)
        check_provider_name(name)
        if name not in dict(self._added.providers):
            self._added.providers.append((name, checked))

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str], /) -> None:
        """Use the provider of some `OrtEpDevice`s, after those added before.

        Args:
            devices: Devices of one provider, from `get_ep_devices`.
            options: Its options; names and values are strings.

        Raises:
            TypeError: An argument has a wrong type.
            InvalidArgument: The list of devices is empty, or they are of several providers.
        """
        from ort_py.discovery.ep_devices import provider_of

        checked = _text_options(options)
        name = provider_of(devices)
        if name not in dict(self._added.providers):
            self._added.providers.append((name, checked))

    def has_providers(self) -> bool:
        """Return whether these options choose providers."""
        return self._added.has_providers

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy, /) -> None:
        """Choose providers by a policy in sessions that are not given `providers`.

        Raises:
            TypeError: `policy` is not an `OrtExecutionProviderDevicePolicy`.
        """
        if not isinstance(policy, OrtExecutionProviderDevicePolicy):
            raise TypeError(f"A policy must be an OrtExecutionProviderDevicePolicy, not {policy!r}.")
        self._added.policy, self._added.delegate = policy, None

    def set_provider_selection_policy_delegate(
        self, delegate: Callable[[Sequence[Any], Mapping[str, str], Mapping[str, str], int], Sequence[Any]], /
    ) -> None:
        """Let a function choose the devices in sessions that are not given `providers`.

        Args:
            delegate: Called with the usable `OrtEpDevice`s, the model's metadata, the runtime's metadata and the
                largest number of devices; returns those to use, in order.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(delegate):
            raise TypeError(f"A delegate must be a function, not {delegate!r}.")
        self._added.policy, self._added.delegate = None, delegate

    # -- loading -----------------------------------------------------------------------------------------------

    def set_load_cancellation_flag(self, cancel: bool, /) -> None:
        """Stop, or no longer stop, sessions that are being made with these options, from any thread.

        They raise `ModelLoadCanceled`.
        """
        self._added.load_flag.cancelled = bool(cancel)

    def set_ep_context_data_read_func(self, read_func: Callable[[str, Any], None], max_data_size: int) -> None:
        """Read the data of compiled nodes through a function.

        Args:
            read_func: Called with a file's name and an `OrtEpContextDataBuffer` to fill.
            max_data_size: Largest size of the data in bytes.

        Raises:
            TypeError: `read_func` cannot be called, or the size is not a number of bytes.
            UsageError: No function is given, or the size allows no byte or any number of bytes.
        """
        size = _whole(max_data_size)
        if (read_func is not None and not callable(read_func)) or not 0 <= size <= _NO_BOUND:
            raise TypeError(
                f"The arguments must be a function and a number of bytes, not {read_func!r} and {max_data_size!r}."
            )
        if read_func is None or size in (0, _NO_BOUND):
            raise UsageError(
                "Data of compiled nodes cannot be read this way.",
                why="there is no function" if read_func is None else f"max_data_size is {size}",
                fix="Pass a function and the largest size, or call clear_ep_context_data_read_func().",
            )
        self._added.read_context = (read_func, size)

    def clear_ep_context_data_read_func(self) -> None:
        """Undo `set_ep_context_data_read_func`."""
        self._added.read_context = None


def additions_of(options: SessionOptions) -> Added:
    """Return what the methods of some options have added."""
    return options._added


def calculates_fast(options: SessionOptions) -> bool:
    """Return whether fast math is asked for, by the attribute or by the config entry."""
    return options.fast_math or entry_of(options, "session.fast_math") == "1"


def reuses_memory(options: SessionOptions) -> bool:
    """Return whether runs may write into memory that is reserved for their shapes; it takes both options."""
    return options.enable_mem_pattern and options.enable_mem_reuse


def _expect_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what}: it must be a string, not {value!r}.")


def _expect_new(name: str, known: Mapping[str, Any]) -> None:
    if name in known:
        raise UsageError(
            f"A value for the initializer '{name}' was already added.", fix="Add each name once, or make new options."
        )


def _expect_equal_lengths(names: Sequence[Any], others: Sequence[Any]) -> None:
    if len(names) != len(others):
        raise UsageError(f"{len(names)} names and {len(others)} values are given.", fix="Pass a value for each name.")


def _whole(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"A size must be a whole number, not {value!r}.")
    return int(value)


def _text_options(options: Any) -> dict[str, str]:
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for pair in options.items() for text in pair):
        raise TypeError(f"The options of a provider must be a mapping of strings to strings, not {options!r}.")
    return dict(options)
