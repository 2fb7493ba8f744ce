"""The page without a browser: one file, nothing fetched, nothing of a model taken for markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from core.tests.inspection.placement.flows import flow_from
from ort_py.inspection.placement import NodePlacement, Placement
from ort_py.inspection.placement.flow import Flow, FlowGraph
from ort_py.inspection.placement.page import html_page, page_data
from ort_py.inspection.placement.picture import picture_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u2028\u202e\x1b[31m"


def placed(names: list[str], providers: str = "") -> Placement:
    """A chain of nodes, each on the provider of its letter."""
    providers = providers or "A" * len(names)
    nodes = tuple(
        NodePlacement(name, name, "", who, "kernel", "", name, (("Z" + name, name),), ())
        for name, who in zip(names, providers, strict=True)
    )
    flow = flow_from(len(names), [(node, node + 1) for node in range(len(names) - 1)])
    return Placement.of(nodes, flow, {"A": "fake:0"})


def parts(page: str) -> tuple[str, str, str, str]:
    """Policy, style, data and script."""
    found = re.search(
        r'Content-Security-Policy" content="(.*?)">.*<style>(.*?)</style>'
        r'.*id="data">(.*?)</script>\n<script>(.*?)</script>',
        page,
        re.DOTALL,
    )
    assert found is not None
    return found[1], found[2], found[3], found[4]


def test_nothing_of_a_model_is_markup() -> None:
    """Names, reasons, types and the title are data without one sign of markup."""
    page = html_page(placed([HOSTILE, "b"]), title=HOSTILE)
    _, _, data, _ = parts(page)
    assert not set("<>&") & set(data)
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "\u202e" not in page
    assert json.loads(data)["title"].startswith("</script>")


def test_characters_that_steer_are_shown() -> None:
    """Control and formatting characters become escapes, lone surrogates too."""
    data = page_data(placed(["\x1b[31m", "\u202eabc", "\ud800"]), "t")
    assert {"\\x1b[31m", "\\u202eabc", "\\ud800"} <= set(data["texts"])


def test_the_policy_allows_what_is_in_the_page_alone() -> None:
    """No network, and the one script and style by their hashes."""
    policy, style, _, script = parts(html_page(placed(["a"])))
    assert "default-src 'none'" in policy.replace("&#x27;", "'")
    for text, kind in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy.replace("&#x27;", "'")
    assert "unsafe" not in policy


def test_nothing_is_fetched() -> None:
    """No address and no import in the page's own parts."""
    page = html_page(placed(["a"]))
    assert not re.search(r"https?://|url\(|@import|\bimport\s|fetch\(|XMLHttpRequest|innerHTML|eval\(", page)


def test_every_node_and_island_has_a_place() -> None:
    """Nodes within the frames of their islands, frames beside each other."""
    placement = placed(list("abcdefgh"), "AABBAABA")
    picture = picture_of(placement.flow(), placement.islands)
    for island in placement.islands:
        frame = picture.islands[island.number]
        for node in island.nodes:
            box = picture.nodes[node]
            assert frame.x <= box.x
            assert box.x + box.width <= frame.x + frame.width
            assert frame.y <= box.y
            assert box.y + box.height <= frame.y + frame.height
    for number, one in enumerate(picture.islands):
        for other in picture.islands[number + 1 :]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_nested_graphs_have_sheets() -> None:
    """One each, beside or below the main one, with the number of the node that holds it."""
    nodes = tuple(NodePlacement(str(n), "Op", "", "A", "kernel", "", "", (), ()) for n in range(3))
    flow = flow_from(3, [(0, 1)], owners=[(1, [2])])
    data = page_data(Placement.of(nodes, flow), "t")
    (_, main_owner, _, *main), (_, owner, _, *sheet) = data["graphs"]
    assert (main_owner, owner) == (-1, 1)
    assert sheet[0] >= main[0] + main[2] or sheet[1] >= main[1] + main[3]


def test_it_is_written_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    placed(["a"]).to_html(path, title="Größe 模型")
    assert "Größe 模型" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("count", [1, 3000])
def test_size_of_the_page(count: int) -> None:
    """Some hundred bytes a node: three thousand nodes stay below a megabyte and a half."""
    page = html_page(placed([f"/layer.{node}/node" for node in range(count)]))
    assert len(page) < 60_000 + 500 * count


def test_a_flow_without_nodes() -> None:
    """An empty page is a page."""
    assert html_page(Placement.of((), Flow((FlowGraph("g", -1, ()),)), {}))
    assert html_page(Placement.of((), Flow(), {}))
