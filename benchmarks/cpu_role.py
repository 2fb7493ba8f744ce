"""A line that names the provider of a benchmark's CPU role: figures mean nothing without it."""

from __future__ import annotations

import ort_py
from ort_py.discovery import CPU_ROLE

__all__ = ["cpu_role"]


def cpu_role(*, plain: bool = False) -> str:
    """The providers behind the name, first asked first, with what their probes say.

    Args:
        plain: The benchmark pins the plain provider.
    """
    found = [
        f"{record.name} {record.version}" + (f" ({record.reason})" if record.reason else "")
        for record in ort_py.get_provider_records()
        if record.usable and (record.name == CPU_ROLE or (record.stands_in_for == CPU_ROLE and not plain))
    ]
    found.sort(key=lambda text: text.startswith(CPU_ROLE))
    return f"{CPU_ROLE} is: {', completed by '.join(found)}"
