"""Models whose nodes hold engines: written by `ort-py compile`, in onnxruntime's form, checked, and loaded again."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ort_py as ort
from ort_py_cuda import availability
from ort_py_kit.tolerances import assert_close
from ort_py_tensorrt import checking, context_nodes, engine_source
from ort_py_tensorrt.context_nodes import Embedded, make_node, problems
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import RTX
from providers.tensorrt.tests.asking import left_behind
from providers.tensorrt.tests.models import bert, cnn, mlp, with_weights
from providers.tensorrt.tests.stand_in import StandInLibrary

pytestmark = pytest.mark.usefixtures("toolkit", "gpu")

NAME = "NvTensorRTRTXExecutionProvider"
SHAPES = [f"nv_profile_{kind}_shapes=x:{size}x32" for kind, size in (("min", 1), ("opt", 4), ("max", 8))]


def main(arguments: list[str]) -> int:
    """Run the command `ort-py` in this process, in which the stand-in knows the engines that are built."""
    (command,) = entry_points(group="console_scripts", name="ort-py")
    code: int = command.load()(arguments)
    return code


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))


def _compile(folder: Path, model: onnx.ModelProto, *options: str, name: str = "NvTensorRTRTX") -> tuple[int, Path]:
    """Return the exit code of the command, and the path of what it writes."""
    onnx.save(model, folder / "m.onnx")
    target = folder / "out.onnx"
    given = [text for option in options for text in ("--ep-option", name, option)]
    return main(["compile", str(folder / "m.onnx"), "--provider", name, "-o", str(target), *given]), target


def _session(path: Path, **options: Any) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    chosen.pin_cpu, chosen.cost_model = True, "always"
    given = {"claim_small": True, **options}
    return ort.InferenceSession(str(path), chosen, providers=[(NAME, given), "CPUExecutionProvider"])


def _wanted(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _cut() -> onnx.ModelProto:
    """Two regions, with an operator between them that the parser refuses, and an output that no engine computes."""
    text = """g (float[2, 8] x, int32[3] i) => (float[2, 8] y, int32[3] z) {
        a = MatMul(x, w) b = Relu(a) c = Cast<to = 6>(b) d = BitwiseNot(c) e = Cast<to = 1>(d) y = MatMul(e, v)
        z = BitwiseNot(i) }"""
    return with_weights(text, {"w": (8, 8), "v": (8, 8)})


def test_a_whole_model_becomes_one_node_of_onnxruntimes_form(tmp_path: Path, toolkit: Toolkit) -> None:
    code, target = _compile(tmp_path, cnn())
    assert code == 0
    found = onnx.load(target)
    onnx.checker.check_model(found)
    (node,) = found.graph.node
    assert (node.op_type, node.domain) == ("EPContext", "com.microsoft")
    values = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    assert (values["main_context"], values["embed_mode"], values["source"]) == (1, 1, NAME.encode())
    assert values["ep_sdk_version"] == toolkit.version.encode()
    assert values["ep_cache_context"].startswith(b"vtrt")
    assert [one.name for one in found.graph.input] == ["x"]
    assert [one.name for one in found.graph.output] == ["y"]
    assert not found.graph.initializer


def test_onnxruntimes_schema_takes_the_node(tmp_path: Path) -> None:
    """onnxruntime here has no such provider: it reads the model, and finds nobody to run the node."""
    _, target = _compile(tmp_path, cnn())
    with pytest.raises(Exception, match=r"EPContext\(1\)|EPContext") as caught:
        onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    assert "INVALID_GRAPH" not in str(caught.value)
    assert "NOT_IMPLEMENTED" in str(caught.value)


def test_it_is_loaded_again_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, target = _compile(tmp_path, cnn())
    monkeypatch.setattr(engine_source, "run_build", lambda *_, **__: pytest.fail("nothing is built"))
    feeds = {"x": np.random.default_rng(3).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)}
    with _session(target, allow_embedded_engines=True) as session:
        assert session.placement.counts() == {NAME: 1}
        assert_close(session.run(None, feeds), _wanted(cnn(), feeds))


def test_what_the_parser_refuses_stays_as_it_is(tmp_path: Path) -> None:
    """Between two engines, with the names of the model."""
    model = _cut()
    code, target = _compile(tmp_path, model, "claim_small=1")
    assert code == 0
    found = onnx.load(target)
    onnx.checker.check_model(found)
    assert [node.op_type for node in found.graph.node].count("EPContext") == 2
    assert [node.op_type for node in found.graph.node].count("BitwiseNot") == 2
    assert [one.name for one in found.graph.input] == ["x", "i"]
    feeds = {"x": np.random.default_rng(3).normal(0, 9, (2, 8)).astype(np.float32), "i": np.arange(3, dtype=np.int32)}
    with _session(target, allow_embedded_engines=True) as session:
        assert session.placement.counts() == {NAME: 2, "CPUExecutionProvider": 2}
        assert_close(session.run(None, feeds), _wanted(model, feeds))


def test_an_embedding_stays_with_its_table(tmp_path: Path) -> None:
    model = bert(2, 8)
    _, target = _compile(tmp_path, model)
    found = onnx.load(target)
    assert [node.op_type for node in found.graph.node] == ["Gather", "EPContext"]
    assert [one.name for one in found.graph.initializer] == ["table"]
    feeds = {"ids": np.random.default_rng(3).integers(0, 50, (2, 8))}
    with _session(target, allow_embedded_engines=True) as session:
        assert_close(session.run(None, feeds), _wanted(model, feeds))


def test_given_shapes_are_in_the_engine(tmp_path: Path) -> None:
    """Runs inside of them succeed; others are left to nobody, as there is nothing to build from."""
    model = mlp("N")
    code, target = _compile(tmp_path, model, *SHAPES)
    assert code == 0
    with _session(target, allow_embedded_engines=True) as session:
        for size in (1, 8):
            feeds = {"x": np.random.default_rng(size).normal(0, 1, (size, 32)).astype(np.float32)}
            assert_close(session.run(None, feeds), _wanted(model, feeds))
        with pytest.raises(ort.OrtPyError, match="was not built for inputs of the shapes"):
            session.run(None, {"x": np.zeros((9, 32), np.float32)})


def test_engines_are_written_to_files_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes name them in onnxruntime's form, relative to the model. Equal engines share a file."""
    model = _cut()
    code, target = _compile(tmp_path, model, "claim_small=1", "nv_ep_context_embed_mode=0")
    assert code == 0
    found = [node for node in onnx.load(target).graph.node if node.op_type == "EPContext"]
    values = [{one.name: helper.get_attribute_value(one) for one in node.attribute} for node in found]
    names = {one["ep_cache_context"].decode() for one in values}
    assert {one["embed_mode"] for one in values} == {0}
    assert {one.name for one in tmp_path.iterdir()} == {"m.onnx", "out.onnx", "cache", *names}
    assert all((tmp_path / name).read_bytes().startswith(b"vtrt") for name in names)
    monkeypatch.setattr(availability, "examine", lambda: False)
    assert [(bool(one.bytes), one.problems) for one in checking.check_model(target)] == [(True, ())] * 2
    monkeypatch.setattr(engine_source, "run_build", lambda *_, **__: pytest.fail("nothing is built"))
    feeds = {"x": np.random.default_rng(3).normal(0, 9, (2, 8)).astype(np.float32), "i": np.arange(3, dtype=np.int32)}
    with _session(target, allow_embedded_engines=True, nv_ep_context_file_path=str(tmp_path)) as session:
        assert session.placement.counts() == {NAME: 2, "CPUExecutionProvider": 2}
        assert_close(session.run(None, feeds), _wanted(model, feeds))


def test_a_file_of_another_engine_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same holds for one that is not there."""
    _, target = _compile(tmp_path, cnn(), "nv_ep_context_embed_mode=0")
    with pytest.raises(ort.OrtPyError, match="the option nv_ep_context_file_path names the folder"):
        _session(target, allow_embedded_engines=True)
    (engine,) = tmp_path.glob("*.engine")
    for damage, problem in ((lambda: engine.write_bytes(b"vtrt"), "another engine"), (engine.unlink, "cannot be read")):
        damage()
        (report,) = checking.check_model(target)
        assert problem in str(report.problems)
        with pytest.raises(ort.OrtPyError, match="EPContext"):
            _session(target, allow_embedded_engines=True, nv_ep_context_file_path=str(tmp_path))
        assert problem in caplog.text


def test_open_sizes_are_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, target = _compile(tmp_path, mlp("N"))
    assert code != 0
    assert "the sizes of x are not known" in capsys.readouterr().err
    assert not target.exists()


def test_a_model_without_any_region_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "g (int32[4] x) => (int32[4] y) { y = BitwiseNot(x) }"
    code, target = _compile(tmp_path, with_weights(text, {}))
    assert code != 0
    assert "the operator is not supported" in capsys.readouterr().err
    assert not target.exists()
    assert sorted(one.name for one in tmp_path.iterdir() if one.name != "cache") == ["m.onnx"]


def test_a_build_that_fails_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, target = _compile(tmp_path, cnn(), "build_seconds=0.01")
    assert code != 0
    assert "took longer than 0.01 seconds" in capsys.readouterr().err
    assert not target.exists()
    assert not left_behind(tmp_path)


def test_other_endings_are_no_files_of_the_provider(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(cnn(), tmp_path / "m.onnx")
    arguments = ["compile", str(tmp_path / "m.onnx"), "--provider", "NvTensorRTRTX", "-o", str(tmp_path / "m.engine")]
    assert main(arguments) != 0
    assert "writes no files that end in '.engine'" in capsys.readouterr().err


def test_engines_of_a_model_are_refused_unless_allowed(tmp_path: Path) -> None:
    """They are code."""
    _, target = _compile(tmp_path, cnn())
    with pytest.raises(ort.OrtPyError, match="allow_embedded_engines"):
        _session(target)


def test_the_engines_of_a_model_are_checked_without_a_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, target = _compile(tmp_path, cnn())
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "examine", lambda: False)
        assert checking.main([str(target)]) == 0
        assert capsys.readouterr().out.startswith(f"tensorrt_rtx_0: {NAME}, ")
        (report,) = checking.check_model(target)
    assert (report.problems, report.asked_device) == ((), False)


def test_a_damaged_engine_is_found_without_a_session_and_refused_by_one(tmp_path: Path) -> None:
    _, target = _compile(tmp_path, cnn())
    damaged = onnx.load(target)
    (context,) = (one for one in damaged.graph.node[0].attribute if one.name == "ep_cache_context")
    context.s = context.s[:-1] + bytes([context.s[-1] ^ 1])
    (report,) = checking.check_model(damaged)
    assert report.problems == ("its engine is damaged",)
    onnx.save(damaged, target)
    assert checking.main([str(target)]) == 1
    with pytest.raises(ort.OrtPyError, match="its engine is damaged"):
        _session(target, allow_embedded_engines=True)


def test_a_gpu_is_asked_where_there_is_one(
    tmp_path: Path, gpu: StandInLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own verdict, with its words."""
    _, target = _compile(tmp_path, cnn())
    runtime = type(gpu.Runtime(None))

    def validity(self: Any, engine: bytes) -> tuple[Any, int]:
        self.logger.log(1, "built for another device")
        return gpu.EngineValidity.INVALID, 2

    monkeypatch.setattr(runtime, "get_engine_validity", validity, raising=False)
    (report,) = checking.check_model(target)
    assert report.problems == ("built for another device",)
    assert report.asked_device


def _attributes(toolkit: Toolkit, **given: Any) -> dict[str, Any]:
    node = make_node(
        RTX,
        toolkit.version,
        Embedded(b"\xffengine", ["x"], ["y"], None),
        name="e",
        hardware="",
        inputs=["x"],
        outputs=["y"],
    )
    return {one.name: helper.get_attribute_value(one) for one in node.attribute} | given


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, None),
        ({"source": b"QNNExecutionProvider"}, "it is an engine of QNNExecutionProvider"),
        ({"ep_sdk_version": b"1.2.3"}, "it was built by TensorRT-RTX 1.2.3, and"),
        ({"main_context": 0}, "it is a part of the engine of another node"),
        ({"ep_cache_context": b"\xffother"}, "its engine is damaged"),
        ({"ep_cache_context": b"\xffother", "notes": b""}, None),
        ({"notes": b"not JSON"}, None),
    ],
)
def test_what_speaks_against_an_engine(given: dict[str, Any], problem: str | None, toolkit: Toolkit) -> None:
    found = problems(_attributes(toolkit, **given), toolkit)
    assert [one.startswith(str(problem)) for one in found] == ([] if problem is None else [True])


def test_a_node_of_onnxruntime_names_its_values_by_those_of_the_engine(tmp_path: Path, gpu: StandInLibrary) -> None:
    """Without ort-py's notes: the names are those of the node, and the shapes those that the engine says."""
    _, target = _compile(tmp_path, mlp("N"), *SHAPES)
    model = onnx.load(target)
    (node,) = model.graph.node
    kept = [one for one in node.attribute if one.name not in {"notes", "partition_name", "hardware_architecture"}]
    del node.attribute[:]
    node.attribute.extend(kept)
    onnx.save(model, target)
    feeds = {"x": np.random.default_rng(4).normal(0, 1, (5, 32)).astype(np.float32)}
    with _session(target, allow_embedded_engines=True) as session:
        assert_close(session.run(None, feeds), _wanted(mlp("N"), feeds))


def test_files_outside_of_the_folder_are_refused(tmp_path: Path, toolkit: Toolkit) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.engine").write_bytes(b"x")
    (tmp_path / "in" / "e.engine").write_bytes(b"engine")
    assert context_nodes._from_file("e.engine", tmp_path / "in") == b"engine"
    for name in ("../out.engine", str(tmp_path / "out.engine"), "", "C:\\e.engine", "a/../../out.engine"):
        with pytest.raises(ort.OrtPyError, match="for its engine"):
            context_nodes._from_file(name, tmp_path / "in")
    with pytest.raises(ort.OrtPyError, match="cannot be read"):
        context_nodes._from_file("absent", tmp_path / "in")


def test_notes_are_json(toolkit: Toolkit) -> None:
    assert json.loads(_attributes(toolkit)["notes"])["inputs"] == ["x"]
