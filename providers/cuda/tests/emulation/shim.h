// A device on the host, for tests: the words of CUDA that generated code uses, as ordinary C++.
// The threads of a block are fibers that take turns, in an order that changes with the seed, and meet at barriers.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static

struct Index3 { unsigned int x, y, z; };
static Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
const size_t STACK = 1 << 16;
struct Fiber {
  ucontext_t context;
  Index3 index;
  int warp, lane;
  bool done;
};
struct Barrier { int arrived, living; long generation; };
static std::vector<Fiber> fibers;
static std::vector<char> stacks;
static std::vector<Barrier> warps;
static std::vector<unsigned long long> slots;
static Barrier block;
static ucontext_t scheduler;
static Fiber *current;
static bool moved;

inline void yield() {
  Fiber *self = current;
  swapcontext(&self->context, &scheduler);
}
inline void meet(Barrier &barrier) {
  long generation = barrier.generation;
  moved = true;
  if (++barrier.arrived == barrier.living) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (generation == barrier.generation) yield();
}
inline void leave(Barrier &barrier) {
  --barrier.living;
  if (barrier.living && barrier.arrived == barrier.living) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
}
}  // namespace emulated

inline void __syncthreads() { emulated::meet(emulated::block); }
template <typename T> T __shfl_xor_sync(unsigned int, T x, int step) {
  emulated::Fiber *self = emulated::current;
  memcpy(&emulated::slots[self->warp * 32 + self->lane], &x, sizeof(T));
  emulated::meet(emulated::warps[self->warp]);
  T found;
  memcpy(&found, &emulated::slots[self->warp * 32 + (self->lane ^ step)], sizeof(T));
  emulated::meet(emulated::warps[self->warp]);
  return found;
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
static void (*body)();
inline void start() {
  body();
  current->done = true;
  leave(warps[current->warp]);
  leave(block);
  moved = true;
  swapcontext(&current->context, &scheduler);
}

// One block; false where its threads wait for each other forever.
inline bool run_block(unsigned int seed) {
  size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
  if (fibers.size() < count) {
    fibers.resize(count);
    stacks.resize(count * STACK);
  }
  warps.assign((count + 31) / 32, Barrier{0, 0, 0});
  slots.assign(warps.size() * 32, 0);
  block = Barrier{0, (int)count, 0};
  for (size_t i = 0; i < count; ++i) {
    Fiber &one = fibers[i];
    one.index = {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y), (unsigned)(i / blockDim.x / blockDim.y)};
    one.warp = i / 32;
    one.lane = i % 32;
    one.done = false;
    ++warps[one.warp].living;
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = &stacks[i * STACK];
    one.context.uc_stack.ss_size = STACK;
    one.context.uc_link = nullptr;
    makecontext(&one.context, start, 0);
  }
  size_t left = count, first = seed % count, step = seed & 1 ? count - 1 : 1;
  while (left) {
    moved = false;
    for (size_t n = 0; n < count; ++n) {
      Fiber &one = fibers[(first + n * step) % count];
      if (one.done) continue;
      current = &one;
      threadIdx = one.index;
      long before = block.generation;
      for (auto &warp : warps) before += warp.generation;
      swapcontext(&scheduler, &one.context);
      long after = block.generation;
      for (auto &warp : warps) after += warp.generation;
      if (after != before) moved = true;
      if (one.done) --left;
    }
    if (!moved && left) return false;
  }
  return true;
}

template <typename T> T take(const char *buffer, size_t &offset) {
  offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T);
  T value;
  memcpy(&value, buffer + offset, sizeof(T));
  offset += sizeof(T);
  return value;
}
static const char *arguments;
template <typename... A> void call(void (*kernel)(A...)) {
  size_t offset = 0;
  std::tuple<A...> given{take<A>(arguments, offset)...};
  std::apply(kernel, given);
}
}  // namespace emulated

#define EMULATED(KERNEL)                                                                                       \
  static void call_it() { emulated::call(KERNEL); }                                                            \
  extern "C" int launch(const char *arguments, const unsigned int *grid, const unsigned int *block, unsigned int seed) { \
    emulated::arguments = arguments;                                                                           \
    emulated::body = call_it;                                                                                  \
    gridDim = {grid[0], grid[1], grid[2]};                                                                     \
    blockDim = {block[0], block[1], block[2]};                                                                 \
    for (unsigned int z = 0; z < grid[2]; ++z)                                                                 \
      for (unsigned int y = 0; y < grid[1]; ++y)                                                               \
        for (unsigned int x = 0; x < grid[0]; ++x) {                                                           \
          blockIdx = {x, y, z};                                                                                \
          if (!emulated::run_block(seed)) return 1;                                                            \
        }                                                                                                      \
    return 0;                                                                                                  \
  }
