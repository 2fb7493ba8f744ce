"""Files that a provider writes for other programs: their content, and refusals, which leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.compiling_provider import CompilingFactory, CompilingProvider
from core.tests.small_models import RELU, model_bytes
from ort_py.api.provider_file import write_provider_file
from ort_py.contracts import (
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    FunctionRegion,
    GraphView,
    KernelLookup,
    ProviderFactory,
    Refusal,
    RegionView,
)
from ort_py.errors import CompiledModelError, InvalidArgument

TWO_STEPS = "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) y = Sin(a) }"
NAME = "WritingExecutionProvider"


class _Writer(CompilingProvider):
    """Writes the operators of its region, and leaves `Sin` to others."""

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        taken = tuple(node.index for node in graph.nodes if node.op_type != "Sin")
        left = [Refusal(node.index, "it has no sines") for node in graph.nodes if node.op_type == "Sin"]
        return Capability((Claim(taken, ClaimKind.COMPILE),), tuple(left))


class _Factory(CompilingFactory):
    """A provider whose files end in ``.ops``."""

    @property
    def name(self) -> str:
        return NAME

    def file_writer(self, target: Path) -> ProviderFactory | None:
        def write(region: RegionView) -> CompiledRegion:
            target.write_text(" ".join(node.op_type for node in region.nodes))
            return FunctionRegion(lambda *inputs: pytest.fail("nothing runs it"))

        return CompilingFactory(lambda: _Writer(write)) if target.suffix == ".ops" else None


@pytest.fixture(autouse=True)
def _registered(register: Callable[[ProviderFactory], None]) -> None:
    register(_Factory(lambda: pytest.fail("the provider itself is not needed")))


def test_one_region_becomes_a_file(tmp_path: Path) -> None:
    target = tmp_path / "m.ops"
    report = write_provider_file(model_bytes(RELU), target, None, [NAME])
    assert target.read_text() == "Relu"
    assert (report.path, report.bytes, report.parts) == (str(target), 4, {"ops": 4})
    assert [one.name for one in tmp_path.iterdir()] == ["m.ops"]


def test_what_the_provider_leaves_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompiledModelError, match="Sin: it has no sines"):
        write_provider_file(model_bytes(TWO_STEPS), tmp_path / "m.ops", None, [NAME])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("names", [["Nonesuch"], [NAME, "CPUExecutionProvider"]])
def test_other_endings_and_providers_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="it is not installed, or not the only one"):
        write_provider_file(model_bytes(RELU), tmp_path / "m.ops", None, names)
    with pytest.raises(InvalidArgument, match=r"writes no files that end in '\.other'"):
        write_provider_file(model_bytes(RELU), tmp_path / "m.other", None, [NAME])
    assert not list(tmp_path.iterdir())


def test_an_existing_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "m.ops"
    target.write_text("mine")
    with pytest.raises(InvalidArgument, match="exists already"):
        write_provider_file(model_bytes(RELU), target, None, [NAME])
    assert target.read_text() == "mine"
