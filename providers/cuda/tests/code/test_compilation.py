"""Every kernel source, and regions of every kind, compile through NVRTC for the architectures that are promised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ort_py.contracts.graph_view import ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import EPFail
from ort_py_cuda import libraries
from ort_py_cuda.code import NvrtcError, kernel, nvrtc
from ort_py_cuda.code.cache import CodeCache
from ort_py_cuda.code.elements import C_TYPES
from ort_py_cuda.code.sources import program
from ort_py_cuda.kernels.row_norms import normalize_rows_code
from ort_py_cuda.regions.generate import OPTIONS, ByRows, Flat, by_rows, flat
from ort_py_cuda.regions.operators import RULES
from ort_py_cuda.regions.program import Apply, Builder, Input, Program, Reduce
from providers.cuda.tests.architectures import ARCHITECTURES

FLOATS = ("float", "half_t", "bfloat16_t", "double")


@pytest.fixture(autouse=True)
def needs_nvrtc() -> None:
    """The library is a wheel that no test machine needs to have."""
    try:
        libraries.load("nvrtc")
    except EPFail as error:
        pytest.skip(f"NVRTC is not installed: {error.what}")


def _body(parameters: str, calls: str) -> str:
    return f'extern "C" __global__ void test({parameters}) {{ {calls} }}\n'


def _softmax(kind: str) -> str:
    pack = {"double": 2, "float": 4}.get(kind, 8)
    flags = ("true", "false")
    calls = "".join(
        f"softmax_registers<{kind}, {pack}, 4, {log}>(x, y, n, n); softmax_long<{kind}, {pack}, {log}>(x, y, n, n);"
        f"softmax_columns<{kind}, {log}>(x, y, n, n, n);"
        for log in flags
    )
    return program("reduce", "softmax", body=_body(f"const {kind} *x, {kind} *y, int64 n", calls))


def _norm(kind: str) -> str:
    pack = {"double": 2, "float": 4}.get(kind, 8)
    parameters, before = normalize_rows_code(kind)
    calls = "".join(
        f"norm_registers<{kind}, float, {pack}, 4, {centred}, {rounds}>(n);"
        f"norm_long<{kind}, float, {pack}, {centred}, {rounds}>(n);"
        for centred in ("true", "false")
        for rounds in ("true", "false")
    )
    return program("reduce", "norm", body=_body(parameters, before + calls))


def _rotary(kind: str) -> str:
    calls = "".join(
        f"rotate<{kind}, int64, {way}, {neighbours}>(x, x, x, p, y, t, fault);"
        for way in ("NO_POSITIONS", "EACH", "FIRST")
        for neighbours in ("true", "false")
    )
    return program("rotary", body=_body(f"const {kind} *x, const int64 *p, {kind} *y, Turned t, Fault *fault", calls))


UNITS = ("uint8", "uint16", "uint32", "uint64", "Unit16")


def _gather(unit: str) -> str:
    calls = "".join(
        f"gather<{unit}, {kind}, {number}>(x, (const {kind} *)i, y, 9, 9, 9, 9, fault, 1);"
        f"gather_elements<{unit}, {kind}, {number}, 3>(x, (const {kind} *)i, y, 9, 9, 9, axes, fault, 1);"
        f"gather_nd<{unit}, {kind}, {number}, 2>(x, (const {kind} *)i, y, 9, 9, 9, 9, axes, fault, 1);"
        for kind in ("int32", "int64")
        for number in ("int32", "int64")
    )
    return program("gather", body=_body(f"const {unit} *x, const void *i, {unit} *y, Axes axes, Fault *fault", calls))


def _scatter(kind: str, operations: tuple[str, ...]) -> str:
    calls = "".join(
        f"scatter_elements<{kind}, {kind}, int64, int32, 3, {operation}>(i, u, y, 9, 9, 9, axes, fault, 1);"
        f"scatter_nd<{kind}, {kind}, int64, int64, 2, {operation}>(i, u, y, 9, 9, axes, fault, 1);"
        for operation in operations
    )
    parameters = f"const int64 *i, const {kind} *u, {kind} *y, Axes axes, Fault *fault"
    return program("reduce", "gather", "scatter", body=_body(parameters, calls))


_REDUCED = ("Add", "Multiply", "Smallest", "Largest")
SOURCES: dict[str, Callable[[], str]] = {
    **{f"softmax of {kind}": partial(_softmax, kind) for kind in FLOATS},
    **{f"norm of {kind}": partial(_norm, kind) for kind in FLOATS},
    **{f"rotary of {kind}": partial(_rotary, kind) for kind in FLOATS},
    **{f"gather of {unit}": partial(_gather, unit) for unit in UNITS},
    **{f"scatter of {unit}": partial(_scatter, unit, ("Replace",)) for unit in UNITS},
    **{f"reducing scatter of {kind}": partial(_scatter, kind, _REDUCED) for kind in C_TYPES.values() if kind != "bool"},
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", SOURCES)
def test_every_source_compiles(name: str, arch: str) -> None:
    """For each type and form that a kernel may ask for."""
    image = nvrtc.compile(SOURCES[name](), name="test", arch=arch)
    assert image[:4] == b"\x7fELF"


class _Node:
    """The attributes of a node that rules need."""

    def __init__(self, op_type: str, arity: int) -> None:
        self.op_type = op_type
        self.attributes: dict[str, Any] = {}
        self.since_version = 13
        self.inputs = tuple(None for _ in range(arity))
        self.outputs = (ValueSpec("y", TensorType(DataType.FLOAT)),)


_TERNARY = {"Where": 3, "Clip": 3}
_UNARY = frozenset(
    word
    for line in (
        "Neg Abs Sign Reciprocal Not BitwiseNot IsNaN IsInf Cast CastLike Identity Relu LeakyRelu ThresholdedRelu",
        "Swish HardSigmoid HardSwish Elu Selu Celu Softsign Shrink Gelu QuickGelu Sqrt Exp Log Floor Ceil Round Tanh",
        "Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Sigmoid Softplus Mish",
    )
    for word in line.split()
)


def _whole_program(dtype: str, *, reduces: bool) -> Program:
    """All operators of a type side by side, of the same inputs."""
    builder = Builder()
    inputs = [builder.put(Input(place, dtype)) for place in range(3)]
    condition = builder.apply("({0} != {0})", inputs[0], dtype="bool")
    outputs = []
    for (_, op_type), rule in RULES.items():
        if dtype not in rule.types or rule.reduces != reduces:
            continue
        arity = 1 if rule.reduces or op_type in _UNARY else _TERNARY.get(op_type, 2)
        given: list[int | None] = list(inputs[:arity])
        if op_type == "Where":
            given[0] = condition
        node: Any = _Node(op_type, arity)
        outputs.append(rule.emit(builder, node, given, lambda _index: None))
    return builder.finish(outputs, [False] * len(outputs), int(reduces))


FORMS = (Flat(1, 4, "lll", "int32"), Flat(3, 1, "gvb", "int64"), Flat(2, 4, "vbs", "int32"))
ROW_FORMS = (("lll", 4, 4), ("lbg", 1, 2), ("lll", 4, 0))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", C_TYPES)
def test_every_operator_compiles_for_every_type(dtype: str, arch: str) -> None:
    """In one region that has all of them; the forms differ in loads alone."""
    form = FORMS[sorted(C_TYPES).index(dtype) % len(FORMS)]
    pack = min(form.pack, 2)  # 16 bytes of the widest types
    source, _ = flat(_whole_program(dtype, reduces=False), Flat(form.axes, pack, form.ways, form.index))
    assert nvrtc.compile(source, name="region", arch=arch, options=OPTIONS)[:4] == b"\x7fELF"


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("form", ROW_FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_every_reduction_compiles(dtype: str, form: tuple[str, int, int], arch: str) -> None:
    """In one region: results that are rows, and one that is behind the first of them."""
    whole = _whole_program(dtype, reduces=True)
    last = len(whole.terms)
    terms = (
        *whole.terms,
        Apply("add({0}, add({1}, {2}))", (0, 1, 2), dtype),
        Apply("add({0}, {1})", (last, whole.outputs[0]), dtype),
    )
    ways, pack, packs = form
    rows = [one for one in whole.outputs if isinstance(terms[one], Reduce)]
    program_ = Program(terms, (*rows, last + 1), (False,) * (len(rows) + 1), 1)
    shape = ByRows(2, 2, pack, packs, ways, (*(False for _ in rows), True), "int32")
    source, _ = by_rows(program_, shape)
    assert nvrtc.compile(source, name="region", arch=arch, options=OPTIONS)[:4] == b"\x7fELF"


def test_ptx_for_what_the_compiler_does_not_know() -> None:
    assert b".target sm_90" in nvrtc.compile(SOURCES["gather of uint8"](), name="test", arch="compute_90")


def test_headers_of_the_runtimes_wheel_are_found() -> None:
    """For kernels that are written with them."""
    if not libraries.include_folders():
        pytest.skip("no wheel and no toolkit with CUDA's headers is installed")
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void f(__half *x) { *x = __hadd(*x, *x); }\n'
    assert nvrtc.compile(source, name="f", arch="sm_90")


def test_errors_have_the_compilers_log() -> None:
    """With the line of the program."""
    with pytest.raises(NvrtcError, match="NVRTC did not compile 'broken' for sm_90") as caught:
        nvrtc.compile('extern "C" __global__ void f() { nonsense; }', name="broken", arch="sm_90")
    assert 'identifier "nonsense" is undefined' in caught.value.log
    assert "nonsense" in str(caught.value)


def test_an_architecture_that_there_is_not() -> None:
    with pytest.raises(NvrtcError, match="for sm_7"):
        nvrtc.compile('extern "C" __global__ void f() {}', name="f", arch="sm_7")


def test_the_library_says_what_it_knows() -> None:
    """Version, and architectures in ascending order."""
    assert nvrtc.version() >= (12, 0)
    known = nvrtc.architectures()
    assert list(known) == sorted(known)
    assert {75, 80, 90} <= set(known)


def test_equal_sources_are_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """In a process by memory, in the next one by the folder."""
    count: list[str] = []
    original = nvrtc.compile

    def counted(source: str, **options: Any) -> bytes:
        count.append(source)
        return original(source, **options)

    monkeypatch.setattr(nvrtc, "compile", counted)
    monkeypatch.setattr(kernel, "_images", {})
    cache = CodeCache(tmp_path / "code")
    source = SOURCES["gather of uint8"]()
    first = kernel.code_of(source, name="test", arch="sm_90", cache=cache)
    assert kernel.code_of(source, name="test", arch="sm_90", cache=cache) is first
    monkeypatch.setattr(kernel, "_images", {})
    assert kernel.code_of(source, name="test", arch="sm_90", cache=cache) == first
    assert len(count) == 1
    kernel.code_of(source, name="test", arch="sm_80", cache=cache)
    assert len(count) == 2
