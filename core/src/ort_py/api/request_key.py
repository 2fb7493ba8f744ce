"""The key of a request for a session: model, options and providers as one value. Equal keys mean one session.

A file counts with its present content: one that was replaced or rewritten is another model. Knows no sessions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ort_py.files import FileIdentity
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.reading.sources import content_hash
from ort_py.options import SessionOptions, additions_of, entries_of, values_of

RequestKey: TypeAlias = tuple[Any, ...]


def request_key(
    source: GivenModel, options: SessionOptions | None, providers: Any, provider_options: Any
) -> RequestKey:
    """The key that distinguishes a session from others.

    Args:
        source: The model as it was given.
        options: Options, None for the usual ones.
        providers: Names or (name, options) pairs, None for all.
        provider_options: A mapping a provider.
    """
    return (
        _of_source(source),
        _of_options(options if options is not None else SessionOptions()),
        _of_value(providers),
        _of_value(provider_options),
    )


def _of_source(source: GivenModel) -> RequestKey:
    path = source.path
    if path:
        # Links lead to the same file, but external data is looked for in the folder of the link as well.
        folder = os.path.realpath(os.path.dirname(path))
        try:
            found = FileIdentity.of(os.stat(path))
        except (OSError, ValueError):
            return ("file", folder, path)  # creating the session says what is wrong with it
        return ("file", folder, found)
    content = source.content.SerializeToString(deterministic=True) if source.is_message else bytes(source.content)
    return ("content", content_hash(content))


def _of_options(options: SessionOptions) -> RequestKey:
    added = additions_of(options)
    # Values that are not plain data count as equal only if they are the same object; a session keeps what it was given
    # alive.
    objects = [*added.initializers.items(), *added.external_initializers.items(), *added.files.items()]
    functions = (added.delegate, added.read_context and added.read_context[0])
    return (
        _of_value(values_of(options)),
        _of_value(entries_of(options)),
        _of_value({**added.dimensions}),
        _of_value({**added.denotations}),
        _of_value(added.providers),
        str(added.policy),
        tuple((name, id(value)) for name, value in objects),
        tuple(id(function) for function in functions if function is not None),
    )


def _of_value(value: Any) -> Any:
    """Plain data as something that can be hashed."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _of_value(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return tuple(sorted(map(str, value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(_of_value(item) for item in value)
    return value if isinstance(value, str | bytes | bool | int | float | type(None)) else repr(value)
