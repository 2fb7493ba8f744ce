// Sums and the like over a warp or a block; every thread gets the result.
struct Add {
  template <typename T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
};
struct Multiply {
  template <typename T> static __device__ __forceinline__ T of(T a, T b) { return a * b; }
};
// A NaN wins, as ONNX wants it.
struct Largest {
  template <typename T> static __device__ __forceinline__ T of(T a, T b) { return (b > a || b != b) ? b : a; }
};
struct Smallest {
  template <typename T> static __device__ __forceinline__ T of(T a, T b) { return (b < a || b != b) ? b : a; }
};

template <typename Op, typename T> __device__ __forceinline__ T reduce_warp(T x) {
  for (int step = 16; step; step >>= 1) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// `threads` of a row lie along x, a multiple of 32; rows that share a block lie along y and have one warp each.
template <typename Op, typename T> __device__ __forceinline__ T reduce_row(T x, T identity) {
  x = reduce_warp<Op>(x);
  if (blockDim.x == 32) return x;
  __shared__ T parts[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  __syncthreads();  // those of the reduction before have been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = lane < (blockDim.x >> 5) ? parts[lane] : identity;
  return reduce_warp<Op>(x);
}
