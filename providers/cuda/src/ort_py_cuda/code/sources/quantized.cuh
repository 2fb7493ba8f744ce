// What surrounds a product of signed bytes: making its left operand, and making results of its 32-bit sums.
//
// Unsigned bytes are shifted by 128, and their zero points too. With a' and b' as they are multiplied and z' their zero
// points, sum((a' - za) (b' - zb)) = sum(a' b') - zb sum(a') - za sum(b') + k za zb: corrections of a row and of a column.

__device__ __forceinline__ int byte_of(int8 x, float, int) { return x; }
__device__ __forceinline__ int byte_of(uint8 x, float, int) { return (int)x - 128; }
__device__ __forceinline__ int byte_of(float x, float scale, int zero) {
  float q = rintf(x / scale) + (float)zero;
  return (int)fminf(fmaxf(q, 0.0f), 255.0f) - 128;
}

// Rows of A as signed bytes, filled up with zeros to `pitch`, and the sum of each. One warp a row.
extern "C" __global__ void quantized_rows(
    const SOURCE *a, int8 *packed, int *sums, const float *scale, const uint8 *zero, int rows, int k, int pitch) {
  long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float by = scale ? *scale : 1.0f;
  int shift = zero ? *zero : 0, sum = 0;
  for (int i = threadIdx.x; i < pitch; i += 32) {
    int value = i < k ? byte_of(a[row * k + i], by, shift) : 0;
    packed[row * pitch + i] = (int8)value;
    sum += value;
  }
  sum = reduce_warp<Add>(sum);
  if (threadIdx.x == 0) sums[row] = sum;
}

__device__ __forceinline__ int zero_at(const void *zeros, long long place, bool is_unsigned) {
  if (!zeros) return is_unsigned ? -128 : 0;
  return is_unsigned ? (int)((const uint8 *)zeros)[place] - 128 : (int)((const int8 *)zeros)[place];
}

// KIND 0: the sums as int32. 1: scaled, with a bias, as float. 2: scaled, rounded and saturated as RESULT.
// A step is 0 where a parameter is the same for all rows (of A's) or columns (of B's), else 1.
extern "C" __global__ void quantized_results(
    const int *sums, const int *row_sums, const int *column_sums, const void *a_zero, const void *b_zero, int a_zero_step,
    int b_zero_step, const float *a_scale, const float *b_scale, int a_scale_step, int b_scale_step, const float *bias,
    const float *y_scale, const void *y_zero, int y_scale_step, int y_zero_step, RESULT *y, long long count, int n,
    int pitch, int k) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    long long row = i / n;
    int column = (int)(i - row * n);
    // Wraps around as 32-bit sums do.
    unsigned za = (unsigned)zero_at(a_zero, row * a_zero_step, A_UNSIGNED);
    unsigned zb = (unsigned)zero_at(b_zero, (long long)column * b_zero_step, B_UNSIGNED);
    unsigned total = (unsigned)sums[row * pitch + column] - zb * (unsigned)row_sums[row] -
                     za * (unsigned)column_sums[column] + (unsigned)k * za * zb;
#if KIND == 0
    y[i] = (int)total;
#else
    float scale = a_scale[row * a_scale_step] * b_scale[(long long)column * b_scale_step];
#if KIND == 1
    float value = (float)(int)total * scale;
    y[i] = bias ? value + bias[column] : value;
#else
    float value = rintf((float)(int)total * (scale / y_scale[row * y_scale_step]));
    const int low = (RESULT)-1 < (RESULT)0 ? -128 : 0;
    value += y_zero ? (float)((const RESULT *)y_zero)[row * y_zero_step] : 0.0f;
    y[i] = (RESULT)(int)fminf(fmaxf(value, (float)low), (float)(low + 255));
#endif
#endif
  }
}
