// Layer and root-mean-square normalisation of rows, and of sums of rows. Rows as in `reduce`.
// Statistics are formed of the mean first and the squares of what differs from it then, in the type to compute in.

// What a row is made of and where its results go; absent ones are null.
template <typename T, typename S> struct Norm {
  const T *x;
  const T *skip;    // added to x, repeats after `period` rows
  const T *bias;    // added to x, one entry a column
  const T *scale;   // one entry a column
  const T *shift;   // likewise
  T *y;
  S *mean;          // one entry a row
  S *inverse;       // likewise: 1 / sqrt(variance + epsilon)
  T *total;         // what was normalised
  int64 rows, width, period;
  float epsilon;
};

template <typename T, typename S, int VEC>
__device__ __forceinline__ void norm_load(const Norm<T, S> &n, int64 row, int64 at, typename Computed<T>::type *v) {
  Pack<T, VEC> pack = *(const Pack<T, VEC> *)(n.x + row * n.width + at);
#pragma unroll
  for (int k = 0; k < VEC; ++k) v[k] = widen(pack.v[k]);
  if (n.skip) {
    pack = *(const Pack<T, VEC> *)(n.skip + (row % n.period) * n.width + at);
#pragma unroll
    for (int k = 0; k < VEC; ++k) v[k] += widen(pack.v[k]);
  }
  if (n.bias) {
    pack = *(const Pack<T, VEC> *)(n.bias + at);
#pragma unroll
    for (int k = 0; k < VEC; ++k) v[k] += widen(pack.v[k]);
  }
}

// ROUND: the standardised element is rounded to T before it is scaled, as ONNX's function bodies do.
template <typename T, typename S, int VEC, bool ROUND>
__device__ __forceinline__ void norm_store(
    const Norm<T, S> &n, int64 row, int64 at, const typename Computed<T>::type *v, typename Computed<T>::type mean,
    typename Computed<T>::type inverse) {
  typedef typename Computed<T>::type C;
  Pack<T, VEC> scale = *(const Pack<T, VEC> *)(n.scale + at), shift, pack;
  if (n.shift) shift = *(const Pack<T, VEC> *)(n.shift + at);
#pragma unroll
  for (int k = 0; k < VEC; ++k) {
    C y = (v[k] - mean) * inverse;
    if (ROUND) y = widen(narrow<T>(y));
    y *= widen(scale.v[k]);
    if (n.shift) y += widen(shift.v[k]);
    pack.v[k] = narrow<T>(y);
  }
  *(Pack<T, VEC> *)(n.y + row * n.width + at) = pack;
  if (n.total) {
#pragma unroll
    for (int k = 0; k < VEC; ++k) pack.v[k] = narrow<T>(v[k]);
    *(Pack<T, VEC> *)(n.total + row * n.width + at) = pack;
  }
}

template <typename T, typename S, typename C>
__device__ __forceinline__ void norm_statistics(const Norm<T, S> &n, int64 row, C mean, C inverse) {
  if (threadIdx.x) return;
  if (n.mean) n.mean[row] = (S)mean;
  if (n.inverse) n.inverse[row] = (S)inverse;
}

// Rows that fit into registers: PER packs a thread.
template <typename T, typename S, int VEC, int PER, bool CENTRED, bool ROUND>
__device__ __forceinline__ void norm_registers(const Norm<T, S> &n) {
  typedef typename Computed<T>::type C;
  int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= n.rows) return;  // only where a row has one warp
  C v[PER * VEC];
  C sum = 0;
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    int at = (j * blockDim.x + threadIdx.x) * VEC;
    if (at < n.width) {
      norm_load<T, S, VEC>(n, row, at, v + j * VEC);
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum += v[j * VEC + k];
    }
  }
  C mean = 0;
  if (CENTRED || n.mean) mean = reduce_row<Add>(sum, C(0)) / (C)n.width;
  C middle = CENTRED ? mean : C(0), squares = 0;
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    int at = (j * blockDim.x + threadIdx.x) * VEC;
    if (at < n.width) {
#pragma unroll
      for (int k = 0; k < VEC; ++k) squares += (v[j * VEC + k] - middle) * (v[j * VEC + k] - middle);
    }
  }
  C inverse = C(1) / sqrt(reduce_row<Add>(squares, C(0)) / (C)n.width + (C)n.epsilon);
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    int at = (j * blockDim.x + threadIdx.x) * VEC;
    if (at < n.width) norm_store<T, S, VEC, ROUND>(n, row, at, v + j * VEC, middle, inverse);
  }
  norm_statistics(n, row, mean, inverse);
}

// Longer rows, one a block, read once for each step.
template <typename T, typename S, int VEC, bool CENTRED, bool ROUND>
__device__ __forceinline__ void norm_long(const Norm<T, S> &n) {
  typedef typename Computed<T>::type C;
  int64 row = blockIdx.x, first = (int64)threadIdx.x * VEC, step = (int64)blockDim.x * VEC;
  C v[VEC];
  C mean = 0;
  if (CENTRED || n.mean) {
    C sum = 0;
    for (int64 at = first; at < n.width; at += step) {
      norm_load<T, S, VEC>(n, row, at, v);
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum += v[k];
    }
    mean = reduce_row<Add>(sum, C(0)) / (C)n.width;
  }
  C middle = CENTRED ? mean : C(0), squares = 0;
  for (int64 at = first; at < n.width; at += step) {
    norm_load<T, S, VEC>(n, row, at, v);
#pragma unroll
    for (int k = 0; k < VEC; ++k) squares += (v[k] - middle) * (v[k] - middle);
  }
  C inverse = C(1) / sqrt(reduce_row<Add>(squares, C(0)) / (C)n.width + (C)n.epsilon);
  for (int64 at = first; at < n.width; at += step) {
    norm_load<T, S, VEC>(n, row, at, v);
    norm_store<T, S, VEC, ROUND>(n, row, at, v, middle, inverse);
  }
  norm_statistics(n, row, mean, inverse);
}
