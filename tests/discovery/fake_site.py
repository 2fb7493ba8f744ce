"""Real distributions on a real path: packages with metadata as an installer would leave them, and a fresh interpreter.

What they test cannot be seen from inside one process: what is imported, what a broken package takes down with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["GOOD_PLUGIN", "FakeSite", "plugin_source"]

GOOD = "GoodExecutionProvider"


class FakeSite:
    """A folder at the front of ``sys.path``.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self, distribution: str, files: dict[str, str], entry_points: dict[str, str], group: str = "ort_py.providers"
    ) -> None:
        """Install a distribution.

        Args:
            distribution: Its name; its metadata is complete, RECORD included.
            files: Text by path below the folder.
            entry_points: Entry points of the group: value by name.
            group: The group.
        """
        info = f"{distribution.replace('-', '_')}-1.5.dist-info"
        entries = "".join(f"{name} = {value}\n" for name, value in entry_points.items())
        contents = {name: textwrap.dedent(text) for name, text in files.items()} | {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[{group}]\n{entries}",
        }
        record = []
        for name, text in contents.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text.encode())}\n")
        (self.folder / info / "RECORD").write_text("".join([*record, f"{info}/RECORD,,\n"]), encoding="utf-8")

    def install_good(self) -> None:
        """Install a provider that works: it has Relu, and imports its vendor's library only when it is created."""
        files = {"good/__init__.py": "", "good/plugin.py": GOOD_PLUGIN, "good/vendor.py": "LOADED = True\n"}
        self.install("pkg-good", files, {GOOD: "good.plugin"})

    def run(self, code: str, **variables: str) -> Any:
        """Run code in a fresh interpreter; it leaves its answer in ``result``, which comes back through JSON.

        Warnings are left on; anything written to stdout by the code fails the call.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ORT_PY_")}
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment |= variables | {"PYTHONPATH": os.pathsep.join(paths)}
        program = f"{textwrap.dedent(code)}\nimport json, sys\nsys.stdout.write(json.dumps(result))\n"
        outcome = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return json.loads(outcome.stdout)


def plugin_source(name: str, *, probe: str = "return Availability(True)", extra: str = "", head: str = "") -> str:
    """A plug-in whose parts are given as code: the body of `probe`, more members, and lines before everything."""
    return f"""{head}
from ort_py.contracts import ApiRange, Availability, IExecutionProvider, KernelDef, ProviderFactory
from ort_py.hooks import hookimpl


class Provider(IExecutionProvider):
    @property
    def name(self):
        return "{name}"

    def kernel_registry(self):
        import numpy as np

        return [KernelDef("Relu", lambda ctx: lambda x: np.maximum(x, 0), since=6, until=14)]


class Factory(ProviderFactory):
    @property
    def name(self):
        return "{name}"

    def probe(self):
        {probe}

    def create(self, options, context):
        return Provider()

{textwrap.indent(textwrap.dedent(extra), "    ")}


@hookimpl
def ort_py_providers():
    return [Factory()]
"""


GOOD_PLUGIN = plugin_source(
    GOOD,
    extra="""
    def create(self, options, context):
        import good.vendor

        return Provider()
    """,
)
