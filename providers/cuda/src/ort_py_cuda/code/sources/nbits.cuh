// Products with weights of 4 or 8 bits, packed in blocks with a scale and maybe a zero point: for a few rows of A.
//
// Bound by reading the weights: each lane reads 16 bytes of a row of B at once, ROWS rows of B share what is read of A, the
// threads of a block share the length of a row. The host defines ELEMENT (type of A), W_BITS, W_UNIT (weights of 16 bytes,
// or of one block where that is less), W_ROWS, W_COUNT (rows of A at once), W_ZERO (0: the middle, 1: packed, 2: as A) and
// W_WIDE (whether rows of A can be read in packs).

// A weight as float: its bits in the mantissa of 2^23, less 2^23. Exact, and not the slow conversion of integers.
template <int BITS> __device__ __forceinline__ float weight_of(uint32 word, int place) {
  uint32 field = (word >> (place * BITS)) & ((1u << BITS) - 1);
  return __uint_as_float(0x4b000000u | field) - 8388608.0f;
}

template <typename T, int BITS, int ZERO>
__device__ __forceinline__ float zero_of_block(const void *zeros, long long row, int block, int blocks) {
  if (ZERO == 0) return (float)(1 << (BITS - 1));
  if (ZERO == 2) return (float)widen(((const T *)zeros)[row * blocks + block]);
  int each = 8 / BITS, bytes = (blocks + each - 1) / each;
  uint8 packed = ((const uint8 *)zeros)[row * bytes + block / each];
  return (float)((packed >> (block % each * BITS)) & ((1 << BITS) - 1));
}

template <typename T, int BITS, int UNIT, int ROWS, int M, int ZERO, bool WIDE>
__device__ void few_rows(
    const T *a, const uint8 *b, const T *scales, const void *zeros, const T *bias, T *y, int m, int n, int k, int block) {
  constexpr int WORDS = UNIT * BITS / 32, EACH = 32 / BITS, PACKED = sizeof(T) * EACH > 16 ? 16 / sizeof(T) : EACH;
  typedef Pack<uint32, WORDS> Words;
  typedef Pack<T, PACKED> Few;
  int first = blockIdx.x * ROWS, top = blockIdx.y * M;
  int blocks = (k + block - 1) / block, units = (k + UNIT - 1) / UNIT;
  long long pitch = (long long)blocks * block * BITS / 8;
  float sums[ROWS][M] = {};
  for (int unit = threadIdx.x; unit < units; unit += blockDim.x) {
    int at = unit * UNIT, group = at / block;
    Words words[ROWS];
    float parts[ROWS][M] = {}, zero[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      long long row = min(first + r, n - 1);
      words[r] = *(const Words *)(b + row * pitch + (long long)unit * (UNIT * BITS / 8));
      zero[r] = zero_of_block<T, BITS, ZERO>(zeros, row, group, blocks);
    }
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
      float x[M][EACH];
      int from = at + w * EACH;
#pragma unroll
      for (int i = 0; i < M; i++) {
        const T *row = a + (long long)min(top + i, m - 1) * k;
        if (WIDE) {
#pragma unroll
          for (int j = 0; j < EACH; j += PACKED) {
            Few few = *(const Few *)(row + from + j);
#pragma unroll
            for (int p = 0; p < PACKED; p++) x[i][j + p] = (float)widen(few.v[p]);
          }
        } else {
#pragma unroll
          for (int j = 0; j < EACH; j++) x[i][j] = from + j < k ? (float)widen(row[from + j]) : 0.0f;
        }
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
          float weight = weight_of<BITS>(words[r].v[w], j) - zero[r];
#pragma unroll
          for (int i = 0; i < M; i++) parts[r][i] += weight * x[i][j];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float scale = (float)widen(scales[(long long)min(first + r, n - 1) * blocks + group]);
#pragma unroll
      for (int i = 0; i < M; i++) sums[r][i] += scale * parts[r][i];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < M; i++) {
      float sum = reduce_row<Add>(sums[r][i], 0.0f);
      if (threadIdx.x == 0 && first + r < n && top + i < m) {
        if (bias) sum += (float)widen(bias[first + r]);
        y[(long long)(top + i) * n + first + r] = narrow<T>(sum);
      }
    }
}

// Rows [first, first + rows) of B as T, without the padding of the last block: what a library then multiplies.
template <typename T, int BITS, int UNIT, int ZERO>
__device__ void dequantized(
    const uint8 *b, const T *scales, const void *zeros, T *y, int first, int rows, int k, int block) {
  constexpr int WORDS = UNIT * BITS / 32, EACH = 32 / BITS;
  typedef Pack<uint32, WORDS> Words;
  int blocks = (k + block - 1) / block, units = (k + UNIT - 1) / UNIT;
  long long pitch = (long long)blocks * block * BITS / 8, count = (long long)rows * units;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    int unit = i % units, at = unit * UNIT, group = at / block;
    long long own = i / units, row = first + own;
    Words words = *(const Words *)(b + row * pitch + (long long)unit * (UNIT * BITS / 8));
    float zero = zero_of_block<T, BITS, ZERO>(zeros, row, group, blocks);
    float scale = (float)widen(scales[row * blocks + group]);
    T *target = y + own * k + at;
#pragma unroll
    for (int w = 0; w < WORDS; w++)
#pragma unroll
      for (int j = 0; j < EACH; j++)
        if (at + w * EACH + j < k) target[w * EACH + j] = narrow<T>((weight_of<BITS>(words.v[w], j) - zero) * scale);
  }
}

extern "C" __global__ void nbits_few_rows(
    const ELEMENT *a, const uint8 *b, const ELEMENT *scales, const void *zeros, const ELEMENT *bias, ELEMENT *y, int m, int n, int k, int block) {
  few_rows<ELEMENT, W_BITS, W_UNIT, W_ROWS, W_COUNT, W_ZERO, W_WIDE>(a, b, scales, zeros, bias, y, m, n, k, block);
}

extern "C" __global__ void nbits_dequantize(
    const uint8 *b, const ELEMENT *scales, const void *zeros, ELEMENT *y, int first, int rows, int k, int block) {
  dequantized<ELEMENT, W_BITS, W_UNIT, W_ZERO>(b, scales, zeros, y, first, rows, k, block);
}
