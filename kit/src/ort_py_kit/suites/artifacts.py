"""Artifacts of compiled regions: restored in another process they compute the same, and what does not fit is refused.

What a provider serialises is kept in the core's cache for later processes and newer versions, so each artifact is tried
in a fresh interpreter (`artifact_child`), which a library that cannot read it may end. A provider that serialises
nothing has nothing to show.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.allocator import device_of
from ort_py_kit.suites.base import Problem, ProviderChecks, agree, fail
from ort_py_kit.suites.child import module_of, run_child
from ort_py_kit.suites.regions import claimed_regions, read_arrays, run_region, write_arrays

_SIZES = (3, 5)
_DAMAGED = 2
"""Regions whose artifacts are damaged in every way; the others would be refused for the same reasons."""

_STAGES = {
    "validate": "`validate` raises",
    "restore": "`restore` raises",
    "run": "the restored region does not run",
    "died": "it is the end",
}


@dataclass(frozen=True, slots=True)
class KeptRegion:
    """A region that was compiled and serialised.

    Attributes:
        inputs, outputs: Names of the values at its border, in its order.
        feeds: Arrays by name, for each size.
    """

    sample: str
    artifact: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    feeds: tuple[dict[str, Any], ...]
    results: tuple[list[Any], ...]


class ArtifactChecks(ProviderChecks):
    """`serialize`, `validate` and `restore`."""

    def stale_artifacts(self, artifact: bytes) -> Iterable[bytes]:
        """Artifacts that fitted once: of another version of the library, for another device, with other options.

        None where not overridden.

        Args:
            artifact: One that fits here, to be changed into such.
        """
        return ()

    @pytest.fixture
    def kept(self, usable: Subject, claimed: Sequence[Sample]) -> Sequence[KeptRegion]:
        """Regions of the samples that can be kept."""
        found = list(_kept(usable, claimed))
        if not found:
            pytest.skip(f"{usable.name} keeps no artifacts: it compiles no region that serialises itself")
        return found

    def test_artifacts_restore_to_equal_results(
        self, usable: Subject, kept: Sequence[KeptRegion], tmp_path: Path
    ) -> None:
        """In another process, a fresh provider restores each artifact to what the compiled region computes."""
        seen = _tried(usable, [(region, region.artifact) for region in kept], tmp_path)
        problems = [
            f"{region.sample}: {problem}"
            for number, (region, one) in enumerate(zip(kept, seen, strict=False))
            if (problem := _refused(one) or _differs(region, tmp_path, number))
        ]
        if problems:
            fail(
                f"Artifacts of {usable.name} are not what they were made of.",
                problems,
                fix="put into the bytes all that a run needs: weights, shapes and options, never addresses or names of "
                "what the process holds; `validate` says VALID of what was made by this version for this device.",
            )

    def test_what_does_not_fit_is_refused(self, usable: Subject, kept: Sequence[KeptRegion], tmp_path: Path) -> None:
        """Damaged, foreign and stale artifacts do not count as VALID or raise an error when they are restored; none of
        them runs."""
        trials = [
            (region, what, artifact)
            for region in kept[:_DAMAGED]
            for what, artifact in (
                *damaged_forms(region.artifact),
                *(("stale", one) for one in self.stale_artifacts(region.artifact)),
            )
        ]
        seen = _tried(usable, [(region, artifact) for region, _, artifact in trials], tmp_path)
        problems = []
        for number, ((region, what, _), one) in enumerate(zip(trials, seen, strict=False)):
            problem = _accepted(region, one, tmp_path, number, stale=what == "stale")
            if problem:
                problems.append(f"{region.sample}, {what}: {problem}")
        if problems:
            fail(
                f"{usable.name} takes artifacts for valid that are not.",
                problems[:8],
                fix="keep in the artifact who made it, with which versions, for which device and options, and a "
                "checksum of all of it (hashlib.blake2b); let `validate` compare them before the library sees a byte.",
            )


def damaged_forms(artifact: bytes) -> Iterator[tuple[str, bytes]]:
    """Damaged forms of an artifact: on a bad disk, in a truncated copy, or under another name."""
    size = len(artifact)
    yield "empty", b""
    yield "of something else", bytes(range(256))
    yield "cut in half", artifact[: size // 2]
    yield "without its last byte", artifact[:-1]
    for place in sorted({size * eighth // 8 for eighth in range(8)} | {size - 1}):
        yield (
            f"byte {place} changed",
            b"".join([artifact[:place], bytes([artifact[place] ^ 0xFF]), artifact[place + 1 :]]),
        )


def _kept(subject: Subject, samples: Sequence[Sample]) -> Iterator[KeptRegion]:
    with device_of(subject) as device:
        for sample in samples:
            for region in claimed_regions(subject, device, sample):
                inputs = tuple(value.name for value in region.inputs)
                outputs = tuple(value.name for value in region.outputs)
                compiled = device.provider.compile(region)
                try:
                    artifact = compiled.serialize()
                    if artifact:
                        feeds = tuple(sample.feeds(size) for size in _SIZES)
                        results = tuple(run_region(device, compiled, inputs, len(outputs), one) for one in feeds)
                        yield KeptRegion(sample.name, bytes(artifact), inputs, outputs, feeds, results)
                finally:
                    compiled.close()


def _tried(subject: Subject, trials: Sequence[tuple[KeptRegion, bytes]], folder: Path) -> list[dict[str, Any]]:
    """Observations of the fresh process for each artifact. One that ended the process is the last."""
    described, known = [], {}
    for number, (region, artifact) in enumerate(trials):
        (folder / f"{number}.artifact").write_bytes(artifact)
        if id(region) not in known:
            known[id(region)] = number
            for size, feeds in zip(_SIZES, region.feeds, strict=True):
                write_arrays(folder / f"{number}-{size}.feeds", feeds)
        described.append(
            {"inputs": region.inputs, "outputs": len(region.outputs), "feeds": str(known[id(region)]), "sizes": _SIZES}
        )
    (folder / "trials.json").write_text(json.dumps(described), encoding="utf-8")
    done = run_child(
        "artifact_child", module_of(subject), subject.name, json.dumps(dict(subject.options), default=str), str(folder)
    )
    seen: dict[int, dict[str, Any]] = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"number"'):
            said = json.loads(line)
            seen[said.pop("number")] = said
    found = [seen[number] for number in sorted(seen)]
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        ended = {"stage": "died", "error": f"the process ends with {done.returncode} {' '.join(last)}".rstrip()}
        if found and not found[-1]:
            found[-1] = ended
        elif len(found) < len(trials):
            found.append(ended)
    return found


def _refused(seen: dict[str, Any]) -> str:
    """Explain why an artifact that should serve does not."""
    if "error" in seen:
        return f"in another process, {_STAGES[seen['stage']]}: {seen['error']}"
    if seen["validity"] != "valid":
        return f"`validate` calls it {seen['validity'].upper()} in a process that differs in nothing"
    return ""


def _accepted(region: KeptRegion, seen: dict[str, Any], folder: Path, number: int, *, stale: bool) -> str:
    """Describe the problem if an artifact is accepted that should be refused."""
    if seen["stage"] == "died":
        return str(seen["error"])
    if seen["stage"] == "run":
        return f"`validate` calls it VALID, and its run fails: {seen['error']}"
    if seen["stage"]:  # refused by `validate`, or by what it or `restore` raised
        return ""
    if stale:
        return "`validate` calls it VALID, and `restore` takes it"
    problem = _differs(region, folder, number)
    return problem and f"`validate` calls it VALID, and {problem}"


def _differs(region: KeptRegion, folder: Path, number: int) -> str:
    """Describe how results of a restored region differ; ``""`` if they do not."""
    for size, expected in zip(_SIZES, region.results, strict=True):
        actual = list(read_arrays(folder / f"{number}-{size}.results").values())
        if len(actual) != len(expected):
            return f"what it restores gives {len(actual)} outputs instead of {len(expected)}"
        for name, left, right in zip(region.outputs, actual, expected, strict=True):
            try:
                agree(left, right, name)
            except Problem as problem:
                return f"what it restores computes other numbers: {problem}"
    return ""
