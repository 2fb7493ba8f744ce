"""Hooks: how plug-ins contribute things to ort-py and observe it. Import `hookimpl` and the records from here."""

from ort_py.hooks.specs import (
    AllocatorContribution,
    CliCommand,
    CompileEvent,
    DeclinedEvent,
    FallbackEvent,
    KernelContribution,
    RunEvent,
    SessionEvent,
    VerifiedEvent,
    hookimpl,
)

__all__ = [
    "AllocatorContribution",
    "CliCommand",
    "CompileEvent",
    "DeclinedEvent",
    "FallbackEvent",
    "KernelContribution",
    "RunEvent",
    "SessionEvent",
    "VerifiedEvent",
    "hookimpl",
]
