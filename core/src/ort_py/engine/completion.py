"""Refusing sessions whose nodes would run on the host though the program forbids it: by config entry, or strict mode.

Comes after planning, and judges the assignment only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.engine.provider_choice import NO_CPU
from ort_py.errors import EPFail, Fail
from ort_py.fallback.policy import Strictness
from ort_py.options import SessionOptions, entry_of
from ort_py.partition.assignment import Assignment


def check_completion(
    assignment: Assignment,
    providers: Sequence[IExecutionProvider],
    options: SessionOptions,
    strictness: Strictness,
) -> None:
    """Refuse nodes on the host where that is forbidden.

    Args:
        strictness: In mode ``node``, a session that asked for an accelerator may not run nodes on the host.

    Raises:
        Fail: The config entry forbids the CPU, and there is such a node.
        EPFail: Strict mode ``node`` does.
    """
    devices = {provider.name: provider.device for provider in providers}
    forbidden = entry_of(options, NO_CPU) == "1"
    strict = strictness is Strictness.NODE and any(device != HOST for device in devices.values())
    if not forbidden and not strict:
        return
    on_host = [node for node, assigned in assignment if devices.get(assigned.provider) == HOST]
    if on_host and forbidden:
        raise Fail(
            f"{len(on_host)} node(s) would run on the CPU, which the config entry '{NO_CPU}' forbids.",
            where=on_host[0].location,
            why=(
                "no other provider of the session can run them; the first one would run on "
                f"{assignment.nodes[on_host[0]].provider}"
            ),
            fix="Leave the entry out, or name a provider that runs the whole model.",
        )
    if on_host:
        raise EPFail(
            f"{len(on_host)} node(s) would run on the host, which strict mode 'node' forbids.",
            where=on_host[0].location,
            why=[
                f"{node.name}: {provider}: {reason}"
                for node in on_host[:10]
                for provider, reason in assignment.nodes[node].refusals
            ],
            fix="Use strict mode 'provider', or a model whose operators the provider has.",
        )
