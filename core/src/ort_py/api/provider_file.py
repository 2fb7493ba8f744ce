"""Writing a model to a file of a provider's own, which other programs run: `ort-py compile` for its endings.

`ProviderFactory.file_writer` makes the provider of an engine that is opened for this and runs nothing.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from ort_py.api.compiling import CompileReport
from ort_py.api.session_arguments import session_options
from ort_py.api.workplace import folder_beside
from ort_py.discovery import default_catalog
from ort_py.engine.opening import open_engine
from ort_py.engine.recipe import ProviderArgument
from ort_py.engine.session_cache import MODEL_CACHE_KEY
from ort_py.errors import CompiledModelError, InvalidArgument, Location
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions
from ort_py.partition.assignment import Assignment

__all__ = ["write_provider_file"]


def write_provider_file(
    model: Any, target: Path, given: SessionOptions | None, providers: ProviderArgument | None
) -> CompileReport:
    """Write a model to a new file that programs of a provider's vendor load.

    Args:
        providers: The provider, alone.

    Raises:
        InvalidArgument: The provider is not there or writes no such files, or the target exists.
        CompiledModelError: The provider cannot take the whole model as one region; says which operators it leaves.
        OrtPyError: As for a new session.
    """
    (provider, provider_options), *others = [(one, {}) if isinstance(one, str) else one for one in providers or ("",)]
    start, source, catalog = time.monotonic(), GivenModel.of(model), default_catalog()
    record = next((one for one in catalog.records() if one.name == provider and not others), None)
    if target.exists():
        raise InvalidArgument(f"'{target}' exists already.", fix="Remove it, or choose another name.")
    with folder_beside(target) as folder:
        made = folder / target.name
        writer = record.factory.file_writer(made) if record is not None and record.factory is not None else None
        if writer is None:
            raise InvalidArgument(
                f"The provider '{provider}' writes no files that end in '{target.suffix}'.",
                why="it is not installed, or not the only one" if record is None else record.reason,
                fix="Write a file that ends in '.ortpy', which sessions load.",
            )
        options = session_options(source, given, {})
        options.add_session_config_entry(MODEL_CACHE_KEY, "0")
        catalog.register_provider(writer)
        try:
            engine = open_engine(source, options, [(writer.name, provider_options)], fallback_enabled=False)
        finally:
            catalog.unregister_provider(writer.name)
        with contextlib.closing(engine):
            assignment = engine.program().assignment
            wanted = {one.name for one in engine.description.outputs}
        if why := _why_not(assignment, writer.name, wanted):
            raise CompiledModelError(
                "The provider does not take the whole model as one region, so that it cannot be written.",
                where=Location(file=source.path),
                why=why,
                fix="Fix sizes with --fix, or leave out these operators.",
            )
        written = [one.replace(target.parent / one.name) for one in sorted(folder.iterdir(), key=made.__eq__)]
    size = sum(one.stat().st_size for top in written for one in (top, *top.rglob("*")) if one.is_file())
    nodes, parts = dict(assignment.counts()), {target.suffix[1:]: size}
    return CompileReport(str(target), size, nodes, parts, time.monotonic() - start)


def _why_not(assignment: Assignment, writer: str, wanted: set[str]) -> list[str]:
    """Return why the model is not one region that computes all outputs, in lines; none if it is."""
    left = [(node.op_type, dict(one.refusals)) for node, one in assignment if one.provider != writer]
    if left:
        return sorted({f"{name}: {reasons.get(writer, 'it is constant')}" for name, reasons in left})
    regions = [region for found in assignment.regions.values() for region in found]
    if len(regions) != 1:
        return [f"it would fall into {len(regions)} regions"]
    lost = wanted - {one.name for one in regions[0].border.outputs}
    return [f"the region does not compute {', '.join(sorted(lost))}"] if lost else []
