// Blocks of threads on the host, compiled once and linked to every kernel: fibers that take turns, in an order that
// changes with the seed, and meet at barriers.
#include "shim.h"

#include <ucontext.h>
#include <vector>

Index3 threadIdx, blockIdx, blockDim, gridDim;

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

static void yield() {
  Fiber *self = current;
  swapcontext(&self->context, &scheduler);
}
static void meet(Barrier &barrier) {
  long generation = barrier.generation;
  moved = true;
  if (++barrier.arrived == barrier.living) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (generation == barrier.generation) yield();
}
static void leave(Barrier &barrier) {
  --barrier.living;
  if (barrier.living && barrier.arrived == barrier.living) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
}

static void (*body)();
static void start() {
  body();
  current->done = true;
  leave(warps[current->warp]);
  leave(block);
  moved = true;
  swapcontext(&current->context, &scheduler);
}

// One block; false where its threads wait for each other forever.
static bool run_block(unsigned int seed) {
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
}  // namespace emulated

void __syncthreads() { emulated::meet(emulated::block); }

namespace emulated {
unsigned long long exchanged(unsigned long long bits, int step) {
  Fiber *self = current;
  slots[self->warp * 32 + self->lane] = bits;
  meet(warps[self->warp]);
  const unsigned long long found = slots[self->warp * 32 + (self->lane ^ step)];
  meet(warps[self->warp]);
  return found;
}

int run(void (*thread)(), const unsigned int *grid, const unsigned int *block, unsigned int seed) {
  body = thread;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  for (unsigned int z = 0; z < grid[2]; ++z)
    for (unsigned int y = 0; y < grid[1]; ++y)
      for (unsigned int x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        if (!run_block(seed)) return 1;
      }
  return 0;
}
}  // namespace emulated
