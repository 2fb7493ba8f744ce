"""Write `docs/user/options.md`: every option of sessions, runs and providers, made from the tables in the sources.

Run in the project's environment from the repository's root: `.venv/bin/python -m scripts.option_table`. A test keeps
the page true (`tests/architecture/test_option_table.py`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from ort_py.contracts import OptionSpec
from ort_py.options import RunOptions, SessionOptions, specs_of
from ort_py.options.config_entries import RUN_ENTRIES, SESSION_ENTRIES
from ort_py.options.spec import FIRST_VERSION, Effect, EngineOption

__all__ = ["main", "page"]

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "user" / "options.md"

HEAD = """# Options

Written by `python -m scripts.option_table` from the tables of options in the sources. `help(ort_py.SessionOptions)`
shows the same texts.

```python
options = ort_py.SessionOptions()
options.intra_op_num_threads = 2
options.add_session_config_entry("session.model_cache", "0")
session = ort_py.InferenceSession("model.onnx", options)
```

Attributes are checked when they are set, and an unknown one is refused with the name that was probably meant. So is a
config key that is close to a known one; any other key that is unknown leads to a warning. The column *affects* says
what an option changes:

- *runs*: how runs go, which memory is kept and which files are written. The prepared model is the same.
- *program*: what the session makes of the model. The option is a part of the key in the [cache](cache.md) and of the
  session's fingerprint.
- *program on this machine*: the same, but no part of the fingerprint, since machines of a fleet differ in it.
- *nothing*: ort-py accepts the option because onnxruntime has it. The load report names it where it is set.
"""

_ATTRIBUTES = ("| option | type | default | affects | meaning |", "|---|---|---|---|---|")
_ENTRIES = ("| key | takes | default | affects | meaning |", "|---|---|---|---|---|")
_IGNORED = ("| key | meaning in onnxruntime |", "|---|---|")
_PROVIDERS = ("| option | type | default | meaning |", "|---|---|---|---|")


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD.rstrip(), *_lines()]) + "\n"


def main() -> int:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET.relative_to(ROOT)}\n")
    return 0


def _lines() -> Iterator[str]:
    for kind, entries, scope in (
        (SessionOptions, SESSION_ENTRIES, "session"),
        (RunOptions, RUN_ENTRIES, "run"),
    ):
        specs = specs_of(kind)
        own = [spec for spec in specs if spec.onnxruntime_name is None]
        yield from _table(
            f"{kind.__name__}: onnxruntime's attributes", _ATTRIBUTES, [spec for spec in specs if spec not in own]
        )
        yield from _table(f"{kind.__name__}: attributes of ort-py", _ATTRIBUTES, own)
        honoured = [spec for spec in entries.values() if spec.effect is not Effect.NONE]
        for title, of_ort_py in (("onnxruntime's keys", False), ("keys of ort-py", True)):
            rows = [spec for spec in honoured if (spec.onnxruntime_name is None) is of_ort_py]
            if rows:
                yield from _table(f"Config entries of a {scope}: {title}", _ENTRIES, rows)
        ignored = [f"| `{spec.name}` | {_cell(spec.help)} |" for spec in entries.values() if spec not in honoured]
        yield from _section(f"Config entries of a {scope} without effect", _IGNORED, ignored)
    for name, options in _provider_options():
        yield from _section(f"Provider options of {name}", _PROVIDERS, [_provider_row(option) for option in options])


def _table(title: str, head: Iterable[str], specs: Iterable[EngineOption]) -> Iterator[str]:
    rows = [
        f"| `{spec.name}` | {_cell(_type(spec))} | {_default(spec.default)} | {spec.effect.value} | {_meaning(spec)} |"
        for spec in specs
    ]
    yield from _section(title, head, rows)


def _section(title: str, head: Iterable[str], rows: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", *head, *rows)


def _type(spec: OptionSpec) -> str:
    return ", ".join(map(repr, spec.choices)) or spec.title


def _meaning(spec: EngineOption) -> str:
    since = "" if spec.since == FIRST_VERSION else f" Since {spec.since}."
    return _cell(spec.help + since)


def _default(value: Any) -> str:
    shown = str(value) if isinstance(value, Enum) else repr(value)
    if shown.startswith("Limits("):
        shown = "Limits()"
    return f"`{shown}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _provider_row(option: OptionSpec) -> str:
    return f"| `{option.name}` | {_cell(_type(option))} | {_default(option.default)} | {_cell(option.help)} |"


def _provider_options() -> Iterator[tuple[str, Sequence[OptionSpec]]]:
    """The options that each provider of this repository declares, whether it is installed here or not."""
    for file in sorted(ROOT.glob("providers/*/src/*/options.py")):
        sys.path.insert(0, str(file.parents[1]))
        try:
            declared = importlib.import_module(f"{file.parent.name}.options").OPTIONS
        finally:
            sys.path.pop(0)
        if declared:
            yield f"`ort-py-{file.parents[2].name}`", declared


if __name__ == "__main__":
    sys.exit(main())
