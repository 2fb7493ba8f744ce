"""The part of oneDNN's stable v3 C API that is used here, as declarations for cffi, and the writer of `_dnnl.py`.

``python -m ort_py_onednn.binding.declarations`` writes the module that is imported in place of parsing these lines at
each start; a test compares the two. Handles are void pointers and enumerations are int: their values are in
`constants`. A compiler is needed neither here nor by who installs the package.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DECLARATIONS", "GENERATED", "generate"]

GENERATED = Path(__file__).with_name("_dnnl.py")

DECLARATIONS = """
typedef void *md_t;
typedef void *attr_t;
typedef void *pd_t;
typedef struct { int major; int minor; int patch; const char *hash; unsigned cpu_runtime; unsigned gpu_runtime; }
    dnnl_version_t;
typedef struct { int arg; void *memory; } dnnl_exec_arg_t;

const dnnl_version_t *dnnl_version(void);
int dnnl_get_effective_cpu_isa(void);
int dnnl_set_primitive_cache_capacity(int capacity);

int dnnl_engine_create(void **engine, int kind, size_t index);
int dnnl_stream_create(void **stream, void *engine, unsigned flags);
int dnnl_stream_destroy(void *stream);

int dnnl_memory_desc_create_with_strides(md_t *md, int ndims, const int64_t *dims, int type, const int64_t *strides);
int dnnl_memory_desc_create_with_tag(md_t *md, int ndims, const int64_t *dims, int type, int tag);
int dnnl_memory_desc_create_submemory(md_t *md, md_t parent, const int64_t *dims, const int64_t *offsets);
int dnnl_memory_desc_reshape(md_t *md, md_t from, int ndims, const int64_t *dims);
int dnnl_memory_desc_permute_axes(md_t *md, md_t from, const int *permutation);
int dnnl_memory_desc_clone(md_t *md, md_t from);
int dnnl_memory_desc_destroy(md_t md);
int dnnl_memory_desc_query(md_t md, int what, void *result);
int dnnl_memory_desc_equal(md_t left, md_t right);
size_t dnnl_memory_desc_get_size(md_t md);

int dnnl_memory_create(void **memory, md_t md, void *engine, void *handle);
int dnnl_memory_set_data_handle(void *memory, void *handle);
int dnnl_memory_destroy(void *memory);

int dnnl_primitive_attr_create(attr_t *attr);
int dnnl_primitive_attr_destroy(attr_t attr);
int dnnl_primitive_attr_set_scratchpad_mode(attr_t attr, int mode);
int dnnl_primitive_attr_set_post_ops(attr_t attr, void *post_ops);
int dnnl_primitive_attr_set_scales_mask(attr_t attr, int argument, int mask);
int dnnl_primitive_attr_set_zero_points_mask(attr_t attr, int argument, int mask);
int dnnl_post_ops_create(void **post_ops);
int dnnl_post_ops_destroy(void *post_ops);
int dnnl_post_ops_append_eltwise(void *post_ops, int algorithm, float alpha, float beta);
int dnnl_post_ops_append_sum(void *post_ops, float scale, int32_t zero_point, int type);
int dnnl_post_ops_append_binary(void *post_ops, int algorithm, md_t src1);

int dnnl_primitive_desc_query(pd_t pd, int what, int index, void *result);
md_t dnnl_primitive_desc_query_md(pd_t pd, int what, int index);
int dnnl_primitive_desc_next_impl(pd_t pd);
int dnnl_primitive_desc_destroy(pd_t pd);
int dnnl_primitive_create(void **primitive, pd_t pd);
int dnnl_primitive_execute(void *primitive, void *stream, int count, const dnnl_exec_arg_t *arguments);
int dnnl_primitive_destroy(void *primitive);

int dnnl_reorder_primitive_desc_create(pd_t *pd, md_t src, void *src_engine, md_t dst, void *dst_engine, attr_t attr);
int dnnl_concat_primitive_desc_create(pd_t *pd, void *engine, md_t dst, int count, int axis, md_t *srcs, attr_t attr);
int dnnl_sum_primitive_desc_create(pd_t *pd, void *engine, md_t dst, int count, const float *scales, md_t *srcs,
    attr_t attr);
int dnnl_binary_primitive_desc_create(pd_t *pd, void *engine, int algorithm, md_t src0, md_t src1, md_t dst,
    attr_t attr);
int dnnl_convolution_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src,
    md_t weights, md_t bias, md_t dst, const int64_t *strides, const int64_t *dilates, const int64_t *padding_l,
    const int64_t *padding_r, attr_t attr);
int dnnl_deconvolution_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src,
    md_t weights, md_t bias, md_t dst, const int64_t *strides, const int64_t *dilates, const int64_t *padding_l,
    const int64_t *padding_r, attr_t attr);
int dnnl_inner_product_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, md_t src, md_t weights,
    md_t bias, md_t dst, attr_t attr);
int dnnl_matmul_primitive_desc_create(pd_t *pd, void *engine, md_t src, md_t weights, md_t bias, md_t dst, attr_t attr);
int dnnl_eltwise_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src, md_t dst,
    float alpha, float beta, attr_t attr);
int dnnl_softmax_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src, md_t dst,
    int axis, attr_t attr);
int dnnl_pooling_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src, md_t dst,
    const int64_t *strides, const int64_t *kernel, const int64_t *dilation, const int64_t *padding_l,
    const int64_t *padding_r, attr_t attr);
int dnnl_prelu_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, md_t src, md_t weights, md_t dst,
    attr_t attr);
int dnnl_lrn_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm, md_t src, md_t dst,
    int64_t size, float alpha, float beta, float k, attr_t attr);
int dnnl_shuffle_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, md_t src, md_t dst, int axis,
    int64_t group, attr_t attr);
int dnnl_batch_normalization_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, md_t src, md_t dst,
    float epsilon, unsigned flags, attr_t attr);
int dnnl_layer_normalization_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, md_t src, md_t dst,
    md_t statistics, float epsilon, unsigned flags, attr_t attr);
int dnnl_resampling_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int algorithm,
    const float *factors, md_t src, md_t dst, attr_t attr);
int dnnl_reduction_primitive_desc_create(pd_t *pd, void *engine, int algorithm, md_t src, md_t dst, float p, float eps,
    attr_t attr);
int dnnl_vanilla_rnn_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int activation, int direction,
    md_t src_layer, md_t src_iter, md_t weights_layer, md_t weights_iter, md_t bias, md_t dst_layer, md_t dst_iter,
    unsigned flags, float alpha, float beta, attr_t attr);
int dnnl_lstm_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int direction, md_t src_layer,
    md_t src_iter, md_t src_iter_c, md_t weights_layer, md_t weights_iter, md_t weights_peephole,
    md_t weights_projection, md_t bias, md_t dst_layer, md_t dst_iter, md_t dst_iter_c, unsigned flags, attr_t attr);
int dnnl_gru_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int direction, md_t src_layer,
    md_t src_iter, md_t weights_layer, md_t weights_iter, md_t bias, md_t dst_layer, md_t dst_iter, unsigned flags,
    attr_t attr);
int dnnl_lbr_gru_forward_primitive_desc_create(pd_t *pd, void *engine, int prop, int direction, md_t src_layer,
    md_t src_iter, md_t weights_layer, md_t weights_iter, md_t bias, md_t dst_layer, md_t dst_iter, unsigned flags,
    attr_t attr);

void omp_set_num_threads(int count);
int omp_get_max_threads(void);
int omp_pause_resource_all(int kind);
void GOMP_parallel(void *function, void *data, unsigned threads, unsigned flags);
void _vcomp_set_num_threads(int count);
void _vcomp_fork(int parallel, int count, void *function, void *argument);

void *memcpy(void *target, const void *source, size_t count);
void *memset(void *target, int byte, size_t count);
"""


_HEADER = '"""Written by ``python -m ort_py_onednn.binding.declarations``; not to be changed by hand."""\n\n'


def generate(target: Path) -> None:
    """Write the module for `DECLARATIONS`."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    ffi.set_source("ort_py_onednn.binding._dnnl", None)
    ffi.emit_python_code(str(target))
    target.write_text(f"{_HEADER}{target.read_text(encoding='utf-8')}", encoding="utf-8")


if __name__ == "__main__":
    generate(GENERATED)
