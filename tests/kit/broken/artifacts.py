"""Providers whose compiled regions are kept wrongly, in one way each; `KeepsArtifacts` does it rightly.

A region is a product with a constant; its artifact has a header, a checksum and the constant.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ort_py.contracts import (
    ArtifactValidity,
    Availability,
    CompiledRegion,
    FunctionRegion,
    GraphView,
    IExecutionProvider,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.devices import HOST
from ort_py.hooks import hookimpl

__all__ = ["PROVIDERS", "VERSION", "KeepsArtifacts", "ort_py_providers"]

VERSION = b"acme-02 "
_DIGEST = 16


class _Product(FunctionRegion):
    """x @ w."""

    def __init__(self, weights: Any, artifact: bytes | None) -> None:
        super().__init__(lambda x: [x @ weights])
        self._artifact = artifact

    def serialize(self) -> bytes | None:
        return self._artifact


class KeepsArtifacts(RegionProvider):
    """Products with constants, kept as they should be."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        first, second = node.inputs if len(node.inputs) == 2 else (None, None)
        if node.op_type == "MatMul" and first and second and second.constant and not first.constant:
            return None
        return "only products with a constant are compiled"

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        return None if len(nodes) == 1 else "one product at a time"

    def compile(self, region: RegionView) -> CompiledRegion:
        value = region.nodes[0].inputs[1]
        assert value is not None
        weights = np.array(region.constant(value.name))
        return _Product(weights, self.packed(weights))

    def packed(self, weights: Any) -> bytes:
        """The artifact."""
        rest: bytes = np.array(weights.shape, np.int64).tobytes() + weights.tobytes()
        return VERSION + hashlib.blake2b(rest, digest_size=_DIGEST).digest() + rest

    def validate(self, artifact: bytes) -> ArtifactValidity:
        version, digest, rest = artifact[:8], artifact[8 : 8 + _DIGEST], artifact[8 + _DIGEST :]
        if hashlib.blake2b(rest, digest_size=_DIGEST).digest() != digest or version[:5] != VERSION[:5]:
            return ArtifactValidity.UNSUPPORTED
        return ArtifactValidity.VALID if version == VERSION else ArtifactValidity.STALE

    def restore(self, artifact: bytes) -> CompiledRegion:
        rest = artifact[8 + _DIGEST :]
        rows, columns = np.frombuffer(rest[:16], np.int64)
        return _Product(np.resize(np.frombuffer(rest[16:], np.float32), (rows, columns)), None)


class BelievesAnything(KeepsArtifacts):
    """Accepts every artifact."""

    def validate(self, artifact: bytes) -> ArtifactValidity:
        return ArtifactValidity.VALID


class DiesOfDamage(BelievesAnything):
    """The library trusts what it reads, as many do."""

    def restore(self, artifact: bytes) -> CompiledRegion:
        if super(BelievesAnything, self).validate(artifact) is not ArtifactValidity.VALID:
            os._exit(11)
        return super().restore(artifact)


class IgnoresVersions(KeepsArtifacts):
    """Also accepts artifacts of other versions."""

    def validate(self, artifact: bytes) -> ArtifactValidity:
        found = super().validate(artifact)
        return ArtifactValidity.VALID if found is ArtifactValidity.STALE else found


class DoubtsItself(KeepsArtifacts):
    """Nothing is ever valid, so that nothing is ever restored."""

    def validate(self, artifact: bytes) -> ArtifactValidity:
        return ArtifactValidity.STALE


class LeavesWeightsOut(KeepsArtifacts):
    """Multiplies with zeros after a restore."""

    def packed(self, weights: Any) -> bytes:
        return super().packed(np.zeros_like(weights))


class LivesInATable(KeepsArtifacts):
    """The artifact names a region that only this process has."""

    table: ClassVar[dict[bytes, Any]] = {}

    def packed(self, weights: Any) -> bytes:
        key = super().packed(weights)
        self.table[key] = weights
        return key

    def restore(self, artifact: bytes) -> CompiledRegion:
        return _Product(self.table[artifact], None)


class _Factory(ProviderFactory):
    def __init__(self, kind: type[KeepsArtifacts]) -> None:
        self._kind = kind

    @property
    def name(self) -> str:
        return f"{self._kind.__name__}ExecutionProvider"

    def probe(self) -> Availability:
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._kind(self.name)


_KINDS = (
    KeepsArtifacts,
    BelievesAnything,
    DiesOfDamage,
    IgnoresVersions,
    DoubtsItself,
    LeavesWeightsOut,
    LivesInATable,
)

PROVIDERS: dict[str, ProviderFactory] = {factory.name: factory for factory in map(_Factory, _KINDS)}
"""The providers by name."""


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """All of them: the kit asks for one by name."""
    return list(PROVIDERS.values())
