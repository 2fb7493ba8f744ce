"""Entry points that find onnxruntime's own tools, where `import onnxruntime` gives ort-py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import importlib.util
from pathlib import Path

def find(name):
    file = Path(__file__).parent / f"{name.rpartition('.')[2]}_tool.py"
    return importlib.util.spec_from_file_location(name, file) if file.exists() else None
"""


def test_a_tool_is_found_by_an_entry_point(tmp_path: Path) -> None:
    """Its finds take precedence; everything else is ort-py's."""
    (tmp_path / "finder_of_tools.py").write_text(PROGRAM)
    (tmp_path / "symbolic_shape_infer_tool.py").write_text("import onnxruntime\nfound = onnxruntime.InferenceSession\n")
    info = tmp_path / "finder_of_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: finder-of-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ort_py.tools]\nany = finder_of_tools:find\n")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r}); import ort_py; ort_py.install_as_onnxruntime();"
        "import onnxruntime.tools.symbolic_shape_infer as theirs, onnxruntime.tools.update_onnx_opset as ours;"
        "assert theirs.found is ort_py.InferenceSession; assert ours.__name__ == 'ort_py.tools.update_onnx_opset'"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
