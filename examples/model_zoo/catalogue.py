"""The table of model files, read from `catalogue.toml` beside this module."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CATALOGUE", "ZooModel", "by_name"]


@dataclass(frozen=True, slots=True)
class ZooModel:
    """One model file inside one release of a package.

    Attributes:
        name: What tests and tables call it; unique.
        package: Name on the package index.
        version: Release.
        path: Path inside the wheel; a source archive has one more folder in front.
        sha256: Checksum of the file.
        licence: SPDX identifier.
        platform: Platform tag of the wheel to take, empty where the package has one wheel for all.
    """

    name: str
    package: str
    version: str
    path: str
    sha256: str
    licence: str
    platform: str = ""

    @property
    def requirement(self) -> str:
        """The release as pip writes it."""
        return f"{self.package}=={self.version}"


def _read() -> tuple[ZooModel, ...]:
    table = tomllib.loads((Path(__file__).parent / "catalogue.toml").read_text(encoding="utf-8"))
    return tuple(
        ZooModel(
            name=model["name"],
            package=package["name"],
            version=package["version"],
            path=model["path"],
            sha256=model["sha256"],
            licence=package["licence"],
            platform=package.get("platform", ""),
        )
        for package in table["package"]
        for model in package["model"]
    )


CATALOGUE: tuple[ZooModel, ...] = _read()
"""Every model, packages in the table's order."""


def by_name(name: str) -> ZooModel:
    """The entry of this name.

    Raises:
        KeyError: There is none; the message lists all.
    """
    for model in CATALOGUE:
        if model.name == name:
            return model
    raise KeyError(f"no model '{name}' in the catalogue: {', '.join(model.name for model in CATALOGUE)}")
