"""Checks of a provider's claims: indices exist, kernels exist, each refusal has a reason, and claimed nodes run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ort_py.contracts import Capability, ClaimKind, GraphView, IExecutionProvider, KernelLookup
from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, fail, problems_of


class CapabilityChecks(ProviderChecks):
    """`get_capability` of the bare provider, and whether a session can do what it says."""

    def test_its_kernels_do_not_conflict(self, usable: Subject) -> None:
        """No two kernels claim the same versions and types of an operator, and each declares a range of versions."""
        with made(usable) as provider:
            registry = provider.kernel_registry()
            definitions = list(registry) if isinstance(registry, Sequence) else []
            problems = [
                f"{definition.title}: since {definition.since} is after until {definition.last}"
                for definition in definitions
                if definition.since > definition.last
            ]
            if problems:
                fail(f"Kernels of {usable.name} can never be chosen.", problems, fix="correct since and until.")
            problems = problems_of(self.samples(), lambda sample: _looked_up(usable, provider, sample))
            if problems:
                fail(
                    f"Kernels of {usable.name} conflict.", problems, fix="narrow the versions or types of one of them."
                )

    def test_its_answer_is_about_the_graph(self, usable: Subject) -> None:
        """Nodes claimed and refused are nodes of the graph, none is claimed twice or claimed and refused."""
        self._ask(usable, _about_the_graph, "answers about nodes wrongly", "claim indices of graph.nodes, each once.")

    def test_its_refusals_have_reasons(self, usable: Subject) -> None:
        """Every node is claimed, or refused in words: users read them in `ort-py explain`."""
        self._ask(
            usable,
            _refusals_have_reasons,
            "leaves nodes without a reason",
            "return a Refusal with a sentence for every node that is not claimed.",
        )

    def test_its_kernel_claims_have_kernels(self, usable: Subject) -> None:
        """Nodes claimed for kernels have a kernel of that version and those types."""
        self._ask(
            usable,
            _kernels_are_there,
            "claims nodes for kernels it does not have",
            "claim what `kernels.find(node)` finds, or claim a region (ClaimKind.COMPILE).",
        )

    def test_its_answer_is_the_same_again(self, usable: Subject) -> None:
        """Asked twice about a graph, it answers the same: the core asks whenever it plans."""
        self._ask(usable, _same_again, "answers otherwise when asked again", "keep no state in get_capability.")

    def test_it_runs_what_it_claims(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Sessions are made and run without giving nodes to another provider."""

        def check(sample: Sample) -> None:
            with usable.session(sample.model) as session:
                session.run(None, sample.feeds())
                if session.fallback_report:
                    raise Problem("; ".join(str(entry) for entry in session.fallback_report))

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"{usable.name} claims what it cannot run.",
                problems,
                fix="refuse such nodes in get_capability (a kernel: narrow its versions and types), or run them.",
            )

    def _ask(self, subject: Subject, check: Any, what: str, fix: str) -> None:
        def one(sample: Sample) -> None:
            kernels = subject.kernels(provider)
            answer, view = subject.ask(sample.model, provider)
            found = check(answer, view, provider, kernels)
            if found:
                raise Problem("; ".join(found[:5]))

        with made(subject) as provider:
            problems = problems_of(self.samples(), one)
        if problems:
            fail(f"{subject.name} {what}.", problems, fix=fix)


@contextmanager
def made(subject: Subject) -> Iterator[IExecutionProvider]:
    """A bare provider, closed at the end."""
    provider = subject.create()
    try:
        yield provider
    finally:
        provider.close()


def _looked_up(subject: Subject, provider: IExecutionProvider, sample: Sample) -> None:
    subject.ask(sample.model, provider)


def _claims(answer: Capability) -> list[int]:
    return [index for claim in answer.claims for index in claim.nodes]


def _about_the_graph(
    answer: Capability, view: GraphView, provider: IExecutionProvider, kernels: KernelLookup
) -> list[str]:
    taken, refused = Counter(_claims(answer)), {refusal.node for refusal in answer.refusals}
    count = len(view.nodes)
    found = [
        f"{index} is not one of the {count} nodes" for index in sorted({*taken, *refused}) if not 0 <= index < count
    ]
    found += [f"node {index} is in {times} claims" for index, times in taken.items() if times > 1]
    found += [f"node {index} is claimed and refused" for index in sorted(refused & set(taken))]
    return found + ["a claim has no nodes" for claim in answer.claims if not claim.nodes]


def _refusals_have_reasons(
    answer: Capability, view: GraphView, provider: IExecutionProvider, kernels: KernelLookup
) -> list[str]:
    reasons = {refusal.node: refusal.reason.strip() for refusal in answer.refusals}
    left = set(range(len(view.nodes))) - set(_claims(answer))
    return [
        f"{view.nodes[index].op_type} is refused without a reason" for index in sorted(left) if not reasons.get(index)
    ]


def _kernels_are_there(
    answer: Capability, view: GraphView, provider: IExecutionProvider, kernels: KernelLookup
) -> list[str]:
    nodes = [view.nodes[index] for claim in answer.claims if claim.kind is ClaimKind.KERNEL for index in claim.nodes]
    return [
        f"{node.op_type}({node.since_version}) has no kernel" for node in nodes if kernels.find(node).kernel is None
    ]


def _same_again(answer: Capability, view: GraphView, provider: IExecutionProvider, kernels: KernelLookup) -> list[str]:
    again = provider.get_capability(view, kernels)
    if sorted(_claims(again)) == sorted(_claims(answer)):
        return []
    return [f"claimed {sorted(_claims(answer))}, and then {sorted(_claims(again))}"]
