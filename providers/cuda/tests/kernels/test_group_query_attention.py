"""GroupQueryAttention on the host: our kernels and products against the array library."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.group_query_attention import KERNELS as LIBRARY
from ort_py_cuda import libraries
from ort_py_cuda.kernels import group_query_attention, grouped_attention
from ort_py_cuda.kernels.grouped_attention import attend_few, default_scale, stored_in_pages
from ort_py_cuda.kernels.grouped_forms import Lengths, Places, Scoring, grouped_kernel
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.architectures import ARCHITECTURES, TYPES, share_of
from providers.cuda.tests.emulation.host import HostDriver, HostModule, install, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

_SIZE = 16


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> tuple[HostModule, HostDriver]:
    """The stand-in for CuPy, and the launches."""
    return on_the_host(monkeypatch)[0], install(monkeypatch)


def _inputs(
    totals: list[int],
    rows: int,
    *,
    heads: int = 4,
    key_heads: int = 2,
    room: int | None = None,
    dtype: Any = np.float32,
    packed: bool = False,
    size: int = _SIZE,
) -> list[Any]:
    """Inputs for sequences of some lengths, the last `rows` of each being new; a cache of `room` rows."""
    rng = np.random.default_rng(len(totals) + rows + size)

    def some(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(dtype)

    batch, longest = len(totals), max(totals)
    held = longest - rows if room is None else room
    query = some(batch, rows, (heads + 2 * key_heads if packed else heads) * size)
    sides = [None, None] if packed else [some(batch, rows, key_heads * size) for _ in range(2)]
    past = [some(batch, key_heads, held, size) if held else None for _ in range(2)]
    return [
        query,
        *sides,
        *past,
        np.array(totals, np.int32) - 1,
        np.array([longest], np.int32),
        *[some(64, size // 2) for _ in range(2)],
    ]


def _agree(module: HostModule, inputs: list[Any], *, more: dict[int, Any] | None = None, **attributes: Any) -> None:
    inputs = [*inputs, *[None] * (16 - len(inputs))]
    for place, value in (more or {}).items():
        inputs[place] = value
    given = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    if not given.get("do_rotary"):
        inputs[7] = inputs[8] = None
    options: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "outputs": 3, **given}
    wide = [None if x is None else x.astype(np.float32) if x.dtype.kind not in "iu" else x for x in inputs]
    wanted = run_kernel(LIBRARY, "GroupQueryAttention", wide, **options)
    ours = [x if place in (5, 6) or x is None else on_host(x) for place, x in enumerate(inputs)]
    found = run_kernel(group_query_attention.KERNELS, "GroupQueryAttention", ours, xp=module, **options)
    lengths, rows = np.asarray(inputs[5]) + 1, inputs[0].shape[1]
    tolerance = {4: 2e-5, 2: 1e-2 if inputs[0].dtype == np.float16 else 6e-2}[inputs[0].dtype.itemsize]
    for name, result, expected in zip(("output", "present_key", "present_value"), found, wanted, strict=True):
        assert result.shape == expected.shape
        one, other = result.astype(np.float32), expected.copy()
        if name == "output" and rows > 1:  # what padded queries get is of no meaning
            for entry, length in enumerate(lengths):
                if rows == int(inputs[6][0]):
                    one[entry, length:] = other[entry, length:] = 0
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)


_FORMS: list[dict[str, Any]] = [
    {},
    {"do_rotary": 1},
    {"do_rotary": 1, "rotary_interleaved": 1},
    {"local_window_size": 5},
    {"softcap": 2.0, "scale": 0.5},
    {"smooth_softmax": 1},
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("totals", [[9], [9, 9], [3, 9]])
@pytest.mark.parametrize("attributes", _FORMS)
def test_decoding(
    host: tuple[HostModule, HostDriver], attributes: dict[str, Any], totals: list[int], packed: bool
) -> None:
    """One new position a sequence; equal and different lengths; packed heads."""
    _agree(host[0], _inputs(totals, 1, packed=packed), **attributes)
    assert host[1].names == ["grouped_cache", "grouped_cache", "grouped_queries", "grouped_decode"]


@pytest.mark.parametrize("totals", [[6], [4, 6]])
@pytest.mark.parametrize("attributes", _FORMS)
def test_a_first_prompt(host: tuple[HostModule, HostDriver], attributes: dict[str, Any], totals: list[int]) -> None:
    """No past; shorter sequences are padded on the right."""
    _agree(host[0], _inputs(totals, 6), **attributes)
    assert host[1].names[-1] == "grouped_probabilities"


@pytest.mark.parametrize("totals", [[9], [7, 9]])
@pytest.mark.parametrize("attributes", _FORMS)
def test_a_prompt_behind_a_past(
    host: tuple[HostModule, HostDriver], attributes: dict[str, Any], totals: list[int]
) -> None:
    """Several new positions behind what is there."""
    _agree(host[0], _inputs(totals, 3), **attributes)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_cache_with_room(host: tuple[HostModule, HostDriver], rows: int) -> None:
    """A buffer longer than what is filled: presents are as long, with zeros behind the last key."""
    _agree(host[0], _inputs([7, 5], rows, room=20), do_rotary=1)


@pytest.mark.parametrize("rows", [1, 4])
def test_biases_and_sinks(host: tuple[HostModule, HostDriver], rows: int) -> None:
    """Added to scores, and taking part in the sum."""
    rng = np.random.default_rng(1)
    for batch, heads in ((2, 4), (1, 1), (1, 4), (2, 1)):
        more = {
            10: rng.standard_normal((batch, heads, rows, 9)).astype(np.float32),
            11: rng.standard_normal(4).astype(np.float32),
        }
        _agree(host[0], _inputs([9, 9], rows), more=more)


@pytest.mark.parametrize("rows", [1, 4])
def test_positions_and_norms(host: tuple[HostModule, HostDriver], rows: int) -> None:
    """Positions that are fed, read on the device; heads normalised before they are turned."""
    rng = np.random.default_rng(2)
    more = {
        9: rng.integers(0, 60, (2, rows)),
        14: rng.standard_normal(_SIZE).astype(np.float32),
        15: rng.standard_normal(_SIZE).astype(np.float32),
    }
    _agree(host[0], _inputs([9, 9], rows), more=more, do_rotary=1, qk_norm_epsilon=1e-3)


def test_positions_of_a_first_prompt(host: tuple[HostModule, HostDriver]) -> None:
    _agree(host[0], _inputs([4], 4), more={9: np.array([[7, 0, 0, 0]])}, do_rotary=1)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (8, 1)])
def test_groups(host: tuple[HostModule, HostDriver], heads: tuple[int, int], causal: int) -> None:
    """Groups of three, of one, and of all heads; attention that is not causal."""
    for rows in (1, 4):
        inputs = _inputs([9], rows, heads=heads[0], key_heads=heads[1])
        _agree(host[0], inputs, num_heads=heads[0], kv_num_heads=heads[1], causal=causal)


@pytest.mark.parametrize("size", [8, 24, 40, 64, 128, 256])
def test_sizes_of_heads(host: tuple[HostModule, HostDriver], size: int) -> None:
    """Those that go into packs of 16 bytes and those that do not."""
    for rows in (1, 3):
        _agree(host[0], _inputs([9], rows, size=size), do_rotary=1)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats(host: tuple[HostModule, HostDriver], dtype: Any, rows: int) -> None:
    """Computed in float32; caches are of the narrow type."""
    _agree(host[0], _inputs([9, 7], rows, dtype=dtype), do_rotary=1)


def test_a_long_cache_is_read_in_parts(host: tuple[HostModule, HostDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of sequences of different lengths, some of them empty, put together again."""
    monkeypatch.setattr(grouped_attention, "_PART", 20)
    forms: list[dict[str, Any]] = [{}, {"smooth_softmax": 1}, {"local_window_size": 30}]
    for attributes in forms:
        _agree(host[0], _inputs([61, 3], 1), **attributes)
    assert host[1].names.count("grouped_combine") == 3


def test_many_queries_go_in_tiles(host: tuple[HostModule, HostDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of a few rows at a time."""
    monkeypatch.setattr(grouped_attention, "_SCORES", 4 * 7 * 3)
    _agree(host[0], _inputs([7], 7), do_rotary=1)
    assert host[1].names.count("grouped_probabilities") == 3


def test_keys_of_another_node(host: tuple[HostModule, HostDriver]) -> None:
    """No new keys: the cache has them all."""
    inputs = _inputs([8], 1, room=8)
    inputs[1] = inputs[1][:, :0]
    inputs[2] = inputs[2][:, :0]
    _agree(host[0], inputs)


def test_pages(host: tuple[HostModule, HostDriver]) -> None:
    """A cache in pages that lie anywhere gives what one in a row gives; new rows find their page."""
    xp, rng = host[0], np.random.default_rng(3)
    batch, heads, key_heads, rows = 2, 4, 2, 4
    lengths = Lengths.of(xp, (5, 9), (6, 10))
    table = on_host(np.array([[3, 1, 0], [5, 2, 4]], np.int32))
    whole = [rng.standard_normal((batch, key_heads, 12, _SIZE)).astype(np.float32) for _ in range(2)]
    stores = []
    for one in whole:
        store = on_host(np.zeros((6, key_heads, rows, _SIZE), np.float32))
        for entry in range(batch):
            for page in range(3):
                store[table[entry, page]] = one[entry, :, page * rows : (page + 1) * rows]
            store[table[entry, lengths.starts[entry] // rows], :, lengths.starts[entry] % rows] = 7
        stores.append(store)
        new = on_host(np.stack([one[entry, :, lengths.starts[entry]] for entry in range(batch)])[:, None])
        slots = [table[entry, start // rows] * rows + start % rows for entry, start in enumerate(lengths.starts)]
        stored_in_pages(xp, store, on_host(np.array(slots, np.int32)), new, lengths)
    q = on_host(rng.standard_normal((batch, heads, 1, _SIZE)).astype(np.float32))
    how = Scoring(heads, 2, default_scale(_SIZE))
    paged = attend_few(xp, q, stores[0], stores[1], lengths, how, Places(table))
    plain = attend_few(xp, q, on_host(whole[0]), on_host(whole[1]), lengths, how)
    np.testing.assert_allclose(paged, plain, rtol=1e-6)


def test_what_the_library_runs(host: tuple[HostModule, HostDriver]) -> None:
    _agree(host[0], _inputs([9], 1, size=12))
    assert not host[1].names


def test_positions_outside_the_caches(host: tuple[HostModule, HostDriver]) -> None:
    """Known on the host, so refused."""
    inputs = [*_inputs([70], 1), *[None] * 7]
    given = [x if place in (5, 6) or x is None else on_host(x) for place, x in enumerate(inputs)]
    with pytest.raises(InvalidArgument, match="outside the caches"):
        run_kernel(
            group_query_attention.KERNELS,
            "GroupQueryAttention",
            given,
            xp=host[0],
            domain="com.microsoft",
            opset=1,
            outputs=3,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        )


@pytest.mark.skipif(libraries.find("nvrtc") is None, reason="needs NVRTC: pip install ort-py-cuda[cuda13]")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_compile(dtype: str, arch: str) -> None:
    """By NVIDIA's compiler: each kernel, and sizes of heads that models have, for each architecture and each type."""
    names = (
        "grouped_queries", "grouped_cache", "grouped_pages", "grouped_decode", "grouped_combine",
        "grouped_probabilities"
    )  # fmt: skip
    forms = [(name, 128, 1) for name in names]
    forms += [("grouped_decode", size, queries) for size, queries in ((64, 8), (80, 4), (256, 2))]
    for name, size, queries in share_of(forms, dtype, arch):
        assert grouped_kernel(name, dtype, size, queries).image(arch)[:4] == b"\x7fELF"
