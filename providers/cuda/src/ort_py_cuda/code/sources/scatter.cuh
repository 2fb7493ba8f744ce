// Scatters: elements of a copy replaced by, or combined with, updates. Comes after `gather`, whose positions it uses.
// Several updates of one element are combined one after the other, in no certain order.

// The word that holds an element, as the unsigned integer that can be compared and swapped, changed until nobody
// else has changed it meanwhile.
template <int BYTES> struct Word;
template <> struct Word<4> { typedef unsigned int type; };
template <> struct Word<8> { typedef unsigned long long type; };

template <typename T, typename Op> struct Combine {
  static __device__ __forceinline__ void into(T *target, T update) {
    const int bytes = sizeof(T) < 4 ? 4 : (int)sizeof(T);
    typedef typename Word<bytes>::type W;
    size_t address = (size_t)target;
    W *word = (W *)(address & ~(size_t)(bytes - 1));
    int offset = (int)(address & (bytes - 1));
    W seen = *(volatile W *)word;
    for (;;) {
      W next = seen;
      T value;
      memcpy(&value, (char *)&next + offset, sizeof(T));
      value = narrow<T>(Op::of(widen(value), widen(update)));
      memcpy((char *)&next + offset, &value, sizeof(T));
      if (next == seen) return;
      W found = atomicCAS(word, seen, next);
      if (found == seen) return;
      seen = found;
    }
  }
};

// Sums that the hardware makes by itself.
template <> struct Combine<float, Add> {
  static __device__ __forceinline__ void into(float *target, float update) { atomicAdd(target, update); }
};
template <> struct Combine<double, Add> {
  static __device__ __forceinline__ void into(double *target, double update) { atomicAdd(target, update); }
};
template <> struct Combine<int32, Add> {
  static __device__ __forceinline__ void into(int32 *target, int32 update) { atomicAdd(target, update); }
};
template <> struct Combine<uint32, Add> {
  static __device__ __forceinline__ void into(uint32 *target, uint32 update) { atomicAdd(target, update); }
};
template <> struct Combine<int64, Add> {
  static __device__ __forceinline__ void into(int64 *target, int64 update) {
    atomicAdd((unsigned long long *)target, (unsigned long long)update);
  }
};

struct Replace {};
template <typename T> struct Combine<T, Replace> {
  static __device__ __forceinline__ void into(T *target, T update) { *target = update; }
};

// Updates U come in their own type, which is widened where the target's is wider.
template <typename T, typename U, typename Op>
__device__ __forceinline__ void put(T *target, U update) {
  Combine<T, Op>::into(target, narrow<T>(widen(update)));
}

template <typename T, typename U, typename I, typename N, int RANK, typename Op>
__device__ __forceinline__ void scatter_elements(
    const I *indices, const U *updates, T *y, N total, N size, N step, const Axes &axes, Fault *fault, int64 site) {
  N at = (N)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  int64 index = checked_index((int64)indices[at], size, fault, site);
  if (index >= 0) put<T, U, Op>(y + element_position<RANK, N>(axes, at) + (N)index * step, updates[at]);
}

template <typename T, typename U, typename I, typename N, int DEPTH, typename Op>
__device__ __forceinline__ void scatter_nd(
    const I *indices, const U *updates, T *y, N total, N inner, const Axes &axes, Fault *fault, int64 site) {
  N at = (N)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  N k = at % inner, r = at / inner;
  int64 row = row_position<I, DEPTH>(indices + (int64)r * DEPTH, axes, fault, site);
  if (row >= 0) put<T, U, Op>(y + row * (int64)inner + k, updates[at]);
}
