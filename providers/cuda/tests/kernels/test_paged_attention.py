"""PagedAttention on the host: our kernels and products over caches in pages against the array library."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.contracts.kernel import KernelForms
from ort_py_array.contrib.paged_attention import KERNELS as LIBRARY
from ort_py_cuda.kernels import grouped_attention, paged_attention
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec, run_kernel
from providers.cuda.tests.emulation.host import HostDriver, HostModule, install, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

_ROWS = 16
_HOSTS = (5, 6, 7, 10, 16)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> tuple[HostModule, HostDriver]:
    """The stand-in for CuPy, and the launches."""
    return on_the_host(monkeypatch)[0], install(monkeypatch)


def _inputs(
    sequences: list[tuple[int, int]],
    *,
    heads: int = 4,
    key_heads: int = 2,
    size: int = 16,
    packed: bool = False,
    dtype: Any = np.float16,
) -> list[Any]:
    """All 17 inputs for sequences of so many rows before and new tokens; pages in any order, rubbish in unused rows."""
    rng = np.random.default_rng(len(sequences) + size)

    def some(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape).astype(dtype)

    tokens = sum(new for _, new in sequences)
    parts: list[Any] = [some(tokens, count * size) for count in (heads, key_heads, key_heads)]
    if packed:
        parts = [np.concatenate(parts, axis=1), None, None]
    needed = [-(-(past + new) // _ROWS) for past, new in sequences]
    free = rng.permutation(sum(needed) + 1).tolist()
    table = np.full((len(sequences), max(needed) + 1), -1, np.int32)
    caches = [np.full((len(free), _ROWS, key_heads, size), np.nan).astype(dtype) for _ in range(2)]
    for entry, count in enumerate(needed):
        for column in range(count):
            page = table[entry, column] = free.pop()
            filled = min(max(sequences[entry][0] - column * _ROWS, 0), _ROWS)
            for cache in caches:
                cache[page, :filled] = some(filled, key_heads, size)
    ends = np.cumsum([0, *(new for _, new in sequences)]).astype(np.int32)
    starts = np.array([past for past, _ in sequences], np.int32)
    angles = [some(99, size // 4), some(99, size // 4)]
    return [*parts, *caches, ends, starts, table, *angles, *[None] * 7]


def _agree(module: HostModule, inputs: list[Any], *, more: dict[int, Any] | None = None, **attributes: Any) -> None:
    for place, value in (more or {}).items():
        inputs[place] = value
    given = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    if not given.get("do_rotary"):
        inputs[8] = inputs[9] = None
    options: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "outputs": 3, **given}
    wide = [None if x is None else x.astype(np.float32) if x.dtype.kind not in "iu" else x for x in inputs]
    wanted = run_kernel(LIBRARY, "PagedAttention", wide, **options)
    found = run_kernel(paged_attention.KERNELS, "PagedAttention", _on_device(inputs), xp=module, **options)
    tolerance = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 1e-2}.get(inputs[0].dtype, 6e-2)
    for name, result, expected in zip(("output", "key_cache_out", "value_cache_out"), found, wanted, strict=True):
        assert result.shape == expected.shape
        assert result.dtype == inputs[0].dtype
        np.testing.assert_allclose(result.astype(np.float32), expected, tolerance, tolerance, err_msg=name)


def _on_device(inputs: list[Any]) -> list[Any]:
    return [x if place in _HOSTS or x is None else on_host(x) for place, x in enumerate(inputs)]


_BATCHES = {
    "decoding": [(40, 1), (3, 1), (16, 1)],
    "prompts": [(0, 6), (0, 9), (0, 6)],
    "both": [(5, 1), (20, 7), (0, 3), (9, 0), (31, 2)],
}
_FORMS: list[dict[str, Any]] = [
    {},
    {"do_rotary": 1},
    {"do_rotary": 1, "rotary_interleaved": 1, "rotary_offset": 8},
    {"local_window_size": 5},
    {"softcap": 2.0, "scale": 0.5},
    {"is_causal": 0, "local_window_size": 4},
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("attributes", _FORMS)
@pytest.mark.parametrize("batch", list(_BATCHES))
def test_batches(host: tuple[HostModule, HostDriver], batch: str, attributes: dict[str, Any], packed: bool) -> None:
    """Few tokens of a sequence are read from its pages, many by products; what unused rows hold is never seen."""
    _agree(host[0], _inputs(_BATCHES[batch], packed=packed), **attributes)
    expected = {"grouped_pages", "grouped_queries"}
    expected |= {"grouped_decode"} if batch != "prompts" else set()
    expected |= {"grouped_probabilities"} if batch != "decoding" else set()
    assert set(host[1].names) == expected


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_norms_and_sinks(host: tuple[HostModule, HostDriver], dtype: Any) -> None:
    """Heads normalised before they are turned and stored; a logit in the sum that has no value."""
    rng = np.random.default_rng(2)
    more = {place: rng.uniform(0.5, 1.5, count).astype(dtype) for place, count in ((11, 4), (12, 16), (13, 16))}
    _agree(host[0], _inputs(_BATCHES["both"], dtype=dtype), more=more, do_rotary=1)


def test_slots(host: tuple[HostModule, HostDriver]) -> None:
    """Rows go where slots say; those of -1 are in the cache already."""
    inputs = _inputs([(5, 1), (7, 6)])
    table = inputs[7]
    slots = [table[0, 0] * _ROWS + 5, *(table[1, 0] * _ROWS + 7 + at for at in range(6))]
    for cache in inputs[3:5]:
        cache[table[1, 0], 9] = 0.5
    slots[3] = -1
    _agree(host[0], inputs, more={10: np.array(slots, np.int32)})


def test_a_long_cache_is_read_in_parts(host: tuple[HostModule, HostDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of sequences of different lengths, put together at the tokens' places."""
    monkeypatch.setattr(grouped_attention, "_PART", 20)
    _agree(host[0], _inputs([(90, 1), (3, 6), (50, 2)]))
    assert host[1].names.count("grouped_combine") == 1


@pytest.mark.parametrize("size", [8, 24, 64, 128, 256])
def test_sizes_of_heads(host: tuple[HostModule, HostDriver], size: int) -> None:
    """Groups of one and of all heads among them."""
    for heads, key_heads in ((4, 4), (4, 1)):
        inputs = _inputs([(20, 1), (3, 5)], heads=heads, key_heads=key_heads, size=size)
        _agree(host[0], inputs, num_heads=heads, kv_num_heads=key_heads)


@pytest.mark.parametrize("shared", [(), (3,), (3, 4)])
def test_caches_are_written_where_they_lie(host: tuple[HostModule, HostDriver], shared: tuple[int, ...]) -> None:
    """If the memory is given, nothing is copied, so other pages stay untouched; otherwise all are copied."""
    inputs = _inputs(_BATCHES["both"])[:8]
    options: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    wanted = run_kernel(
        LIBRARY, "PagedAttention", [x.copy() for x in inputs], domain="com.microsoft", opset=1, outputs=3, **options
    )
    node = make_node_spec("PagedAttention", inputs, domain="com.microsoft", opset=1, outputs=3, attributes=options)
    forms = paged_attention.paged_attention(LocalKernelContext(node, host[0]))
    assert isinstance(forms, KernelForms)
    assert forms.into is not None
    given = _on_device(inputs)
    outs = [host[0].empty(wanted[0].shape, np.float16)]
    outs += [given[at] if at in shared else host[0].empty(given[at].shape, np.float16) for at in (3, 4)]
    results = forms.into(*given, *outs)
    for result, out, expected in zip(results, outs, wanted, strict=True):
        assert result.data.ptr == out.data.ptr
        np.testing.assert_allclose(result.astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=1e-2)


def test_what_the_library_runs(host: tuple[HostModule, HostDriver]) -> None:
    """Heads of odd sizes, and one cache for keys and values."""
    _agree(host[0], _inputs([(5, 1)], size=12))
    assert not host[1].names
