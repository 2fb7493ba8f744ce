"""Nodes that hold engines, in the form of onnxruntime's providers: EPContext of the domain com.microsoft.

``ep_cache_context`` is the engine itself, or the name of a file if ``embed_mode`` is 0; ``source`` is the name of the
provider, and ``ep_sdk_version`` the version of its library. ``notes`` is free text, in which ort-py's own nodes say for
which shapes the engine was built. Reads nodes and makes them; does not load engines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import onnx
from onnx import helper

from ort_py.contracts import NodeSpec
from ort_py.errors import EPFail
from ort_py.files import open_regular
from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.context_schema import DOMAIN, OPERATOR
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import Variant
from ort_py_tensorrt.wishes import Wishes

__all__ = ["Embedded", "engine_in", "engine_of", "is_context", "make_node", "problems", "read", "refusal"]

_FORMAT = "ort-py 1"


@dataclass(frozen=True, slots=True)
class Embedded:
    """An engine of a node.

    Attributes:
        engine: The engine.
        inputs: Names of its inputs, in the order of the node's.
        outputs: Names of its outputs.
        profile: Shapes that it was built for; None if the node does not say.
    """

    engine: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]
    profile: Profile | None


def is_context(node: NodeSpec) -> bool:
    """Return whether a node holds an engine of some provider."""
    return node.op_type == OPERATOR and node.domain == DOMAIN


def make_node(
    variant: Variant,
    version: str,
    embedded: Embedded,
    *,
    name: str,
    hardware: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    file: str = "",
) -> onnx.NodeProto:
    """Return a node that holds an engine.

    Args:
        variant: The library.
        version: Its version.
        embedded: The engine.
        name: Name of the node.
        hardware: Devices that the engine is for, in words of the library.
        inputs: Names of the model's values that the engine reads, in order.
        outputs: Names of those that it writes.
        file: Name of the file beside the model that holds the engine; empty if the node does.
    """
    notes = {
        "format": _FORMAT,
        "inputs": list(embedded.inputs),
        "outputs": list(embedded.outputs),
        "profile": None if embedded.profile is None else embedded.profile.to_json(),
        "sha256": hashlib.sha256(embedded.engine).hexdigest(),
    }
    return helper.make_node(
        OPERATOR,
        list(inputs),
        list(outputs),
        name=name,
        domain=DOMAIN,
        main_context=1,
        embed_mode=0 if file else 1,
        ep_cache_context=file or embedded.engine,
        ep_sdk_version=version,
        hardware_architecture=hardware,
        partition_name=name,
        source=variant.provider,
        notes=json.dumps(notes, sort_keys=True),
    )


def problems(attributes: Mapping[str, Any], toolkit: Toolkit) -> list[str]:
    """Return why the engine of a node cannot be loaded with a library; empty if nothing speaks against it.

    What is looked at needs no device: the provider, the version, and the checksum. Whether the engine is for a device
    only the library says, where there is one.

    Args:
        attributes: Attributes of the node.
        toolkit: The library.
    """
    found: list[str] = []
    source, version = _text(attributes.get("source")), _text(attributes.get("ep_sdk_version"))
    if source != toolkit.variant.provider:
        found.append(f"it is an engine of {source or 'an unnamed provider'}")
    elif version and version != toolkit.version:
        found.append(f"it was built by {toolkit.variant.title} {version}, and {toolkit.version} is installed")
    if not attributes.get("main_context", 1):
        found.append("it is a part of the engine of another node")
    wanted = _notes(attributes).get("sha256")
    if attributes.get("embed_mode", 1) and wanted is not None:
        engine = engine_of(attributes)
        if hashlib.sha256(engine).hexdigest() != wanted:
            found.append("its engine is damaged")
    return found


def refusal(node: NodeSpec, toolkit: Toolkit, wishes: Wishes) -> str | None:
    """Explain why the engine of a node is not loaded, or return None."""
    reasons = problems(node.attributes, toolkit)
    if not reasons and not wishes.trusts_engines:
        return "it holds an engine, which is code: the option allow_embedded_engines allows it"
    if not reasons and not node.attributes.get("embed_mode", 1) and not wishes.engine_folder:
        option = f"{toolkit.variant.prefix}_ep_context_file_path"
        return f"its engine is in a file beside the model: the option {option} names the folder"
    return "; ".join(reasons) or None


def read(node: NodeSpec, toolkit: Toolkit, wishes: Wishes) -> Embedded:
    """Return the engine of a node.

    Raises:
        EPFail: It is in a file that is not there, damaged, or outside of the folder that the options name.
    """
    attributes = node.attributes
    engine = engine_in(attributes, Path(wishes.engine_folder))
    notes = _notes(attributes)
    profile = notes.get("profile")
    inputs = [value.name for value in node.inputs if value is not None]
    outputs = [value.name for value in node.outputs if value is not None]
    return Embedded(
        engine,
        notes.get("inputs", inputs),
        notes.get("outputs", outputs),
        None if profile is None else Profile.from_json(profile),
    )


def engine_of(attributes: Mapping[str, Any]) -> bytes:
    """Return the engine that a node contains."""
    found = attributes.get("ep_cache_context", b"")
    return found.encode("utf-8") if isinstance(found, str) else bytes(found)


def engine_in(attributes: Mapping[str, Any], folder: Path) -> bytes:
    """Return the engine that a node contains or names.

    Args:
        attributes: Attributes of the node.
        folder: Folder of files beside the model.

    Raises:
        EPFail: It is in a file that is not there, damaged, or outside of the folder.
    """
    if attributes.get("embed_mode", 1):
        return engine_of(attributes)
    name = _text(attributes.get("ep_cache_context"))
    engine, wanted = _from_file(name, folder), _notes(attributes).get("sha256")
    if wanted is not None and hashlib.sha256(engine).hexdigest() != wanted:
        raise EPFail(
            f"The file '{name}' holds another engine than its model, or is damaged.",
            why="its digest is another one",
            fix="Copy the model together with its engines, or write both again.",
        )
    return engine


def _from_file(name: str, folder: Path) -> bytes:
    parts = PurePosixPath(name.replace("\\", "/"))
    if not name or parts.is_absolute() or ".." in parts.parts or ":" in name:
        raise EPFail(
            f"A model names the file '{name}' for its engine.",
            why="it is outside of the folder that the options name",
            fix="Name a file inside of it.",
        )
    try:
        with open_regular(folder.joinpath(*parts.parts), links=False) as file:
            return bytes(file.read())
    except OSError as error:
        raise EPFail(
            f"The file '{name}' of an engine cannot be read.", why=str(error), fix="Put it into the folder."
        ) from error


def _notes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what ort-py's own nodes say; empty for those of onnxruntime."""
    try:
        found = json.loads(_text(attributes.get("notes")) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("format") == _FORMAT else {}


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
