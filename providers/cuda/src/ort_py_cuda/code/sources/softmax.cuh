// Softmax and log-softmax. Rows as in `reduce`: threads of a row along x, rows that share a block along y.
// The exponentials' largest one is taken out of them; a row with a NaN or a positive infinity is NaN, as in the formula.

// Rows that fit into registers: PER packs of VEC elements a thread. One read, one write.
template <typename T, int VEC, int PER, bool LOG>
__device__ __forceinline__ void softmax_registers(const T *x, T *y, int64 rows, int64 width) {
  typedef typename Computed<T>::type C;
  int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // only where a row has one warp, so nobody waits for it
  x += row * width;
  y += row * width;
  C v[PER * VEC];
  C top = -infinity(C());
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    int at = (j * blockDim.x + threadIdx.x) * VEC;
    Pack<T, VEC> pack;
    if (at < width) pack = *(const Pack<T, VEC> *)(x + at);
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      v[j * VEC + k] = at < width ? (C)widen(pack.v[k]) : -infinity(C());
      top = Largest::of(top, v[j * VEC + k]);
    }
  }
  top = reduce_row<Largest>(top, -infinity(C()));
  C total = 0;
#pragma unroll
  for (int j = 0; j < PER * VEC; ++j) {
    v[j] -= top;
    C power = exp(v[j]);
    if (!LOG) v[j] = power;
    int at = ((j / VEC) * blockDim.x + threadIdx.x) * VEC;
    total += at < width ? power : C(0);
  }
  total = reduce_row<Add>(total, C(0));
  C by = LOG ? log(total) : C(1) / total;
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    int at = (j * blockDim.x + threadIdx.x) * VEC;
    Pack<T, VEC> pack;
#pragma unroll
    for (int k = 0; k < VEC; ++k) pack.v[k] = narrow<T>(LOG ? v[j * VEC + k] - by : v[j * VEC + k] * by);
    if (at < width) *(Pack<T, VEC> *)(y + at) = pack;
  }
}

// The largest element so far, and the sum of exponentials with it taken out.
template <typename C> struct Online {
  C top, total;
  __device__ __forceinline__ void take(C x) {
    if (x > top) {
      // x - x is 0, or NaN where x is infinite: then the formula's row is NaN too.
      total = total * (top == -infinity(C()) ? C(0) : exp(top - x)) + (C(1) + (x - x));
      top = x;
    } else if (x != -infinity(C())) {
      total += exp(x - top);
    }
  }
};

// Longer rows, one a block: two reads, one write.
template <typename T, int VEC, bool LOG>
__device__ __forceinline__ void softmax_long(const T *x, T *y, int64 rows, int64 width) {
  typedef typename Computed<T>::type C;
  x += (int64)blockIdx.x * width;
  y += (int64)blockIdx.x * width;
  Online<C> mine = {-infinity(C()), C(0)};
  for (int64 at = (int64)threadIdx.x * VEC; at < width; at += (int64)blockDim.x * VEC) {
    Pack<T, VEC> pack = *(const Pack<T, VEC> *)(x + at);
#pragma unroll
    for (int k = 0; k < VEC; ++k) mine.take(widen(pack.v[k]));
  }
  C top = reduce_row<Largest>(mine.top, -infinity(C()));
  C scaled = mine.top == -infinity(C()) ? mine.total : mine.total * exp(mine.top - top);
  if (mine.top == infinity(C())) scaled = mine.total;  // NaN already
  C total = reduce_row<Add>(scaled, C(0));
  C by = LOG ? log(total) : C(1) / total;
  for (int64 at = (int64)threadIdx.x * VEC; at < width; at += (int64)blockDim.x * VEC) {
    Pack<T, VEC> pack = *(const Pack<T, VEC> *)(x + at);
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      C v = (C)widen(pack.v[k]) - top;
      pack.v[k] = narrow<T>(LOG ? v - by : exp(v) * by);
    }
    *(Pack<T, VEC> *)(y + at) = pack;
  }
}

// Along an axis that is not the last: a thread a column, neighbours side by side.
template <typename T, bool LOG>
__device__ __forceinline__ void softmax_columns(const T *x, T *y, int64 columns, int64 width, int64 inner) {
  typedef typename Computed<T>::type C;
  int64 column = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  int64 start = column / inner * inner * width + column % inner;
  Online<C> mine = {-infinity(C()), C(0)};
  for (int64 i = 0; i < width; ++i) mine.take(widen(x[start + i * inner]));
  C by = LOG ? log(mine.total) : C(1) / mine.total;
  for (int64 i = 0; i < width; ++i) {
    C v = (C)widen(x[start + i * inner]) - mine.top;
    y[start + i * inner] = narrow<T>(LOG ? v - by : exp(v) * by);
  }
}
