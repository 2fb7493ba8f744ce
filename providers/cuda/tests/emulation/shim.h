// A device on the host, for tests: the words of CUDA that generated code uses, as ordinary C++.
// How threads take turns and meet is in device.cpp.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static

struct Index3 { unsigned int x, y, z; };
extern Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
// The bits that the lane `step` away gives, once all lanes of the warp have given theirs.
unsigned long long exchanged(unsigned long long bits, int step);
// Runs all blocks of a grid; not 0 where threads of one wait for each other forever.
int run(void (*thread)(), const unsigned int *grid, const unsigned int *block, unsigned int seed);
}  // namespace emulated

void __syncthreads();
template <typename T> T __shfl_xor_sync(unsigned int, T x, int step) {
  unsigned long long bits = 0;
  memcpy(&bits, &x, sizeof(T));
  bits = emulated::exchanged(bits, step);
  memcpy(&x, &bits, sizeof(T));
  return x;
}
inline void __threadfence_system() {}
template <typename T> T atomicAdd(T *place, T x) { T old = *place; *place = old + x; return old; }
template <typename T> T atomicCAS(T *place, T expected, T x) { T old = *place; if (old == expected) *place = x; return old; }

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

template <typename R, typename S> R bits_as(S x) { R y; memcpy(&y, &x, sizeof(y)); return y; }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
inline float __uint_as_float(unsigned int x) { return bits_as<float>(x); }
inline unsigned int __float_as_uint(float x) { return bits_as<unsigned int>(x); }

namespace emulated {
static const char *arguments;

template <typename T> size_t place(size_t &end) {
  const size_t at = (end + alignof(T) - 1) / alignof(T) * alignof(T);
  end = at + sizeof(T);
  return at;
}
template <typename T> T argument(size_t at) {
  T value;
  memcpy(&value, arguments + at, sizeof(T));
  return value;
}
template <typename... A, size_t... I> void call(void (*kernel)(A...), std::index_sequence<I...>) {
  size_t end = 0;
  const size_t places[] = {place<A>(end)..., 0};
  kernel(argument<A>(places[I])...);
}
template <typename... A> void call(void (*kernel)(A...)) { call(kernel, std::index_sequence_for<A...>()); }
}  // namespace emulated

#define EMULATED(KERNEL)                                                                                              \
  static void emulated_thread() { emulated::call(KERNEL); }                                                                   \
  extern "C" int launch(const char *arguments, const unsigned int *grid, const unsigned int *block, unsigned int seed) { \
    emulated::arguments = arguments;                                                                                 \
    return emulated::run(emulated_thread, grid, block, seed);                                                                 \
  }
