"""The folder and the size limit of the cache: from the session's option, else the environment, else the user's folder.

It does not depend on what is cached. ``ORT_PY_CACHE=off`` or a folder; ``ORT_PY_CACHE_SIZE=500M``; 2 GiB by default.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from ort_py.errors import OptionError

FOLDER_VARIABLE = "ORT_PY_CACHE"
SIZE_VARIABLE = "ORT_PY_CACHE_SIZE"
DEFAULT_BYTES = 2 << 30
OFF = "off"

_SIZE = r"\s*(\d{1,15})\s*([KMGT]?)(?:i?B)?\s*"


def cache_folder(option: str = "", environment: Mapping[str, str] = os.environ) -> str | None:
    """The folder, or None if the cache is switched off.

    Args:
        option: `SessionOptions.cache_dir`: ``""`` leaves it to the environment, ``"off"`` wants none.
    """
    wanted = option or environment.get(FOLDER_VARIABLE, "")
    if wanted.strip().lower() in (OFF, "0"):
        return None
    return wanted if wanted.strip() else _users_folder(environment)


def _users_folder(environment: Mapping[str, str]) -> str | None:
    # Texts: importing pathlib takes longer than a session with a warm cache may spend on its folder.
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        above = environment.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        above = os.path.join(home, "Library", "Caches")
    else:
        given = environment.get("XDG_CACHE_HOME", "")
        # The XDG specification: a path that is not absolute is to be ignored.
        above = given if os.path.isabs(given) else os.path.join(home, ".cache")
    if above.startswith("~"):  # there is no home
        return None
    return os.path.join(above, "ort-py", "compiled")


def cache_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """Number of bytes that the cache may hold.

    Raises:
        OptionError: The environment variable is not a size.
    """
    text = environment.get(SIZE_VARIABLE, "")
    return parse_size(text, SIZE_VARIABLE) if text.strip() else DEFAULT_BYTES


def parse_size(text: str, name: str) -> int:
    """A number of bytes, with K, M, G or T for powers of 1024."""
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if match is None:
        raise OptionError(
            f"{name} is {text!r}, which is not a size.", why="a size is a number of bytes", fix="Write e.g. 500M or 2G."
        )
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")
