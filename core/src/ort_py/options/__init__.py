"""SessionOptions and RunOptions: onnxruntime's attributes, methods and defaults, checked when they are set.

Comes before everything else of a session, which copies its options: changing them later has no effect on it. In
reading order:

* `checked`: attributes with a type each, config entries, copies, pickling.
* `config_keys`: the table of config keys onnxruntime knows, and what each does here.
* `added`: what methods add: initializers, dimensions, providers, callbacks.
* `session_attributes`, `session_options`, `run_options`: the two classes, and the tables of the larger one.
* `ep_context`: the buffers that callbacks for compiled models get.

Knows no model, no provider and no session.
"""

from ort_py.options.run_options import RunOptions
from ort_py.options.session_options import SessionOptions

__all__ = ["RunOptions", "SessionOptions"]
