"""The survey of a session's providers about one graph: each is asked once, in rank order, in a guard.

Comes before `work_table`. Answers are kept as they are; nothing is decided here. A provider on the host is not asked if
every node already has a provider and no times are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, IExecutionProvider
from ort_py.kernels.registry import KernelRegistry
from ort_py.lazy_dataclass import dataclass

OnProviderError = Callable[[str, Exception], None]


@dataclass(slots=True)
class Answer:
    """The answer of one provider about a graph.

    Attributes:
        regions: Claims to be compiled, in its order.
        claims: The claim that each node belongs to; the first of two, regions before kernels.
        reasons: Reasons why it does not take the other nodes. Code that decides against a claim adds its reason.
        failure: Exception of `get_capability` if there is no answer, else ``""``.
    """

    provider: IExecutionProvider
    regions: list[Claim] = field(default_factory=list)
    kernels: list[Claim] = field(default_factory=list)
    claims: dict[int, Claim] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    failure: str = ""

    @property
    def states_costs(self) -> bool:
        """True if the provider itself states the costs of its nodes."""
        return estimates(self.provider) or any(claim.cost_us is not None for claim in (*self.regions, *self.kernels))

    def refusal(self, node: int) -> str:
        """Explain why the provider does not run a node."""
        return self.failure or self.reasons.get(node, "not claimed")


def estimates(provider: IExecutionProvider) -> bool:
    return type(provider).estimate_cost is not IExecutionProvider.estimate_cost


def survey(
    view: GraphView,
    providers: Sequence[IExecutionProvider],
    kernels: KernelRegistry,
    on_provider_error: OnProviderError,
    *,
    all_of_them: bool,
    barred: Mapping[int, Mapping[str, str]] | None = None,
    wanted: Collection[int] | None = None,
) -> list[Answer]:
    """Ask providers which nodes they can run.

    Args:
        providers: In rank order.
        on_provider_error: Called for a provider whose `get_capability` raised.
        all_of_them: Whether later ones are asked where earlier ones take every node. They are in any case where one
            has only a part of a region left, which it may not want.
        barred: Nodes that a provider may not have in its regions, with the reason by provider.
        wanted: The nodes that matter; None for all.

    Returns:
        An answer of each that was asked.
    """
    answers: list[Answer] = []
    count = len(view.nodes)
    taken: set[int] = set()
    for provider in providers:
        if not all_of_them and taken.issuperset(range(count) if wanted is None else wanted):
            break
        answer = Answer(provider)
        answers.append(answer)
        try:
            capability = provider.get_capability(view, kernels.lookup(provider.name))
            if not isinstance(capability, Capability):
                raise TypeError(f"it returned a {type(capability).__name__}, not a Capability")
        except Exception as error:  # a plug-in's code: whatever it raises must not take the session with it
            on_provider_error(provider.name, error)
            answer.failure = f"get_capability raised {type(error).__name__}: {error}"
            continue
        answer.reasons = {refusal.node: refusal.reason for refusal in capability.refusals}
        for claim in _without(capability.claims, barred or {}, answer):
            (answer.regions if claim.kind is ClaimKind.COMPILE else answer.kernels).append(claim)
        for claim in (*answer.regions, *answer.kernels):
            for index in claim.nodes:
                if 0 <= index < count:
                    answer.claims.setdefault(index, claim)
        all_of_them = all_of_them or any(
            0 < len(taken.intersection(one.nodes)) < len(one.nodes) for one in answer.regions
        )
        taken.update(answer.claims)
    return answers


def _without(claims: Sequence[Claim], barred: Mapping[int, Mapping[str, str]], answer: Answer) -> Iterator[Claim]:
    """Claims without the nodes that may not be in the provider's regions, which are refused with the reason."""
    name = answer.provider.name
    for claim in claims:
        out = (
            {index for index in claim.nodes if name in barred.get(index, {})} if claim.kind is ClaimKind.COMPILE else ()
        )
        if not out:
            yield claim
            continue
        answer.reasons.update((index, barred[index][name]) for index in out)
        left = tuple(index for index in claim.nodes if index not in out)
        if left:
            yield replace(claim, nodes=left)
