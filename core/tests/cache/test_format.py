"""The form of a cached file: what is read is what was written, and any damage is noticed."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

from ort_py.cache.format import ALIGNMENT, HEAD_BYTES, Checksum, checksum_of, damage, description_of, write_file

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


LARGE = np.random.default_rng(5).integers(0, 2**63, 30_001, np.uint64)
"""Words in several rows of the table that is summed, and a rest."""


def test_the_checksum_does_not_depend_on_the_parts() -> None:
    """Whoever writes has blocks, and whoever reads has the whole file."""
    content = LARGE.tobytes()
    generator = random.Random(2)
    for _ in range(20):
        parts, position = Checksum(), 0
        while position < len(content):
            size = generator.choice([1, 7, 64, 5000, 32 << 10, 70_000])
            parts.update(content[position : position + size])
            position += size
        assert parts.value() == checksum_of(content)
    assert checksum_of(b"") == Checksum().value()


def test_every_changed_bit_changes_the_checksum() -> None:
    """In full rows and in the rest."""
    content = bytearray(LARGE.tobytes())
    expected, generator = checksum_of(content), random.Random(3)
    places = [*(generator.randrange(len(content)) for _ in range(300)), *range(len(content) - 20, len(content))]
    for place in places:
        content[place] ^= 1 << place % 8
        assert checksum_of(content) != expected, place
        content[place] ^= 1 << place % 8
    assert checksum_of(content) == expected
    assert checksum_of(content[:-1]) != expected


@pytest.mark.parametrize(("first", "second"), [(10, 11), (10, 10 + 4096), (10, 4096 + 77)])
def test_changes_that_cancel_out_in_one_sum_are_noticed(first: int, second: int) -> None:
    """In a row, in a column, and in neither."""
    changed = LARGE.copy()
    changed[first] += np.uint64(12345)
    changed[second] -= np.uint64(12345)
    assert checksum_of(changed) != checksum_of(LARGE)
    changed = LARGE.copy()
    changed[[first, second]] = changed[[second, first]]
    assert checksum_of(changed) != checksum_of(LARGE)


def test_rows_that_change_places_are_noticed() -> None:
    """Pages of another part of the file."""
    changed = LARGE.copy()
    changed[:4096], changed[4096:8192] = LARGE[4096:8192], LARGE[:4096]
    assert checksum_of(changed) != checksum_of(LARGE)
