"""The placements that `tune` tries: each provider alone, the host alone, all but one, and others that fill the CPU
role.

Names and devices only. The order in which they are given is that in which they are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.devices import HOST, Device

__all__ = ["tuning_orders"]


def tuning_orders(
    names: Sequence[str], devices: Mapping[str, Device], completing: str, reserve: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Orders to try besides the session's own, by what they are in words; each order once.

    Args:
        names: The session's providers, in order.
        devices: Where each computes.
        completing: The provider that can complete all others, if it is among them.
        reserve: Providers that the session does not have because another one fills the CPU role, best first. Each is
            tried alone, and behind all others but the completing one.
    """
    last = (completing,) if completing in names else ()
    host = tuple(name for name in names if devices[name] == HOST)
    orders: dict[str, tuple[str, ...]] = {}
    for name in names:
        orders[f"{name} alone"] = tuple(dict.fromkeys((name, *last)))
    if len(host) < len(names):
        orders["the host alone"] = host
    for name in names:
        if name not in last and len(names) > len(last) + 1:
            orders[f"without {name}"] = tuple(other for other in names if other != name)
    others = tuple(name for name in names if name not in last)
    for name in reserve:
        orders[f"{name} alone"] = (name, *last)
        orders[f"{name} beside the others"] = (*others, name, *last)
    found: dict[tuple[str, ...], str] = {tuple(names): ""}
    for text, order in orders.items():
        if order:
            found.setdefault(order, text)
    return {text: order for order, text in found.items() if text}
