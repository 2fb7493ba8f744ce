"""A stand-in for the loader of macOS: it opens libraries by what they say of themselves, and runs none of their code.

As `dlopen` does there, it finds what a library needs by its name, beside the library where the name begins with
``@rpath``, and has the symbols that the library exports. It does not know XNNPACK.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from providers.xnnpack.tests.binding.mach_o import Image, read_image

__all__ = ["Loader", "Opened"]

_OF_THE_SYSTEM = frozenset({"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"})


class Loader:
    """The loader.

    Attributes:
        opened: The libraries that were asked for, in order.
        flags: Those that each was opened with.
        loaded: Names of all that were loaded, in order, with those that others need.
        NULL: As of cffi.
    """

    NULL = None

    def __init__(self) -> None:
        self.opened: list[Path] = []
        self.flags: list[int] = []
        self.loaded: list[str] = []

    def dlopen(self, name: str, flags: int) -> Opened:
        """Open a library.

        Raises:
            OSError: It is no library of macOS, or lacks one that it needs.
        """
        file = Path(name)
        self.opened.append(file)
        self.flags.append(flags)
        return Opened(self._loaded(file))

    def _loaded(self, file: Path) -> Image:
        try:
            image = read_image(file)
        except (OSError, ValueError) as error:
            raise OSError(f"dlopen({file}): {error}") from error
        if not image.signed:
            raise OSError(f"dlopen({file}): no signature")
        if image.name not in self.loaded:
            for needed in image.needs:
                if needed in _OF_THE_SYSTEM or needed in self.loaded:
                    continue
                if not needed.startswith("@rpath/") or "@loader_path" not in image.paths:
                    raise OSError(f"dlopen({file}): Library not loaded: {needed}")
                self._loaded(file.parent / needed.removeprefix("@rpath/"))
            self.loaded.append(image.name)
        return image


class Opened:
    """An open library, whose functions return 0 and note that they were called.

    Args:
        image: The library.

    Attributes:
        called: Names of functions, and their arguments.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self.called: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self._image.exports:
            raise AttributeError(f"dlsym({self._image.name}, {name}): symbol not found")

        def function(*arguments: Any) -> int:
            self.called.append((name, *arguments))
            return 0

        return function
