"""All operator forms; importing this fills the table."""

from tests.fuzzing.forms import (
    control,
    elementwise,
    gates,
    indexing,
    products,
    quantised,
    recurrent,
    reductions,
    uncommon,
    views,
    windows,
)

__all__ = ["LOADED"]

LOADED = (control, elementwise, gates, indexing, products, quantised, recurrent, reductions, uncommon, views, windows)
