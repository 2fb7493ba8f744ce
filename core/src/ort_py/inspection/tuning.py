"""`ort_py.tune`: measure the best few placements of a model once, and let sessions use the fastest from then on.

Each candidate is a session of the same model with some of its providers, by the config entry ``session.placement``. All
are tried for a moment, one after the other; the best are then measured in alternating blocks, so that other work on
the machine slows all of them alike. `tuned_placement` keeps the result.
"""

from __future__ import annotations

import copy
import datetime
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from ort_py.api.session import InferenceSession
from ort_py.devices import HOST, Device
from ort_py.discovery import CPU_ROLE
from ort_py.engine.participants import Participants
from ort_py.engine.tuned_placement import IN_ORDER, PLACEMENT_KEY, TunedPlacement
from ort_py.errors import InvalidArgument, OptionError, OrtPyError
from ort_py.inspection.generated_inputs import InputRecipe, generate
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions, entry_of
from ort_py.printable import one_line


@dataclass(frozen=True, slots=True)
class TunedCandidate:
    """One placement that was tried.

    Attributes:
        name: Description in words.
        providers: The providers that take part, in order.
        nodes: Nodes that each provider runs.
        milliseconds: Median of one run, of the quietest block; None where it was not measured.
        created: Seconds that making its session took.
        runs: Runs that were timed.
        remark: Why it was not measured, or not to the end.
    """

    name: str
    providers: tuple[str, ...]
    nodes: Mapping[str, int] = field(default_factory=dict)
    milliseconds: float | None = None
    fastest: float | None = None
    created: float = 0.0
    runs: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Placements of one model on this machine.

    Attributes:
        candidates: All that were tried; the session's own order first.
        chosen: The fastest; the session's own order where no other is faster by a margin.
        remembered: Whether sessions will use it.
        remark: Why it is not remembered.
    """

    model: str
    candidates: tuple[TunedCandidate, ...]
    chosen: TunedCandidate
    remembered: bool = False
    remark: str = ""

    @property
    def gain(self) -> float:
        """Speed of the chosen placement relative to the session's own order; 1 if that was not measured."""
        first, best = self.candidates[0].milliseconds, self.chosen.milliseconds
        return first / best if first and best else 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "model": self.model,
            "chosen": self.chosen.name,
            "providers": list(self.chosen.providers),
            "gain": self.gain,
            "remembered": self.remembered,
            "remark": self.remark,
            "candidates": [{**asdict(one), "nodes": dict(one.nodes)} for one in self.candidates],
        }

    def __str__(self) -> str:
        rows = [("placement", "ms a run", "fastest", "made in", "nodes")]
        for one in self.candidates:
            nodes = ", ".join(f"{name}: {count}" for name, count in one.nodes.items())
            mark = "* " if one is self.chosen else "  "
            remarks = "; ".join(text for text in (nodes, one.remark) if text)
            name = one_line(mark + one.name)
            rows.append((name, _ms(one.milliseconds), _ms(one.fastest), f"{one.created:.2f} s", one_line(remarks)))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in rows]
        kept = (
            "remembered: sessions of this model use it"
            if self.remembered
            else f"not remembered: {one_line(self.remark)}"
        )
        return "\n".join([*lines, f"{self.chosen.name}: {self.gain:.2f} times as fast as the order given; {kept}"])


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


FINALISTS = 3
"""Candidates that are measured against each other in the end."""

ROUNDS = 5
MARGIN = 1.03
"""Another order than the session's has to be so many times as fast: less is within what machines vary by."""

_HOPELESS = 1.5
"""A candidate that took so many times as long as the best at first is not measured again."""


@dataclass(slots=True)
class _Trial:
    row: TunedCandidate
    session: InferenceSession | None = None
    blocks: list[list[float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The least median of a block: what a quiet machine takes."""
        return min((statistics.median(block) for block in self.blocks), default=float("inf"))


def tune(
    model: Any,
    sess_options: SessionOptions | None = None,
    providers: Sequence[Any] | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    seconds: float = 10.0,
    remember: bool = True,
    progress: Callable[[str], None] | None = None,
) -> TuningReport:
    """Measure the best few placements of a model on this machine and remember the fastest.

    Sessions that are made later of the same file, with the same options and providers, on this machine, use it and say
    so in `load_report`. It is forgotten when one of these changes; ``ort-py cache`` lists and removes it. A model
    given as bytes is only remembered where the config entry ``session.model_cache`` is ``"1"``.

    Args:
        model: A path, bytes or message, as for a session.
        providers, provider_options: As for a session; all usable ones where None.
        inputs: Feeds; None generates them from the model's declarations.
        seed: Seed of generated inputs.
        seconds: About how long to measure, making the sessions not counted.
        remember: Whether the answer is kept.
        progress: Called with a description of each activity.

    Returns:
        What was tried and chosen.

    Raises:
        InvalidArgument: `seconds` is not positive.
        OptionError: The options name a placement already.
        OrtPyError: No placement runs the model: the error of the session's own order.
    """
    if not seconds > 0:
        raise InvalidArgument(
            f"tune() was asked to measure for {seconds!r} seconds.", fix="Pass a positive number, e.g. 10."
        )
    options = copy.copy(sess_options) if sess_options is not None else SessionOptions()
    if entry_of(options, PLACEMENT_KEY) not in ("", IN_ORDER):
        raise OptionError(
            f"The options name a placement: '{PLACEMENT_KEY}' is '{entry_of(options, PLACEMENT_KEY)}'.",
            why="tune() tries several",
            fix="Leave the entry out.",
        )

    def opened(names: Sequence[str]) -> InferenceSession:
        chosen = copy.copy(options)
        chosen.verify = 0.0
        chosen.add_session_config_entry(PLACEMENT_KEY, ",".join(names) or IN_ORDER)
        return InferenceSession(model, chosen, providers, provider_options)

    say = progress or _silent
    say("creating the session without changes")
    start = time.perf_counter()
    with opened(()) as session:
        engine = session.engine
        title, created = engine.description.title, engine.providers.created
        feeds = dict(inputs) if inputs is not None else _made_up(session, seed)
        in_order = _Trial(_row("in order", session, tuple(one.name for one in created), time.perf_counter() - start))
        reserve = [one.record.name for one in engine.providers.selection.reserve]
        devices = {one.name: one.device for one in created}
        orders = tuning_orders(list(devices), devices, CPU_ROLE, reserve)
        first = _first_block(in_order, session, feeds, seconds)
        trials = [in_order, *_tried(orders, opened, feeds, seconds, first, say)]
    _final(trials, opened, feeds, seconds, say)
    return _concluded(
        title, trials, lambda tuned: _kept(engine.providers.participants, title, tuned) if remember else "as was asked"
    )


def _made_up(session: InferenceSession, seed: int) -> dict[str, Any]:
    recipe = InputRecipe(seed=seed)
    return {argument.name: generate(argument, recipe).value for argument in session.get_inputs()}


def _row(name: str, session: InferenceSession, providers: tuple[str, ...], created: float) -> TunedCandidate:
    return TunedCandidate(name, providers, session.placement.counts(), created=created)


def _first_block(trial: _Trial, session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> Any:
    """Warm up and measure shortly; returns what distinguishes placements."""
    session.run(None, feeds)
    session.run(None, feeds)
    trial.blocks.append(_block(session, feeds, seconds / 40))
    return [(one.node, one.provider, one.region) for one in session.placement]


def _tried(
    orders: Mapping[str, tuple[str, ...]],
    opened: Callable[[Sequence[str]], InferenceSession],
    feeds: Mapping[str, Any],
    seconds: float,
    first: Any,
    say: Callable[[str], None],
) -> list[_Trial]:
    seen = {str(first): "in order"}
    trials: list[_Trial] = []
    for name, names in orders.items():
        say(f"trying {name}")
        start = time.perf_counter()
        trial = _Trial(TunedCandidate(name, names))
        trials.append(trial)
        try:
            with opened(names) as session:
                trial.row = _row(name, session, names, time.perf_counter() - start)
                same = seen.setdefault(str([(one.node, one.provider, one.region) for one in session.placement]), name)
                if same != name:
                    trial.row = replace(trial.row, remark=f"same placement as {same}")
                    continue
                _first_block(trial, session, feeds, seconds)
        except OrtPyError as error:  # one that cannot run the model is not a candidate; the others go on
            trial.blocks.clear()
            trial.row = replace(trial.row, remark=f"{type(error).__name__}: {error.what}")
    return trials


def _final(
    trials: Sequence[_Trial],
    opened: Callable[[Sequence[str]], InferenceSession],
    feeds: Mapping[str, Any],
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Measure the best against each other; the session's own order is among them."""
    ranked = sorted((one for one in trials[1:] if one.blocks), key=lambda one: one.seconds)
    best = min([trials[0].seconds, *(one.seconds for one in ranked)])
    finalists = [trials[0], *(one for one in ranked[: FINALISTS - 1] if one.seconds < _HOPELESS * best)]
    if len(finalists) < 2:
        return
    block = seconds / ROUNDS / len(finalists)
    try:
        for trial in finalists:
            say(f"measuring {trial.row.name}")
            trial.session = opened(() if trial is trials[0] else trial.row.providers)
            trial.session.run(None, feeds)
            trial.blocks.clear()
        for turn in range(ROUNDS):
            say(f"measuring, round {turn + 1} of {ROUNDS}")
            for trial in finalists if turn % 2 else reversed(finalists):
                assert trial.session is not None  # opened above
                trial.blocks.append(_block(trial.session, feeds, block))
    finally:
        for trial in finalists:
            if trial.session is not None:
                trial.session.close()


def _block(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> list[float]:
    until = time.perf_counter() + seconds
    runs: list[float] = []
    while not runs or time.perf_counter() < until:
        start = time.perf_counter()
        session.run(None, feeds)
        runs.append(time.perf_counter() - start)
    return runs


def _concluded(title: str, trials: Sequence[_Trial], keep: Callable[[TunedPlacement], str]) -> TuningReport:
    rows = []
    for trial in trials:
        runs = [run for block in trial.blocks for run in block]
        row = trial.row
        if runs:
            row = replace(row, milliseconds=trial.seconds * 1e3, fastest=min(runs) * 1e3, runs=len(runs))
        rows.append(row)
    times = [trial.seconds for trial in trials]
    place = min(range(len(times)), key=times.__getitem__)
    if times[place] * MARGIN >= times[0]:
        place = 0
    chosen = rows[place]
    assert chosen.milliseconds is not None  # the first one ran, else there is an error
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    remark = keep(TunedPlacement(chosen.providers, chosen.milliseconds, rows[0].milliseconds or 0.0, today))
    return TuningReport(title, tuple(rows), chosen, not remark, remark)


def _kept(participants: Participants, title: str, tuned: TunedPlacement) -> str:
    """Remember it; why not, where it cannot be."""
    if not participants.key:
        return (
            "the model is not a file, the session is strict or has only one provider, the code of a provider is "
            "not in a package, or the cache is off"
        )
    return "" if participants.remember(title, tuned) else "the cache's folder cannot be written"


def _silent(text: str) -> None:
    """Ignore progress messages."""


def tuning_orders(
    names: Sequence[str], devices: Mapping[str, Device], completing: str, reserve: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Orders to try besides the session's own, by what they are in words; each order once.

    Args:
        names: The session's providers, in order.
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
