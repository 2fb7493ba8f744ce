"""Exchanges of an engine's program after failures: without a provider, on a device that was reset or another one, and
back.

Callers hold the engine's lock. Runs of other threads go on in the program that they began with, which is released when
the last of them has ended. `answers` decides when a program is exchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import CPU_ROLE, FallbackRecord, Origin
from ort_py.engine.assembly import Assembled
from ort_py.engine.engine import Engine
from ort_py.engine.recovery.retired_programs import close_regions
from ort_py.engine.recovery.state import Unproven
from ort_py.engine.runner import Runner
from ort_py.fallback.awaited import Settled
from ort_py.fallback.failure import Failure
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.hooks.guard import Raised, guarded
from ort_py.logs import lazy_logger

_logger = lazy_logger("ort_py.session")


def plan_without(engine: Engine, failure: Failure) -> Runner | None:
    """Plan the model for the other providers; returns the new runner, or None where they cannot or may not run it."""
    left_out = engine.providers.dropped | {failure.provider}
    remaining = [one.name for one in engine.providers.created if one.name not in left_out]
    if not remaining or failure.provider == CPU_ROLE:  # only this provider can run the nodes that the others leave over
        _stay_alone(engine, failure)
        return None
    completing = {one.record.name for one in engine.providers.selection.selected if one.origin is Origin.COMPLETION}
    if completing.issuperset(remaining):
        _stay_alone(
            engine, failure, f"only {' and '.join(remaining)} could take over, and this provider was not requested"
        )
        return None
    try:
        program, left_out = _plan(engine, left_out)
    except Exception as refused:  # a plug-in's code, or memory that is short: the first failure is what is raised
        _stay_alone(engine, failure, f"planning without it: {type(refused).__name__}: {refused}")
        return None
    replacement = _runner_of(program, failure.node) or remaining[0]
    record = FallbackRecord("run", failure.provider, failure.reason, failure.node, replacement)
    return _exchange(engine, program, left_out, record)


def try_again(engine: Engine, runner: Runner, name: str) -> Runner:
    """Take a provider in again that was left out, for as long as its runs succeed.

    Args:
        name: The provider; its breaker waits for the outcome.
    """
    with engine.lock.held():
        breaker = engine.recovery.circuits.of(name)
        provider = next((one for one in engine.providers.created if one.name == name), None)
        if engine.runner is not runner or provider is None or name not in engine.providers.dropped:
            breaker.abandon()
            return engine.runner or runner
        lost = process_lost_devices()
        if not lost.retry(name, provider.device, provider.reset_device):
            breaker.failed()
            return runner
        try:
            program, left_out = _plan(engine, engine.providers.dropped - {name})
        except Exception as refused:  # as above; the provider stays left out
            _logger.info("%s is not used again: %s: %s", name, type(refused).__name__, refused)
            breaker.failed()
            return runner
        except BaseException:  # Ctrl-C: the next run may try
            breaker.abandon()
            raise
        if name in left_out:  # it is not ready, and is taken in when it is
            close_regions(program)
            breaker.failed()
            return runner
        record = FallbackRecord("run", name, "its runs succeed again now", replacement=name, action="tried again")
        return _exchange(engine, program, left_out, record, trial=name)


def take_in(engine: Engine, runner: Runner, settled: Settled) -> Runner:
    """Use a provider whose regions are ready now. It stays left out if one of them will never be."""
    name = settled.provider
    with engine.lock.held():
        if engine.runner is not runner or name not in engine.recovery.awaited.providers:
            return engine.runner or runner
        awaited = engine.recovery.awaited
        kept = awaited.forget(name)
        failure = settled.failure
        if not failure:
            try:
                program, left_out = _plan(engine, engine.providers.dropped - {name})
            except Exception as refused:  # as above; the provider stays left out
                failure = f"{type(refused).__name__}: {refused}"
            else:
                kept.clear()  # what was made is in the program
                if program.assignment.counts()[name]:
                    awaited.reset_unready(name)
                    reason = "its regions are ready now"
                    record = FallbackRecord("run", name, reason, replacement=name, action="tried again")
                    return _exchange(engine, program, left_out, record, trial=name)
                close_regions(program)  # the present one is as good: the provider has failed, or is not ready after all
                failure = awaited.count_unready(name)
        if failure:
            engine.fallbacks.note(FallbackRecord("run", name, failure))
        engine.observe()
        return runner


def with_device(engine: Engine, provider: IExecutionProvider, failure: Failure) -> Runner | None:
    """Let a provider whose device was lost go on, with this device or another; returns None where it cannot."""
    before = provider.device
    known = engine.recovery.generations.get(provider.name, 0)
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
            engine.providers.contributions.move(provider)
            engine.recovery.moved.add(provider.name)
        program = engine.plan_again(engine.providers.dropped)
    except Exception as refused:  # a plug-in's code: the device is left
        _logger.warning("%s: planning on %s failed: %s", provider.name, provider.device, refused)
        return None
    if engine.recovery.unproven is not None:
        prove(engine)
    # The memory of the previous program on the lost device is gone and cannot be restored.
    former, pool = engine.assembled, engine.runner.pool if engine.runner is not None else None
    runner = engine.install(program)
    if former is not None and pool is not None:
        engine.retired.add(former, pool)
    engine.fallbacks.note(record)
    return runner


def prove(engine: Engine) -> None:
    """Release the former program after a successful run of the present one, and record what was done."""
    unproven, engine.recovery.unproven = engine.recovery.unproven, None
    if unproven is None:
        return
    engine.retired.add(unproven.assembled, unproven.runner.pool)
    if unproven.trial and unproven.trial not in engine.providers.dropped:
        engine.recovery.circuits.of(unproven.trial).succeeded()
    engine.observe()
    for record in unproven.records:
        engine.recovery.circuits.helped(record.provider)
        engine.fallbacks.note(record)


def take_back(engine: Engine, record: FallbackRecord | None = None) -> Runner:
    """Return to the program before the present one, which did not help.

    Args:
        engine: The engine; its present program has not proved itself.
        record: The record to publish, or None.
    """
    unproven, engine.recovery.unproven = engine.recovery.unproven, None
    assert unproven is not None
    assert engine.assembled is not None
    assert engine.runner is not None
    if unproven.trial:
        engine.recovery.circuits.of(unproven.trial).abandon()
    useless = engine.assembled, engine.runner.pool
    engine.providers.dropped = set(unproven.dropped)
    engine.install(unproven.assembled, unproven.runner)
    engine.retired.add(*useless)
    if record is not None:
        engine.fallbacks.note(replace(record, replacement=_runner_of(unproven.assembled, record.node)))
    return unproven.runner


def _stay_alone(engine: Engine, failure: Failure, why: str = "") -> None:
    """Go on with the provider that failed, because no other takes over. Later runs try it again."""
    engine.recovery.circuits.of(failure.provider).succeeded()  # it is all there is: nothing to keep it from
    if engine.recovery.unproven is not None:
        return  # a plan made for this very run, which is taken back
    engine.recovery.circuits.alone = True
    engine.observe()
    if why:
        reason = f"{failure.reason.rstrip('.')}; {why}"
        engine.fallbacks.note(FallbackRecord("run", failure.provider, reason, failure.node, action="raised"))


def _plan(engine: Engine, left_out: set[str]) -> tuple[Assembled, set[str]]:
    """Plan a program; returns also the providers that it is without: those, and others that turned out not to be ready.

    The present program stays the one that the engine's providers are named for.
    """
    before = set(engine.providers.dropped)
    try:
        program = engine.plan_again(left_out)
        return program, left_out | (engine.providers.dropped & engine.recovery.awaited.providers)
    finally:
        engine.providers.dropped = before


def _exchange(
    engine: Engine, program: Assembled, left_out: Collection[str], record: FallbackRecord, trial: str = ""
) -> Runner:
    """Install a program that has to prove itself."""
    state, former, runner = engine.recovery, engine.assembled, engine.runner
    assert former is not None
    assert runner is not None
    if state.unproven is None:
        state.unproven = Unproven(runner, former, frozenset(engine.providers.dropped), trial)
        runner.pool.trim()  # idle frames hold memory, which the failure may have been about
    else:
        engine.retired.add(former, runner.pool)
    state.unproven.records.append(record)
    engine.providers.dropped = set(left_out)
    return engine.install(program)


def _runner_of(program: Assembled, node: str) -> str:
    """The provider that runs a node now; ``""`` if the node is gone or has no name."""
    return next((assigned.provider for one, assigned in program.assignment if node and one.name == node), "")
