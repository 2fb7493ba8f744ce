"""Exchanges of a session's program after failures: without a provider, on a device reset or another one, and back.

All of it under the session's lock. Runs of other threads go on in the program they began with, which is released when
the last of them has ended. When one of these is called for is decided by `recovery`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import CPU_ROLE, FallbackRecord, Origin
from ort_py.engine.recovery.state import Unproven
from ort_py.fallback.failure import Failure
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.hooks.guard import Raised, guarded

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.engine.assembly import Assembled
    from ort_py.engine.construction import Construction
    from ort_py.engine.runner import Runner

__all__ = ["plan_without", "prove", "settle", "take_back", "try_again", "with_device"]

_logger = logging.getLogger("ort_py.session")


def plan_without(session: InferenceSession, failure: Failure) -> Runner | None:
    """Let the others run the model; None where they cannot, or may not."""
    built = session._built
    left_out = built.dropped | {failure.provider}
    remaining = [one.name for one in built.created if one.name not in left_out]
    if not remaining or failure.provider == CPU_ROLE:  # nobody completes what the others leave, if not this one
        _stay_alone(session, failure)
        return None
    completing = {one.record.name for one in built.selection.selected if one.origin is Origin.COMPLETION}
    if completing.issuperset(remaining):
        _stay_alone(session, failure, f"only {' and '.join(remaining)} could take over, which was not asked for")
        return None
    try:
        program = built.plan_again(left_out)
    except Exception as refused:  # a plug-in's code, or memory that is short: the first failure is what is raised
        _stay_alone(session, failure, f"planning without it: {type(refused).__name__}: {refused}")
        return None
    replacement = _runner_of(program, failure.node) or remaining[0]
    record = FallbackRecord("run", failure.provider, failure.reason, failure.node, replacement)
    return _exchange(session, program, left_out, record)


def try_again(session: InferenceSession, runner: Runner, name: str) -> Runner:
    """Take a provider in again that was left out, for as long as its runs succeed.

    Args:
        session: The session.
        runner: What runs without it.
        name: The provider; its breaker waits for the outcome.
    """
    with session._lock.held():
        built = session._built
        breaker = built.recovery.circuits.of(name)
        provider = next((one for one in built.created if one.name == name), None)
        if session._runner is not runner or provider is None or name not in built.dropped:
            breaker.abandon()
            return session._runner or runner
        lost = process_lost_devices()
        if not lost.retry(name, provider.device, provider.reset_device):
            breaker.failed()
            return runner
        left_out = built.dropped - {name}
        try:
            program = built.plan_again(left_out)
        except Exception as refused:  # as above; the provider stays left out
            _logger.info("%s is not tried again: %s: %s", name, type(refused).__name__, refused)
            breaker.failed()
            return runner
        except BaseException:  # Ctrl-C: whoever comes next may try
            breaker.abandon()
            raise
        record = FallbackRecord("run", name, "its runs succeed again", replacement=name, action="tried again")
        return _exchange(session, program, left_out, record, trial=name)


def with_device(session: InferenceSession, provider: IExecutionProvider, failure: Failure) -> Runner | None:
    """Let a provider whose device was lost go on, with it or with another one; None where it cannot."""
    built = session._built
    before = provider.device
    known = built.recovery.generations.get(provider.name, 0)
    record = FallbackRecord("run", provider.name, failure.reason, failure.node, str(before), "device reset")
    if not process_lost_devices().reset(provider.name, before, known, provider.reset_device):
        moved = guarded(provider.use_backup_device)
        if isinstance(moved, Raised) or not moved:
            if isinstance(moved, Raised):
                _logger.warning("%s: use_backup_device failed: %s", provider.name, moved, exc_info=moved.error)
            return None
        record = replace(record, replacement=str(provider.device), action="device changed")
    try:
        if record.action == "device changed":
            built.contributions.move(provider)
            built.recovery.moved.add(provider.name)
        program = built.plan_again(built.dropped)
    except Exception as refused:  # a plug-in's code: the device is left
        _logger.warning("%s: planning on %s failed: %s", provider.name, provider.device, refused)
        return None
    if built.recovery.unproven is not None:
        prove(session)
    # What the program before has on the lost device is gone: it cannot come back.
    former, pool = built.assembled, session._runner.pool if session._runner is not None else None
    built.assembled = program
    session._install()
    if former is not None and pool is not None:
        built.retired.add(former, pool)
    built.fallbacks.note(record)
    return session._runner


def prove(session: InferenceSession) -> None:
    """A run of the present program has succeeded: the one before it goes, and what was done is on record."""
    built = session._built
    unproven, built.recovery.unproven = built.recovery.unproven, None
    if unproven is None:
        return
    built.retired.add(unproven.assembled, unproven.runner.pool)
    if unproven.trial and unproven.trial not in built.dropped:
        built.recovery.circuits.of(unproven.trial).succeeded()
    session._observe()
    for record in unproven.records:
        built.recovery.circuits.helped(record.provider)
        built.fallbacks.note(record)


def take_back(session: InferenceSession, record: FallbackRecord | None = None) -> Runner:
    """Return to the program before the present one, which was of no use.

    Args:
        session: The session; a program of it has not proved itself.
        record: What is told of it, None for nothing.
    """
    built = session._built
    unproven, built.recovery.unproven = built.recovery.unproven, None
    assert unproven is not None
    assert built.assembled is not None
    assert session._runner is not None
    if unproven.trial:
        built.recovery.circuits.of(unproven.trial).abandon()
    useless = built.assembled, session._runner.pool
    built.assembled, built.dropped = unproven.assembled, set(unproven.dropped)
    session._install(unproven.runner)
    built.retired.add(*useless)
    if record is not None:
        built.fallbacks.note(replace(record, replacement=_runner_of(unproven.assembled, record.node)))
    return unproven.runner


def settle(built: Construction) -> None:
    """Wait for runs in programs that were replaced: nothing may be released before."""
    unproven, built.recovery.unproven = built.recovery.unproven, None
    if unproven is not None:
        built.retired.add(unproven.assembled, unproven.runner.pool)
    built.retired.wait()


def _stay_alone(session: InferenceSession, failure: Failure, why: str = "") -> None:
    """Nobody takes over: every run tries again, and it is on record where somebody might have."""
    built = session._built
    built.recovery.circuits.of(failure.provider).succeeded()  # it is all there is: nothing to keep it from
    if built.recovery.unproven is not None:
        return  # a plan made for this very run, which is taken back
    built.recovery.circuits.alone = True
    session._observe()
    if why:
        reason = f"{failure.reason.rstrip('.')}; {why}"
        built.fallbacks.note(FallbackRecord("run", failure.provider, reason, failure.node, action="raised"))


def _exchange(
    session: InferenceSession, program: Assembled, left_out: Collection[str], record: FallbackRecord, trial: str = ""
) -> Runner:
    """Install a program that has to prove itself."""
    built = session._built
    state, former, runner = built.recovery, built.assembled, session._runner
    assert former is not None
    assert runner is not None
    if state.unproven is None:
        state.unproven = Unproven(runner, former, frozenset(built.dropped), trial)
        runner.pool.trim()  # idle frames hold memory, which the failure may have been about
    else:
        built.retired.add(former, runner.pool)
    state.unproven.records.append(record)
    built.assembled, built.dropped = program, set(left_out)
    session._install()
    assert session._runner is not None
    return session._runner


def _runner_of(program: Assembled, node: str) -> str:
    """Who runs a node now, ``""`` where it is gone, or has no name."""
    return next((assigned.provider for one, assigned in program.assignment if node and one.name == node), "")
