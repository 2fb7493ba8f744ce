"""The part of XNNPACK's C API that is used here, as declarations for cffi, and the writer of `_xnnpack.py`.

``python -m ort_py_xnnpack.binding.declarations`` writes the module that is imported in place of parsing these lines at
each start; a test compares the two, and another one looks up every function in the library, because XNNPACK promises
no stable interface. Handles are void pointers and enumerations are int: their values are in `constants`. A compiler is
needed neither here nor by those who install the package.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["DECLARATIONS", "GENERATED", "POOL_DECLARATIONS", "SHARED_POOL_DECLARATIONS", "functions", "generate"]

GENERATED = Path(__file__).with_name("_xnnpack.py")

DECLARATIONS = """
typedef void *graph_t;
typedef void *runtime_t;
typedef void *workspace_t;

typedef struct { uint32_t seed; const void *kernel; const void *bias; uint32_t fingerprint; } cache_key_t;
typedef struct {
    void *context;
    size_t (*look_up)(void *context, const cache_key_t *key);
    void *(*reserve_space)(void *context, size_t bytes);
    size_t (*look_up_or_insert)(void *context, const cache_key_t *key, void *memory, size_t bytes);
    bool (*is_finalized)(void *context);
    void *(*offset_to_addr)(void *context, size_t offset);
    int (*delete_cache)(void *context);
    int (*alias_data)(void *context, void *alias, void *original);
} cache_t;
typedef struct { uint32_t id; void *data; } external_t;
typedef struct { float first, second; } unary_parameters_t;
typedef struct { double smallest, largest; } binary_parameters_t;

int xnn_initialize(const void *allocator);
int xnn_create_subgraph(uint32_t external_values, uint32_t flags, graph_t *graph);
int xnn_delete_subgraph(graph_t graph);
int xnn_create_workspace(workspace_t *workspace);
int xnn_release_workspace(workspace_t workspace);
int xnn_create_runtime_v4(graph_t graph, cache_t *weights, workspace_t workspace, void *pool, uint32_t flags,
    runtime_t *runtime);
int xnn_reshape_external_value(runtime_t runtime, uint32_t id, size_t rank, const size_t *shape);
int xnn_get_external_value_shape(runtime_t runtime, uint32_t id, size_t *rank, size_t *shape);
int xnn_reshape_runtime(runtime_t runtime);
int xnn_setup_runtime_v2(runtime_t runtime, size_t count, const external_t *values);
int xnn_invoke_runtime(runtime_t runtime);
int xnn_delete_runtime(runtime_t runtime);

int xnn_define_tensor_value(graph_t graph, int type, size_t rank, const size_t *shape, const void *data,
    uint32_t external_id, uint32_t flags, uint32_t *id);
int xnn_define_quantized_tensor_value(graph_t graph, int type, int32_t zero_point, float scale, size_t rank,
    const size_t *shape, const void *data, uint32_t external_id, uint32_t flags, uint32_t *id);
int xnn_define_channelwise_quantized_tensor_value(graph_t graph, int type, const float *scales, size_t rank,
    size_t channel_axis, const size_t *shape, const void *data, uint32_t external_id, uint32_t flags, uint32_t *id);
int xnn_define_blockwise_quantized_tensor_value_v2(graph_t graph, int type, int32_t zero_point, const void *scales,
    size_t rank, size_t channel_axis, size_t block_size, const size_t *shape, const void *data,
    uint32_t external_id, uint32_t flags, int scale_type, uint32_t *id);
int xnn_define_dynamically_quantized_tensor_value(graph_t graph, int type, size_t rank, size_t axes_of_a_row,
    const size_t *shape, uint32_t external_id, uint32_t flags, uint32_t *id);
int xnn_define_unary(graph_t graph, int kind, const unary_parameters_t *parameters, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_binary(graph_t graph, int kind, const binary_parameters_t *parameters, uint32_t first, uint32_t second,
    uint32_t output, uint32_t flags);
int xnn_define_convolution_2d(graph_t graph, uint32_t top, uint32_t right, uint32_t bottom, uint32_t left,
    uint32_t kernel_height, uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width,
    uint32_t dilation_height, uint32_t dilation_width, uint32_t groups, size_t group_inputs, size_t group_outputs,
    float smallest, float largest, uint32_t input, uint32_t filter, uint32_t bias, uint32_t output, uint32_t flags);
int xnn_define_depthwise_convolution_2d(graph_t graph, uint32_t top, uint32_t right, uint32_t bottom, uint32_t left,
    uint32_t kernel_height, uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width,
    uint32_t dilation_height, uint32_t dilation_width, uint32_t multiplier, size_t inputs,
    float smallest, float largest, uint32_t input, uint32_t filter, uint32_t bias, uint32_t output, uint32_t flags);
int xnn_define_deconvolution_2d(graph_t graph, uint32_t top, uint32_t right, uint32_t bottom, uint32_t left,
    uint32_t more_rows, uint32_t more_columns, uint32_t kernel_height, uint32_t kernel_width,
    uint32_t stride_height, uint32_t stride_width, uint32_t dilation_height, uint32_t dilation_width,
    uint32_t groups, size_t group_inputs, size_t group_outputs,
    float smallest, float largest, uint32_t input, uint32_t filter, uint32_t bias, uint32_t output, uint32_t flags);
int xnn_define_average_pooling_2d(graph_t graph, uint32_t top, uint32_t right, uint32_t bottom, uint32_t left,
    uint32_t height, uint32_t width, uint32_t stride_height, uint32_t stride_width,
    float smallest, float largest, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_max_pooling_2d(graph_t graph, uint32_t top, uint32_t right, uint32_t bottom, uint32_t left,
    uint32_t height, uint32_t width, uint32_t stride_height, uint32_t stride_width,
    uint32_t dilation_height, uint32_t dilation_width,
    float smallest, float largest, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_fully_connected(graph_t graph, float smallest, float largest, uint32_t input, uint32_t filter,
    uint32_t bias, uint32_t output, uint32_t flags);
int xnn_define_batch_matrix_multiply(graph_t graph, uint32_t first, uint32_t second, uint32_t output, uint32_t flags);
int xnn_define_softmax(graph_t graph, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_static_reduce_v2(graph_t graph, int kind, size_t count, const int64_t *axes, uint32_t input,
    uint32_t output, uint32_t flags);
int xnn_define_concatenate(graph_t graph, int32_t axis, size_t count, const uint32_t *inputs, uint32_t output,
    uint32_t flags);
int xnn_define_copy(graph_t graph, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_static_reshape(graph_t graph, size_t rank, const size_t *shape, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_split_dim(graph_t graph, size_t axis, size_t count, const size_t *sizes, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_static_broadcast(graph_t graph, size_t rank, const size_t *shape, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_static_transpose(graph_t graph, size_t rank, const size_t *order, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_static_slice_v3(graph_t graph, size_t rank, const int64_t *begins, const int64_t *ends,
    const int64_t *strides, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_static_constant_pad_v2(graph_t graph, size_t rank, const size_t *before, const size_t *after,
    float number, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_static_resize_bilinear_2d(graph_t graph, size_t height, size_t width, uint32_t input, uint32_t output,
    uint32_t flags);
int xnn_define_depth_to_space_2d(graph_t graph, uint32_t block, uint32_t input, uint32_t output, uint32_t flags);
int xnn_define_space_to_depth_2d(graph_t graph, uint32_t block, uint32_t input, uint32_t output, uint32_t flags);
"""

POOL_DECLARATIONS = """
void *pthreadpool_create(size_t threads);
size_t pthreadpool_get_threads_count(void *pool);
void pthreadpool_destroy(void *pool);
"""
"""Functions of the thread pool, which is a library of its own and hides them on macOS."""

SHARED_POOL_DECLARATIONS = """
void *_ZN10executorch9extension10threadpool14get_threadpoolEv(void);
bool _ZN10executorch9extension10threadpool10ThreadPool24_unsafe_reset_threadpoolEj(void *pool, uint32_t threads);
void *_ZN10executorch9extension10threadpool15get_pthreadpoolEv(void);
"""
"""Functions of ExecuTorch's pool, of which a process has one: it, its number of threads, and pthreadpool's handle.

They are C++: ``get_threadpool()``, ``ThreadPool::_unsafe_reset_threadpool(unsigned)`` and ``get_pthreadpool()``.
"""

_HEADER = '"""Written by ``python -m ort_py_xnnpack.binding.declarations``; not to be changed by hand."""\n\n'


def functions(declarations: str = DECLARATIONS) -> list[str]:
    """Names of the functions that are declared."""
    return re.findall(r"\b((?:xnn_|pthreadpool_|_ZN)\w+)\(", declarations)


def generate(target: Path) -> None:
    """Write the module for the declarations."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS + POOL_DECLARATIONS + SHARED_POOL_DECLARATIONS)
    ffi.set_source("ort_py_xnnpack.binding._xnnpack", None)
    ffi.emit_python_code(str(target))
    target.write_text(f"{_HEADER}{target.read_text(encoding='utf-8')}", encoding="utf-8")


if __name__ == "__main__":
    generate(GENERATED)
