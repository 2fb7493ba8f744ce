"""The form of a cached file: what is read is what was written, and any damage is noticed."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

from ort_py.cache.format import ALIGNMENT, HEAD_BYTES, damage, description_of, write_file

BLOCKS = [b"abc", np.arange(5, dtype=np.float32), b"", np.ones((2, 3), np.int8)]


def written(description: bytes = b'{"a": 1}', blocks: list[object] | None = None) -> bytes:
    """A file's content."""
    file = io.BytesIO()
    write_file(file, description, BLOCKS if blocks is None else blocks)
    return file.getvalue()


def test_description_and_blocks_are_read_as_they_were_written() -> None:
    """Blocks follow each other on boundaries of 64 bytes from where the first one starts."""
    content = written()
    description, start = description_of(content)
    assert (description, damage(content)) == (b'{"a": 1}', "")
    assert start % ALIGNMENT == 0
    assert content[start : start + 3] == b"abc"
    assert np.frombuffer(content, np.float32, 5, start + ALIGNMENT).tolist() == [0, 1, 2, 3, 4]
    assert content[start + 2 * ALIGNMENT :] == b"\x01" * 6


def test_a_file_without_blocks_is_whole() -> None:
    assert damage(written(b"", [])) == ""
    assert len(written(b"", [])) == HEAD_BYTES


def test_any_flipped_bit_is_noticed() -> None:
    """At each position of a small file: head, description, padding and blocks."""
    content = written()
    for position in range(len(content)):
        for bit in (0, 7):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            assert damage(bytes(changed)), f"bit {bit} of byte {position}"


def test_any_cut_is_noticed() -> None:
    """However much is missing, or follows."""
    content = written()
    for length in range(len(content)):
        assert damage(content[:length])
    assert damage(content + b"\0")


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_noticed(seed: int) -> None:
    """A stretch of random bytes anywhere, and a file of nothing else, never raises."""
    generator = random.Random(seed)
    content = bytearray(written())
    start = generator.randrange(len(content))
    noise = generator.randbytes(generator.randrange(1, 40))
    content[start : start + len(noise)] = noise
    assert damage(bytes(content)) or bytes(content) == written()
    assert damage(generator.randbytes(generator.randrange(400)))
