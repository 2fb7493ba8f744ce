"""A placement as one web page: picture, legend, search, details. Needs no network and no second file.

Comes after `picture`. All that a model named is data: it is in a block of JSON without a single ``<``, and the
script writes it as text only. The page's policy allows exactly the one script and the one style sheet in it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from ort_py.errors import operator_title
from ort_py.inspection.placement.islands import copied_bytes
from ort_py.inspection.placement.picture import Box, picture_of
from ort_py.inspection.placement.report import Placement
from ort_py.limits import human_bytes

if TYPE_CHECKING:
    from ort_py.inspection.placement.merging import Suggestion


def html_page(placement: Placement, title: str = "") -> str:
    assets = resources.files("ort_py.inspection.placement") / "assets"
    style = (assets / "viewer.css").read_text(encoding="utf-8")
    script = (assets / "viewer.js").read_text(encoding="utf-8")
    body = (assets / "body.html").read_text(encoding="utf-8")
    shown = _harmless(title) or "model"
    data = json.dumps(page_data(placement, shown), separators=(",", ":"))
    for sign in "<>&":  # nothing in it can end the block or begin another one; all else is ASCII already
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(shown)} · placement</title>\n<style>{style}</style>\n</head>\n{body}"
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</html>\n'
    )


def page_data(placement: Placement, title: str) -> dict[str, Any]:
    """The data of the page's script: each text once, and numbers that refer to them."""
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(_harmless(value), len(texts))

    flow = placement.flow()
    islands = placement.islands
    picture = picture_of(flow, islands)
    borders = placement.borders
    known, symbolic = copied_bytes(borders)
    island_of = {node: island.number for island in islands for node in island.nodes}
    providers = placement.ranked()
    nodes = [
        [
            text(node.node),
            text(operator_title(node.op_type, node.domain)),
            providers.index(node.provider),
            text(node.runner),
            text(node.region),
            text(node.reason),
            [[text(provider), text(reason)] for provider, reason in node.refusals],
            text(" > ".join(node.path)),
            island_of[number],
            *_numbers(picture.nodes[number]),
        ]
        for number, node in enumerate(placement.nodes)
    ]
    counts = placement.counts()
    return {
        "title": title,
        "providers": [
            {"name": name, "nodes": counts.get(name, 0), "device": placement.devices.get(name, "")}
            for name in providers
        ],
        "nodes": nodes,
        "islands": [
            [providers.index(one.provider), text(one.region), one.graph, list(one.nodes), *_numbers(box)]
            for one, box in zip(islands, picture.islands, strict=True)
        ],
        "graphs": [
            [text(graph.name), graph.owner, len(graph.nodes), *_numbers(box)]
            for graph, box in zip(flow.graphs, picture.sheets, strict=True)
        ],
        "edges": [
            [edge.source, edge.target, int(edge.crosses), [_round(part) for point in edge.points for part in point]]
            for edge in picture.edges
        ],
        "links": [
            [source, target, [_round(part) for point in points for part in point]]
            for source, target, points in picture.links
        ],
        "values": [
            [text(value.name), text(value.type), text(value.size), value.producer, list(value.readers)]
            for value in flow.values
        ],
        "borders": [
            [
                border.source,
                border.target,
                text(border.value.name),
                text(border.value.type),
                text(border.value.size),
                -1 if border.value.nbytes is None else border.value.nbytes,
                int(border.copied),
            ]
            for border in borders
        ],
        "suggestions": [
            [one.provider, _operator(one), one.nodes, one.islands_before, one.islands_after]
            for one in placement.suggestions
        ],
        "refusals": [[provider, _harmless(op), _harmless(why), n] for provider, op, why, n in placement.refusals()],
        "copied": " + ".join([human_bytes(known), *symbolic]),
        "size": [_round(picture.width), _round(picture.height)],
        "texts": list(texts),
    }


def _operator(suggestion: Suggestion) -> str:
    return _harmless(operator_title(suggestion.op_type, suggestion.domain))


def _numbers(box: Box) -> list[float]:
    return [_round(box.x), _round(box.y), _round(box.width), _round(box.height)]


def _round(number: float) -> float:
    return round(number, 1)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _harmless(text: str) -> str:
    """Control and formatting characters as escapes: they could hide or reorder what is shown."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
