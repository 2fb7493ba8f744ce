"""`python -m examples.ocr [PICTURE] [--output FILE]`: read a picture, say who did the work, draw the result."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from examples.model_zoo import ModelUnavailableError
from examples.ocr.drawing import draw_reading
from examples.ocr.picture import render_sample
from examples.ocr.pipeline import Reader, Reading, fetch_models
from examples.ocr.runtime import open_with_ort_py


def main(arguments: list[str]) -> int:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description="Read the text in a picture with ort-py.")
    parser.add_argument("picture", nargs="?", type=Path, help="a picture; a sample page is drawn where none is given")
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="folder for the pictures written")
    chosen = parser.parse_args(arguments)
    picture = Image.open(chosen.picture).convert("RGB") if chosen.picture else render_sample()
    print(f"Reading {chosen.picture or 'a page drawn just now'} ({picture.width} × {picture.height})", flush=True)
    started = time.perf_counter()
    try:
        models = fetch_models()
    except ModelUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    reader = Reader(models, open_with_ort_py, _show_progress)
    reading = reader.read(picture)
    chosen.output.mkdir(parents=True, exist_ok=True)
    picture.save(chosen.output / "input.png")
    draw_reading(picture, reading).save(chosen.output / "result.png")
    _print_lines(reading)
    for role, session in reader.sessions.items():
        _print_runners(role, session)
    print(f"\n{len(reading.lines)} lines in {time.perf_counter() - started:.1f} s; see {chosen.output / 'result.png'}")
    return 0 if reading.lines else 1


def _show_progress(stage: str, seconds: float) -> None:
    print(f"  {stage:<18} {seconds * 1000:8.0f} ms", flush=True)


def _print_lines(reading: Reading) -> None:
    print("\nscore  text")
    for line in reading.lines:
        print(f" {line.score:.2f}  {line.text}")
    print()


def _print_runners(role: str, session: Any) -> None:
    counts = Counter(str(entry.provider) for entry in session.placement)
    shares = ", ".join(f"{provider} {count}" for provider, count in counts.most_common())
    print(f"{role:<10} asked {', '.join(session.get_providers())}; nodes run by: {shares}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
