"""A child process of a campaign: reads seeds, writes stages, findings and an end for each, as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["main"]


def main() -> int:
    """Work until there are no more seeds."""
    from tests.fuzzing.campaign import quiet

    quiet()
    # Whatever a library prints goes elsewhere: this pipe is for lines of JSON.
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(**data: Any) -> None:
        pipe.write(json.dumps(data) + "\n")

    work, settings = sys.argv[1], json.loads(sys.argv[2])
    run = _WORK[work](settings, say)
    for line in sys.stdin:
        seed = int(line)
        try:
            counts = run(seed)
        except Exception:
            text = traceback.format_exc()[-1500:]
            say(finding=text, kind="own", who=work, seed=seed, signature=f"own {text.splitlines()[-1][:100]}")
            counts = {"own": 1}
        say(done=seed, counts=counts)
    return 0


def _graphs(settings: dict[str, Any], say: Callable[..., None]) -> Callable[[int], dict[str, int]]:
    from tests.fuzzing.graphs import GraphSearch

    return GraphSearch(say=say, **settings).run


def _mutants(settings: dict[str, Any], say: Callable[..., None]) -> Callable[[int], dict[str, int]]:
    from tests.fuzzing.mutants import MutantSearch

    return MutantSearch(say=say, **settings).run


def _attacks(settings: dict[str, Any], say: Callable[..., None]) -> Callable[[int], dict[str, int]]:
    from tests.fuzzing.attacks import AttackSearch

    return AttackSearch(say=say, **settings).run


_WORK = {"attacks": _attacks, "graphs": _graphs, "mutants": _mutants}

if __name__ == "__main__":
    sys.exit(main())
