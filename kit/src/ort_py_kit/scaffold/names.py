"""All names of a new package from the one word that its author gives.

``acme`` → distribution ``ort-py-acme``, package ``ort_py_acme``, ``AcmeExecutionProvider``. It is independent of files.
Comes before `packages`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ort_py.discovery.known_names import KNOWN_PROVIDERS
from ort_py.errors import InvalidArgument

_PREFIX, _SUFFIX = "ort-py-", "ExecutionProvider"
_LONGEST = 40
"""Characters: the name stands in file names several times, and paths are bounded on some systems."""

_OURS = {"ort-py", "ort-py-core", "ort-py-array", "ort-py-kit", *filter(None, KNOWN_PROVIDERS.values())}
_KNOWN = {name.casefold(): name for name in KNOWN_PROVIDERS}


@dataclass(frozen=True, slots=True)
class PackageNames:
    """Names of a package and its parts.

    Attributes:
        word: Lower case with hyphens, ``"my-npu"``.
        title: The same as a class begins, ``"MyNpu"``.
    """

    word: str
    title: str

    @property
    def distribution(self) -> str:
        """Name that pip installs, ``"ort-py-my-npu"``."""
        return _PREFIX + self.word

    @property
    def package(self) -> str:
        """Name that is imported, ``"ort_py_my_npu"``."""
        return self.distribution.replace("-", "_")

    @property
    def provider(self) -> str:
        """``"MyNpuExecutionProvider"``; spelt as onnxruntime does where it knows one of that name."""
        name = self.title + _SUFFIX
        return _KNOWN.get(name.casefold(), name)

    @property
    def domain(self) -> str:
        """Domain of the operators it defines, ``"org.my_npu"``."""
        return "org." + self.word.replace("-", "_")


def package_names(given: str) -> PackageNames:
    """Names of a package.

    Args:
        given: ``acme``, ``my-npu``, ``my_npu``, ``MyNpu``; a leading ``ort-py-`` and a trailing ``ExecutionProvider``
            are not part of the name.

    Raises:
        InvalidArgument: No package can be called so, or ort-py has one of that name; lists every reason.
    """
    bare = re.sub(r"^ort[-_]py[-_]", "", given).removesuffix(_SUFFIX)
    reasons = _objections(bare)
    if reasons:
        raise InvalidArgument(
            f"A package cannot be named after {given!r}.",
            why=reasons,
            fix="Use letters, digits and hyphens, with a letter in front: `ort-py new provider my-npu`.",
        )
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", bare)
    parts = [part for part in re.split(r"[-_]+", spaced) if part]
    word = "-".join(part.lower() for part in parts)
    title = "".join(part[0].upper() + part[1:] for part in parts)
    names = PackageNames(word, title)
    if names.distribution in _OURS or KNOWN_PROVIDERS.get(names.provider):
        raise InvalidArgument(
            f"The name {given!r} is taken.",
            why=f"{KNOWN_PROVIDERS.get(names.provider) or names.distribution} is a distribution of ort-py itself",
            fix=f"Choose another, say `my-{word}`: two packages with one provider name are a conflict for their users.",
        )
    return names


def _objections(bare: str) -> list[str]:
    if not bare:
        return ["it contains no name"]
    reasons = []
    strange = sorted({char for char in bare if not re.fullmatch(r"[A-Za-z0-9_-]", char)})
    if strange:
        reasons.append(f"{', '.join(map(repr, strange))} cannot stand in a package's name")
    if not re.match(r"[A-Za-z]", bare):
        reasons.append(f"it begins with {bare[0]!r}, not with a letter")
    if bare[-1] in "-_":
        reasons.append(f"it ends with {bare[-1]!r}")
    if len(bare) > _LONGEST:
        reasons.append(f"it has {len(bare)} characters; {_LONGEST} are allowed")
    return reasons
