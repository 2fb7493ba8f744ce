"""Magika says what kind of content it is given."""

from __future__ import annotations

from typing import Any

import results


def application() -> Any:
    """Label and score of each content."""
    from magika import Magika

    contents = (
        b"import os\n\n\ndef main():\n    print(os.getcwd())\n\n\nif __name__ == '__main__':\n    main()\n" * 4,
        b"<html><head><title>Title</title></head><body><p>Text</p></body></html>\n" * 8,
        b'{"name": "value", "numbers": [1, 2, 3], "nested": {"flag": true}}\n' * 8,
        b'#include <stdio.h>\nint main(void) { printf("hello\\n"); return 0; }\n' * 6,
        bytes(range(256)) * 8,
    )
    engine = Magika()
    return [(str(found.output.label), found.score) for found in map(engine.identify_bytes, contents)]


results.main(application)
