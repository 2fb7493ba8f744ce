"""SessionOptions and RunOptions: onnxruntime's attributes, methods and defaults, and those of ort-py, in one table.

Comes before everything else of a session, which copies its options: changing them later has no effect on it. In
reading order:

* `spec`: the record of one option, from which everything about it is made.
* `option_set`: options as typed attributes, config entries, copies, pickling, and what the engine asks of options.
* `session_attributes`, `run_options`, `config_entries`: the table.
* `session_options`: the attributes with the methods of onnxruntime; `added` holds what these add.
* `config_checks`, `verify_share`: checks of keys and values.
* `ep_context`: the buffers that callbacks for compiled models get.

It is independent of models, providers and sessions.
"""

from typing import TYPE_CHECKING

from ort_py.lazy_names import lazy_names
from ort_py.options.option_set import changed_values, entries_of, entry_of, is_on, specs_of, values_of, without_effect
from ort_py.options.session_options import SessionOptions, additions_of, calculates_fast, reuses_memory

if TYPE_CHECKING:
    from ort_py.options.run_options import RunOptions, overlay_of, shrinks_memory, with_adapters
else:  # most runs have no options
    _OF_RUNS = {"ort_py.options.run_options": "RunOptions overlay_of shrinks_memory with_adapters"}
    __getattr__, __dir__, _ = lazy_names(globals(), _OF_RUNS)

__all__ = [
    "RunOptions",
    "SessionOptions",
    "additions_of",
    "calculates_fast",
    "changed_values",
    "entries_of",
    "entry_of",
    "is_on",
    "overlay_of",
    "reuses_memory",
    "shrinks_memory",
    "specs_of",
    "values_of",
    "with_adapters",
    "without_effect",
]
