"""Derivative rules by domain, operator and version, and the arguments of a rule.

A rule is one small function. It gets a builder that writes nodes and the call it differentiates, and returns the
gradients of the call's inputs, in order: None for a gradient that is zero or was not requested, and fewer than there
are inputs if the last ones are zero. Each gradient has the shape and the element type of its input. The operators that
a rule writes must have rules themselves; otherwise gradients of gradients would end there.

To add one: decorate a function in the family's file in `rules/`, or list a new file in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from ort_py import errors
from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Shape, float_attribute
from ort_py.errors import operator_title
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder

FAMILIES = """
    activation arithmetic convolution indexing matmul movement normalization pooling reduction selection softmax unary
    zero
"""
"""Modules of `rules/`, imported when the first rule is looked up."""

Gradients: TypeAlias = "Sequence[str | None]"
RuleFunction: TypeAlias = "Callable[[GradientBuilder, Call], Gradients]"


@dataclass(frozen=True, slots=True)
class Call:
    """One node of the forward graph, as its rule sees it.

    Attributes:
        grads: Gradient of each output, None where it is zero; at least one is there.
        wanted: Whether each input's gradient is asked for.
        constants: Content of each input where it is constant, else None.
    """

    node: NodeSpec
    grads: tuple[str | None, ...]
    wanted: tuple[bool, ...]
    constants: tuple[Callable[[], Any] | None, ...]

    @property
    def grad(self) -> str:
        """Gradient of the first output.

        Raises:
            NotImplemented: Another output's gradient is asked for, which the rule does not know.
        """
        found = self.grads[0] if self.grads else None
        if found is None or any(one is not None for one in self.grads[1:]):
            raise unsupported(self, "the path to y goes through an output other than the first")
        return found

    @property
    def since(self) -> int:
        """Version of the operator's schema in force."""
        return self.node.since_version

    @property
    def y(self) -> str:
        """Name of the first output."""
        return self.output(0).name

    def has(self, position: int) -> bool:
        return position < len(self.node.inputs) and self.node.inputs[position] is not None

    def input(self, position: int) -> ValueSpec:
        """An input that must be present."""
        found = self.node.inputs[position] if position < len(self.node.inputs) else None
        if found is None:
            raise unsupported(self, f"its input {position} is absent")
        return found

    def output(self, position: int) -> ValueSpec:
        """An output that must be present."""
        found = self.node.outputs[position] if position < len(self.node.outputs) else None
        if found is None:
            raise unsupported(self, f"its output {position} is absent")
        return found

    def x(self, position: int = 0) -> str:
        return self.input(position).name

    def wants(self, position: int) -> bool:
        """Return whether the gradient of an input is requested."""
        return position < len(self.wanted) and self.wanted[position]

    def shape(self, position: int = 0) -> Shape:
        """Shape of an input whose rank must be known."""
        found = self.input(position).shape
        if found is None:
            raise unsupported(self, f"the rank of its input '{self.x(position)}' is unknown")
        return found

    def rank(self, position: int = 0) -> int:
        """Rank of an input; as `shape`."""
        return len(self.shape(position))

    def axis(self, default: int, position: int = 0) -> int:
        """The attribute ``axis``, counted from the front of an input."""
        axis = int(self.attribute("axis", default))
        return axis + self.rank(position) if axis < 0 else axis

    def data_type(self, position: int = 0) -> DataType:
        found = self.input(position).data_type
        if found is None:
            raise unsupported(self, f"the type of its input '{self.x(position)}' is unknown")
        return found

    def constant(self, position: int) -> Any | None:
        read = self.constants[position] if position < len(self.constants) else None
        return None if read is None else read()

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or what the schema has as its default."""
        return self.node.attributes.get(name, float_attribute(default) if isinstance(default, float) else default)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and the operator versions that it is for.

    Attributes:
        since, until: Schema versions it is right for; until None: all later ones.
    """

    op_type: str
    domain: str
    since: int
    until: int | None
    function: RuleFunction


_RULES: dict[tuple[str, str], list[Rule]] = {}


def rule(
    *op_types: str, since: int = 1, until: int | None = None, domain: str = ""
) -> Callable[[RuleFunction], RuleFunction]:
    """Declare a function as the rule of operators.

    Args:
        since: First schema version it is right for.
        until: Last one; None for all later ones.
    """

    def declare(function: RuleFunction) -> RuleFunction:
        for op_type in op_types:
            _RULES.setdefault((domain, op_type), []).append(Rule(op_type, domain, since, until, function))
        return function

    return declare


def rules() -> list[Rule]:
    """All rules, by domain, operator and version."""
    for family in FAMILIES.split():
        import_module(f"ort_py.transforms.gradient.rules.{family}")
    return [one for _, found in sorted(_RULES.items()) for one in sorted(found, key=lambda entry: entry.since)]


def find_rule(op_type: str, domain: str, since: int) -> RuleFunction | None:
    """The rule for an operator at a schema version, or None."""
    if not _RULES:
        rules()
    for one in _RULES.get((domain, op_type), ()):
        if one.since <= since and (one.until is None or since <= one.until):
            return one.function
    return None


def unsupported(call: Call, why: str) -> errors.NotImplemented:
    """The error for a form of an operator that its rule does not know."""
    title = operator_title(call.node.op_type, call.node.domain)
    return errors.NotImplemented(
        f"Gradient cannot differentiate this {title}.",
        where=call.node.location,
        why=why,
        fix="Write this part of the model with other operators, or extend the rule in transforms/gradient/rules.",
    )
