"""The C code of the package and what Python sees of it; `setup.py` compiles it into `ort_py_native_region._native`."""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent

ffi = FFI()
ffi.cdef(
    """
    typedef struct { int32_t operation, first, second, result; } native_step;
    typedef struct {
        const native_step *steps;
        int64_t step_count;
        float **values;
        int64_t elements;
        float *scratch;
        const int32_t *scratch_places;
    } native_program;
    extern const int64_t native_block;
    int native_run(void *context);
    """
)
ffi.set_source("ort_py_native_region._native", (HERE / "native.c").read_text(encoding="utf-8"))
