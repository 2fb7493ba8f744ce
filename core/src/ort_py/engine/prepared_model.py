"""A prepared model as the content of a file and back: the graph, the provider of each node, and the constants.

Between `session_cache` and `compiled_model`, which decide where such a file lies and when it counts, and the rooms
`cache` and `graph`, which know its parts. The description has two lines: a head with what users are told about the
model, and the record. Kernels are named, never stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ort_py.cache.constants import ConstantReader, ConstantWriter
from ort_py.cache.format import damage_of_blocks, description_of, head_digest
from ort_py.cache.model_record import ModelReader, ModelWriter
from ort_py.cache.store import FileStore
from ort_py.contracts import IExecutionProvider
from ort_py.engine.assignment_record import assignment_record, read_assignment
from ort_py.engine.contributions import Contributions
from ort_py.files import FileIdentity
from ort_py.graph.ir import Model
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.graph.weights.weights import MappedFile
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.assignment import Assignment, Region

KIND = "model"
"""Of files with a prepared model."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a file that is to be written.

    Attributes:
        blocks: Gives the bytes of each block.
        size: Bytes of all blocks.
    """

    description: bytes
    blocks: Iterable[Any]
    size: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared model that was read.

    Attributes:
        assignment: The provider that runs each node.
    """

    model: Model
    assignment: Assignment
    keys: Mapping[Region, str]


def head_of_model(model: Model, assignment: Assignment, notes: Sequence[str]) -> dict[str, Any]:
    """Information for users about a prepared model, without reading all of it."""
    return {
        "title": os.path.basename(model.source) or model.graph.name,
        "nodes": len(assignment.nodes),
        "providers": dict(assignment.counts()),
        "notes": list(notes),
    }


def entry_of_model(
    model: Model,
    assignment: Assignment,
    keys: Mapping[Region, str],
    head: Mapping[str, Any],
    external: Callable[[MappedFile], str] | None,
    files: Mapping[str, Any],
) -> Entry:
    """The content of the file of a model.

    Args:
        external: Returns the model's name for a file of external data; None where the file is to hold its data, too.
        files: What is known of each of these files, filled by the time that all constants were asked for.

    Raises:
        NotStorableError: The model has something that has no form in the file.
        OrtPyError: A constant cannot be read any more.
    """
    constants = ConstantWriter(external)
    written = ModelWriter(model, constants)
    graph = written.record()
    assigned = assignment_record(assignment, written, keys)
    rows, blocks = constants.finish()
    record = {"graph": graph, "assignment": assigned, "constants": rows, "external": dict(files)}
    # The fingerprint may read the model's file, so it is asked for here, in the background.
    lines = [{**head, "fingerprint": str(model.fingerprint)}, record]
    description = b"\n".join(json.dumps(part, separators=(",", ":")).encode() for part in lines)
    return Entry(description, (block() for block in blocks), constants.size)


class PreparedFile:
    """A file with a prepared model.

    Attributes:
        head: What `head_of_model` gave, and the fingerprint of the original model.
        files: What is known of each file of external data, by the model's name for it.
        identity: The identity of the file's content.

    Raises:
        cache.model_record.BROKEN: The description does not fit together.
    """

    def __init__(self, file: MappedFile) -> None:
        self._file = file
        description, self._start = description_of(file.buffer)
        self.head, self._record = (json.loads(line) for line in description.split(b"\n", 1))
        self.files: dict[str, Any] = self._record["external"]
        self.identity = file.identity

    def read(
        self,
        contributions: Contributions,
        providers: Sequence[IExecutionProvider],
        external: Callable[[str], MappedFile],
        origin: FileIdentity | None,
        store: WeightStore | None = None,
    ) -> Prepared:
        """The model in the file.

        Args:
            origin: Identity of the model's own file; None where there is none.
            store: Finds constants that are in memory already; None for the store of the process.

        Raises:
            OrtPyError: A file of external data is gone, or lies outside of the model's folder.
            cache.model_record.BROKEN: The record does not fit together, or does not fit this session.
        """
        record = self._record
        constants = ConstantReader(
            record["constants"], self._file, self._start, external, store or process_store(), origin
        )
        read = ModelReader(record["graph"], constants)
        assignment, keys = read_assignment(record["assignment"], read, contributions.kernels, providers)
        return Prepared(read.model, assignment, keys)


def prepared_file(store: FileStore, key: str) -> MappedFile | None:
    """The file of a prepared model, all of it checked. None if there is none; a damaged one is reported and removed."""
    content = store.mapped(key, KIND)
    if content is None:
        return None
    wrong = damage_of_blocks(content)
    if wrong:
        store.report_damage(key, KIND, wrong)
        store.discard(key, KIND)
        return None
    return process_store().content(content, FileIdentity.of_content(memoryview(content).nbytes, head_digest(content)))
