"""Run in a fresh interpreter: restore artifacts, run what they give, and leave the outputs in a folder.

Its arguments are the plug-in's module, the provider's name, its options as JSON, and the folder, which `artifacts` has
filled. A line of JSON is printed for each artifact, and one before it: a native library may end the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ort_py.contracts import ArtifactValidity
from ort_py_kit.subject import Subject
from ort_py_kit.suites.allocator import DeviceUnderTest, device_of
from ort_py_kit.suites.regions import read_arrays, run_region, write_arrays


def main(module: str, name: str, options: str, folder: str) -> None:
    """Try each artifact of the folder, in order."""
    root = Path(folder)
    subject = Subject(name, json.loads(options), module)
    with device_of(subject) as device:
        for number, trial in enumerate(json.loads((root / "trials.json").read_text(encoding="utf-8"))):
            _say({"number": number})
            _say({"number": number, **_tried(device, root, number, trial)})


def _tried(device: DeviceUnderTest, root: Path, number: int, trial: dict[str, Any]) -> dict[str, Any]:
    """The progress of the trial of one artifact."""
    artifact = (root / f"{number}.artifact").read_bytes()
    seen: dict[str, Any] = {"stage": "validate"}
    try:
        validity = device.provider.validate(artifact)
        seen |= {"validity": validity.value, "stage": "restore"}
        if validity is not ArtifactValidity.VALID:
            return seen
        region = device.provider.restore(artifact)
        seen["stage"] = "run"
        try:
            for size in trial["sizes"]:
                feeds = read_arrays(root / f"{trial['feeds']}-{size}.feeds")
                results = run_region(device, region, trial["inputs"], trial["outputs"], feeds)
                write_arrays(root / f"{number}-{size}.results", {str(place): one for place, one in enumerate(results)})
        finally:
            region.close()
        seen["stage"] = ""
    except Exception as error:  # the parent judges
        seen["error"] = f"{type(error).__name__}: {error}"
    return seen


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:5])
