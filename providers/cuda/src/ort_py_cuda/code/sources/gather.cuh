// Gathers: elements and slices picked by indices. Elements are moved as units of 1 to 16 bytes, whatever their type.
// `N` is the integer type of positions in memory, 64 bits wide only where 32 are too few.
struct alignas(16) Unit16 { uint64 v[2]; };

// y[o, i, k] = x[o, indices[i], k]; k in units.
template <typename U, typename I, typename N>
__device__ __forceinline__ void gather(
    const U *x, const I *indices, U *y, N total, N count, N size, N inner, Fault *fault, int64 site) {
  N at = (N)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  N k = at % inner, i = at / inner % count, o = at / (inner * count);
  int64 index = checked_index((int64)indices[i], size, fault, site);
  y[at] = index < 0 ? zero_of<U>() : x[(o * size + (N)index) * inner + k];
}

// Axes of the indices, and what a step along each is in the data; the indexed axis has step 0 here.
struct Axes {
  int64 size[8];
  int64 step[8];
};

template <int RANK, typename N> __device__ __forceinline__ N element_position(const Axes &axes, N at) {
  N position = 0;
#pragma unroll
  for (int axis = RANK - 1; axis >= 0; --axis) {
    position += at % (N)axes.size[axis] * (N)axes.step[axis];
    at /= (N)axes.size[axis];
  }
  return position;
}

// y[at] = x[.., indices[at], ..]
template <typename U, typename I, typename N, int RANK>
__device__ __forceinline__ void gather_elements(
    const U *x, const I *indices, U *y, N total, N size, N step, const Axes &axes, Fault *fault, int64 site) {
  N at = (N)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  int64 index = checked_index((int64)indices[at], size, fault, site);
  y[at] = index < 0 ? zero_of<U>() : x[element_position<RANK, N>(axes, at) + (N)index * step];
}

// The row that a tuple of DEPTH indices means; -1 where one is out of range. Axes: size and step of those indexed.
template <typename I, int DEPTH>
__device__ __forceinline__ int64 row_position(const I *tuple, const Axes &axes, Fault *fault, int64 site) {
  int64 row = 0;
#pragma unroll
  for (int place = 0; place < DEPTH; ++place) {
    int64 index = checked_index((int64)tuple[place], axes.size[place], fault, site);
    if (index < 0) return -1;
    row += index * axes.step[place];
  }
  return row;
}

// y[r, k] = x[batch of r, tuple r, k]; `tuples` of them belong to a batch of `batch_rows` rows.
template <typename U, typename I, typename N, int DEPTH>
__device__ __forceinline__ void gather_nd(
    const U *x, const I *indices, U *y, N total, N inner, N tuples, N batch_rows, const Axes &axes, Fault *fault,
    int64 site) {
  N at = (N)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  N k = at % inner, r = at / inner;
  int64 row = row_position<I, DEPTH>(indices + (int64)r * DEPTH, axes, fault, site);
  y[at] = row < 0 ? zero_of<U>() : x[((int64)(r / tuples) * batch_rows + row) * inner + k];
}
