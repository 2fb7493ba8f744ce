"""Write `docs/models.md`: every model of the catalogue, run by ort-py's CPU provider and by onnxruntime, compared.

Run in the project's environment from the repository's root: `.venv/bin/python -m scripts.model_table`.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path

import onnx

import ort_py as ort
from examples.model_zoo import CATALOGUE, ZooModel, fetch
from tests.support.model_comparison import LOOSER, Difference, assert_run_close, difference, open_peer, run_case
from tests.support.model_inputs import cases_of

TARGET = Path(__file__).resolve().parent.parent / "docs" / "models.md"

HEAD = """# Trained models against onnxruntime

Written by `python -m scripts.model_table`; the same comparison is a test, `tests/models/test_model_parity.py`.

Each model is run by ort-py on `CPUExecutionProvider` and by onnxruntime on its own, on the same seeded pictures, sound
and text (`tests/support/model_inputs.py`), recurrent models for three runs with their states carried on. The largest
difference over all outputs of all runs is shown: absolute, and relative to the expected element or to a hundredth of
the output's largest element, whichever is larger. The tolerance is the table in `ort_py_kit.tolerances`; models
that need more are listed below with the reason. The `light-*` models have constant weights: they show that the graph
runs, not that the numbers are right.

"""


def main() -> int:
    """Compare all models and write the page; returns 1 where a model failed or differs."""
    rows: list[str] = []
    failed = 0
    for model in CATALOGUE:
        row, good = _row(model)
        failed += not good
        rows.append(row)
        print(row, flush=True)
    versions = ", ".join(f"{name} {version(name)}" for name in ("ort-py-core", "onnxruntime", "onnx", "numpy"))
    page = HEAD + f"Measured with {versions}, Python {platform.python_version()}, {platform.machine()}.\n\n"
    page += "| model | from | opset | nodes | cases | largest difference | relative | verdict |\n"
    page += "|---|---|--:|--:|--:|--:|--:|---|\n" + "\n".join(rows) + "\n\n## Looser tolerances\n\n"
    for name, (rtol, atol, why) in LOOSER.items():
        page += f"- `{name}` ({rtol:g} relative, {atol:g} absolute): {why}\n"
    if not LOOSER:
        page += "None.\n"
    TARGET.write_text(page, encoding="utf-8")
    return 1 if failed else 0


def _row(model: ZooModel) -> tuple[str, bool]:
    path = fetch(model)
    proto = onnx.load(path, load_external_data=False)
    opset = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), "–")
    cases = cases_of(model)
    worst, verdict = Difference(), "within its own tolerance" if model.name in LOOSER else "within tolerance"
    try:
        peer = open_peer(path)
        with ort.InferenceSession(path, providers=["CPUExecutionProvider"]) as session:
            for case in cases:
                for step, (actual, expected) in enumerate(
                    zip(run_case(session, case), run_case(peer, case), strict=True)
                ):
                    worst |= difference(list(actual.values()), list(expected.values()))
                    assert_run_close(actual, expected, model=model.name, context=f"{case.name}, run {step}")
    except ort.OrtPyError as error:
        verdict = f"**fails**: {error.what}"
    except AssertionError:
        verdict = "**differs**"
    good = not verdict.startswith("**")
    if good and worst.absolute == 0:
        verdict = "equal"
    shown = (f"{worst.absolute:.1e}", f"{worst.relative:.1e}")
    cells = (f"`{model.name}`", model.requirement, opset, _nodes(proto), len(cases), *shown, verdict)
    return "| " + " | ".join(map(str, cells)) + " |", good


def _nodes(proto: onnx.ModelProto) -> int:
    """Nodes of the graph and of all graphs nested in it."""
    count, pending = 0, [proto.graph]
    while pending:
        graph = pending.pop()
        count += len(graph.node)
        for node in graph.node:
            for attribute in node.attribute:
                pending.extend(attribute.graphs)
                if attribute.HasField("g"):
                    pending.append(attribute.g)
    return count


if __name__ == "__main__":
    sys.exit(main())
