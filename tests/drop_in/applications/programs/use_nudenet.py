"""NudeNet looks for bodies in a picture: a detector with its suppression of overlaps, as two models in one."""

from __future__ import annotations

from typing import Any

import pictures
import results


def application() -> Any:
    """Its findings in a drawn face, which are none; its tensors are what is compared."""
    from nudenet import NudeDetector

    return NudeDetector().detect(pictures.face()[..., ::-1])


results.main(application)
