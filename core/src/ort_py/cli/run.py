"""``ort-py run MODEL``: run a model on files, an image or generated inputs, and show the results, the providers and the
times.

Nothing is printed to standard output before the model has run, so a failure leaves it empty.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ort_py
from ort_py.cli.console import say
from ort_py.cli.inputs import Feeds, add_input_arguments, make_feeds
from ort_py.cli.output import print_json, shape_text, table, time_text
from ort_py.cli.progress import Progress
from ort_py.cli.sessions import add_session_arguments, open_session
from ort_py.cli.summaries import save_values, summarise, summary_text
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of the runs: the first, which also warms up, and the repeated ones."""

    first: float
    repeated: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"first_ms": self.first * 1e3, "repeated": len(self.repeated)}
        if self.repeated:
            shown["median_ms"] = statistics.median(self.repeated) * 1e3
            shown["min_ms"] = min(self.repeated) * 1e3
        return shown

    def __str__(self) -> str:
        text = f"first run {time_text(self.first)}"
        if not self.repeated:
            return text
        median, best = statistics.median(self.repeated), min(self.repeated)
        return f"{text}; {len(self.repeated)} more: median {time_text(median)}, best {time_text(best)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_arguments(parser)
    add_input_arguments(parser)
    parser.add_argument(
        "--repeat", type=_count, default=0, metavar="N", help="run N more times and show the median and best time"
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="save each output as DIR/NAME.npy")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        OrtPyError: The model or an input is wrong.
        OSError: An output cannot be saved.
    """
    with open_session(arguments) as session:
        feeds = make_feeds(session.get_inputs(), session.get_overridable_initializers(), arguments)
        results, times = _run(session, feeds.values, arguments)
        names = [output.name for output in session.get_outputs()]
        outputs = dict(zip(names, results, strict=True))
        saved = save_values(arguments.output, outputs.items()) if arguments.output is not None else []
        if arguments.json:
            print_json(_report(arguments, session, feeds, outputs, times, saved))
        else:
            _print(arguments, session, feeds, outputs, times, saved)
    return 0


def _run(
    session: ort_py.InferenceSession, values: Mapping[str, Any], arguments: argparse.Namespace
) -> tuple[list[Any], _Times]:
    with Progress(f"running {Path(arguments.model).name}") as progress:
        start = time.perf_counter()
        results = session.run(None, values)
        first = time.perf_counter() - start
        repeated: list[float] = []
        for number in range(arguments.repeat):
            progress.detail(f"run {number + 1} of {arguments.repeat}")
            start = time.perf_counter()
            session.run(None, values)
            repeated.append(time.perf_counter() - start)
    return results, _Times(first, tuple(repeated))


def _report(
    arguments: argparse.Namespace,
    session: ort_py.InferenceSession,
    feeds: Feeds,
    outputs: Mapping[str, Any],
    times: _Times,
    saved: list[Path],
) -> dict[str, Any]:
    load = session.load_report
    return {
        "model": str(arguments.model),
        "providers": session.get_providers(),
        "nodes": session.placement.counts(),
        "fingerprint": session.fingerprint.to_json(),
        "threads": {"count": session.threads.count, "reason": session.threads.reason},
        "state": session.state,
        "fallbacks": [str(record) for record in session.fallback_report],
        "stages_ms": {stage.stage: stage.seconds * 1e3 for stage in load.stages},
        "load_ms": load.seconds * 1e3,
        "times": times.as_json(),
        "memory": session.memory_report().to_dict(),
        "inputs": [{**summarise(name, value), "source": feeds.sources[name]} for name, value in feeds.values.items()],
        "outputs": [summarise(name, value) for name, value in outputs.items()],
        "saved": [str(path) for path in saved],
    }


def _print(
    arguments: argparse.Namespace,
    session: ort_py.InferenceSession,
    feeds: Feeds,
    outputs: Mapping[str, Any],
    times: _Times,
    saved: list[Path],
) -> None:
    say(f"model    {arguments.model}")
    say("inputs")
    for name, value in feeds.values.items():
        summary = summarise(name, value)
        shape = shape_text(summary["shape"]) if "shape" in summary else ""
        say(f"  {name}: {summary.get('dtype', summary['kind'])}{shape} from {feeds.sources[name]}")
    say("outputs")
    for name, value in outputs.items():
        say(summary_text(summarise(name, value)))
    for path in saved:
        say(f"  saved {path}")
    say("nodes by provider")
    say(table(("provider", "nodes"), session.placement.counts().items()))
    for record in session.fallback_report:
        say(f"  fallback: {record}")
    load = session.load_report
    stages = ", ".join(f"{stage.stage} {time_text(stage.seconds)}" for stage in load.stages)
    say(f"loading  {time_text(load.seconds)} ({stages})")
    say(f"running  {times} on {session.threads.count} thread(s)")
    say("memory")
    say("\n".join(f"  {line}" for line in str(session.memory_report()).splitlines()))


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of runs")
    return int(text)
