"""Validation of the equation of an Einsum.

Asked by `validate`, and not only for the message: the shape inference of onnx (seen in 1.23.2) never comes back from
some equations that are none, such as ``ij$`` or ``....i``, so a model must not reach it with one of these.

Source: Einsum-12 of ai.onnx.
"""

from __future__ import annotations

from collections.abc import Iterator

from ort_py.graph.ir import Node

__all__ = ["equation_problems"]


def equation_problems(node: Node) -> Iterator[str]:
    """Report a malformed equation of an Einsum; yields nothing for other nodes."""
    if node.op_type != "Einsum" or node.domain:
        return
    equation = node.attributes.get("equation")
    if isinstance(equation, bytes) or (isinstance(equation, str) and not _is_equation(equation)):
        yield (
            f"its equation {equation[:60]!r} is malformed: terms of letters and at most one '...' each, "
            "separated by ',', then perhaps '->' and one term"
        )


def _is_equation(text: str) -> bool:
    inputs, arrow, output = text.replace(" ", "").partition("->")
    return all(map(_is_term, inputs.split(","))) and (not arrow or _is_term(output))


def _is_term(text: str) -> bool:
    # Split by hand: a regular expression for letters around an optional ellipsis backtracks quadratically.
    before, _, after = text.partition("...")
    letters = before + after
    return not letters or (letters.isascii() and letters.isalpha())
