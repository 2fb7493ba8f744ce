"""Processes that are forked from one that runs Core AI: other providers run their nodes, and nothing waits forever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("coreai", reason="Core AI is not installed: pip install coreai-core")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

_PROGRAM = """
import faulthandler, os, sys, tempfile
import numpy as np
from providers.coreml.tests.models import open_session
from providers.coreml.tests.networks import cnn

tempfile.tempdir = sys.argv[1]
data, feeds = cnn()
session = open_session(data, backend="coreai")
wanted = session.run(None, feeds)
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    {child}
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert os.listdir(tempfile.tempdir)
np.testing.assert_array_equal(session.run(None, feeds)[0], wanted[0])
session.close()
assert not os.listdir(tempfile.tempdir)
"""
_AGREES = "np.testing.assert_allclose(found[0], wanted[0], 1e-4, 1e-5)"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("child", "said"),
    [
        (f"found = session.run(None, feeds); {_AGREES}", "whose threads it does not have"),
        ("session.close()", ""),
        (
            f"found = open_session(data, backend='coreai').run(None, feeds); {_AGREES}",
            "This process was forked from one that had started Core AI",
        ),
        ("pass", ""),
    ],
    ids=["runs its parent's session", "closes it", "makes a session", "ends"],
)
def test_a_child(child: str, said: str, tmp_path: Path) -> None:
    """Its parent goes on, with the files of its regions."""
    command = [sys.executable, "-c", _PROGRAM.replace("{child}", child), str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
