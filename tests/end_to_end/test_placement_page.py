"""The page of a placement in a real browser: it draws, nothing of a model runs in it, and large graphs stay quick.

Chromium without a window, driven by its command line: the document after the script ran, and pictures of it.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_py as ort
from ort_py.discovery import default_catalog
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

# Seconds a page; the page without a browser is in `core/tests/inspection/placement`.
pytestmark = pytest.mark.slow

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FAKE, CPU = "FakeExecutionProvider", "CPUExecutionProvider"
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"

Browse = Callable[..., str]


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """The document of a page after its script ran; with `picture`, a picture of it is written too."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")

    def call(page: Path, fragment: str = "", picture: Path | None = None) -> str:
        assert CHROMIUM is not None
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--window-size=1200,800", "--virtual-time-budget=3000", f"--user-data-dir={tmp_path / 'profile'}"]
        command.append("--dump-dom" if picture is None else f"--screenshot={picture}")
        done = subprocess.run(
            [*command, page.as_uri() + "#" + fragment], capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    return call


def page_of(
    path: Path, operators: list[str], *, names: dict[int, str] | None = None, nested: bool = False, title: str = "model"
) -> Path:
    """A page of a chain whose additions run on an accelerator, and everything else on the CPU."""
    names = names or {}
    nodes = [
        helper.make_node(
            operator,
            [f"v{index}"] * (2 if operator == "Add" else 1),
            [f"v{index + 1}"],
            name=names.get(index, f"/layer.{index // 10}/{operator}_{index}"),
        )
        for index, operator in enumerate(operators)
    ]
    last = f"v{len(operators)}"
    outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["N", 4])]
    inputs = [helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N", 4])]
    if nested:
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        value = helper.make_tensor_value_info("u", TensorProto.FLOAT, None)
        body = helper.make_graph([helper.make_node("Add", [last, last], ["u"], name="inside")], "branch", [], [value])
        nodes.append(helper.make_node("If", ["c"], ["y"], name="choice", then_branch=body, else_branch=body))
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "main", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.cost_model = "always"
    options.pin_cpu = True
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.register_provider(FakeFactory(FAKE, FakeBehaviour(operators=["Add"])))
    try:
        with ort.InferenceSession(model.SerializeToString(), options, providers=[FAKE, CPU]) as session:
            session.placement.to_html(path, title=title)
    finally:
        default_catalog().reset()
    return path


def said(document: str, name: str) -> str:
    """The script's note about itself on the page's body."""
    found = re.search(rf'<body[^>]* data-{name}="([^"]*)"', document)
    assert found is not None, document[:500]
    return html.unescape(found[1])


def shown(document: str) -> str:
    """The document without its data and script: what a reader can see."""
    body = document[document.index("<body") : document.index('<script type="application/json"')]
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def colours(picture: Path) -> Counter[tuple[int, ...]]:
    """Number of a PNG's pixels of each colour."""
    data = picture.read_bytes()
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    channels = {2: 3, 6: 4}[data[25]]
    packed, position = b"", 8
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if data[position + 4 : position + 8] == b"IDAT":
            packed += data[position + 8 : position + 8 + length]
        position += 12 + length
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height, width * channels), np.int64)
    for number, row in enumerate(rows):
        pixels[number] = _unfiltered(int(row[0]), row[1:].astype(np.int64), pixels[number - 1], channels)
    flat = pixels.reshape(-1, channels)[:, :3]
    found, counts = np.unique(flat, axis=0, return_counts=True)
    return Counter(dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True)))


def _unfiltered(kind: int, row: np.ndarray, above: np.ndarray, channels: int) -> np.ndarray:
    """One row of a PNG; the formulas are those of its specification, section 9."""
    if kind == 0:
        return row
    if kind == 2:
        below: np.ndarray = (row + above) % 256
        return below
    result = np.zeros_like(row)
    for index in range(0, len(row), channels):
        here = slice(index, index + channels)
        left = result[index - channels : index] if index else np.zeros(channels, np.int64)
        corner = above[index - channels : index] if index else np.zeros(channels, np.int64)
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + above[here]) // 2
        else:
            base = left + above[here] - corner
            distances = [abs(base - left), abs(base - above[here]), abs(base - corner)]
            first = (distances[0] <= distances[1]) & (distances[0] <= distances[2])
            guess = np.where(first, left, np.where(distances[1] <= distances[2], above[here], corner))
        result[here] = (row[here] + guess) % 256
    return result


def test_it_shows_the_placement(browse: Browse, tmp_path: Path) -> None:
    """Legend with counts, islands, borders with bytes, and the operator that cuts."""
    document = browse(page_of(tmp_path / "page.html", ["Add", "Add", "Relu", "Add"], title="my model"))
    assert (said(document, "ready"), said(document, "nodes"), said(document, "islands")) == ("true", "4", "3")
    text = " ".join(shown(document).split())
    for part in ("my model", f"{FAKE} 3", f"{CPU} 1", "Islands 3", "Borders 4", "16 bytes × N", "3 → 1 islands"):
        assert part in text


def test_a_node_is_shown_with_its_facts(browse: Browse, tmp_path: Path) -> None:
    """The address can name one: who runs it, who refused it and why, what it reads and computes."""
    page = page_of(tmp_path / "page.html", ["Add", "Relu"])
    document = browse(page, "search=relu&node=1")
    text = " ".join(shown(document).split())
    assert "Found 1 Relu" in text
    details = text[text.index("×") :] if "×" in text else text
    for part in ("/layer.0/Relu_1", f"{CPU} · kernel", "Refused by", FAKE, "Reads v1", "Computes v2"):
        assert part in details


def test_nested_graphs_are_shown(browse: Browse, tmp_path: Path) -> None:
    """Both branches, in the list and in the picture."""
    document = browse(page_of(tmp_path / "page.html", ["Add"], nested=True))
    assert said(document, "graphs") == "3"
    assert "branch · in If choice" in shown(document)


def test_nothing_of_a_model_runs(browse: Browse, tmp_path: Path) -> None:
    """Markup in names and in the title is text."""
    page = page_of(tmp_path / "page.html", ["Add", "Relu"], names={0: HOSTILE}, title=HOSTILE)
    document = browse(page, "node=0&search=" + quote("img"))
    assert said(document, "ready") == "true"
    assert "<title>taken" not in document
    assert not re.search(r"<img", document)
    assert HOSTILE in shown(document)


def test_colours_of_the_providers_are_in_the_picture(browse: Browse, tmp_path: Path) -> None:
    """Nodes of both providers at three zooms, in light and dark."""
    page = page_of(tmp_path / "page.html", ["Add", "Relu"] * 8)
    light, dark = ((47, 116, 208), (224, 123, 46)), ((91, 155, 240), (240, 154, 86))
    for fragment, wanted in (("zoom=0.3", light), ("zoom=1", light), ("theme=dark&zoom=0.3", dark)):
        picture = tmp_path / "picture.png"
        browse(page, fragment, picture)
        found = colours(picture)
        assert all(found[colour] > 300 for colour in wanted), (fragment, found.most_common(8))


def test_three_thousand_nodes(browse: Browse, tmp_path: Path) -> None:
    """Hundreds of islands are drawn, and so is a part of them near by."""
    page = page_of(tmp_path / "page.html", (["Add"] * 9 + ["Relu"]) * 300)
    assert page.stat().st_size < 2_000_000
    for fragment in ("", "zoom=0.25", "node=1500&zoom=1"):
        document = browse(page, fragment)
        assert (said(document, "ready"), said(document, "nodes"), said(document, "islands")) == ("true", "3000", "600")
