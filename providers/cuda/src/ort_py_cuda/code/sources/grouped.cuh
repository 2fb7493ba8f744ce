// Grouped heads: turned and stored, one query against a long cache or its pages, probabilities of many queries.
//
// The host defines ELEMENT, HEAD (elements of a head, D below), QUERIES, FEW and STEP (elements of packs), and which kernel
// it wants. A sequence b has its first new position at start(b) and total(b) keys.
struct Lengths {
  const int *each;  // starts of all sequences, then totals; 0 where all are the same
  int start, total, batch, unused;
};
__device__ __forceinline__ int start_of(const Lengths &x, int b) { return x.each ? x.each[b] : x.start; }
__device__ __forceinline__ int total_of(const Lengths &x, int b) { return x.each ? x.each[x.batch + b] : x.total; }

struct Rotary {
  const ELEMENT *cosines, *sines, *weight;  // weight of the norm in front; 0 where there is none
  const int64 *positions;                   // 0 where positions are counted from the start
  int pairs, interleaved, rows, mode;       // mode 1: counted from positions[0]; 2: one for each query
  float epsilon;
  int offset;  // the first element that is turned
};

// Where rows of a cache lie: those of a sequence one behind the other, or in pages that a table names.
struct Places {
  const int *table;           // pages of each sequence; 0 where sequences have no pages
  const int *owners;          // the sequence of each query; 0 where it is the query's number
  const int *tokens;          // where a query and its result are; 0 where it is the query's number
  long long page, head, row;  // elements from one page (or sequence), head and row to the next
  int rows, pages, blocks, unused;  // rows of a page, pages that the table has for a sequence, and that there are
};
__device__ __forceinline__ long long token_of(const Places &x, int b) { return x.tokens ? x.tokens[b] : b; }
// The element where a row of a head begins; -1 where the table names no page of the cache for it.
__device__ __forceinline__ long long row_at(const Places &x, int b, int head, int place) {
  long long page = b;
  if (x.table) {
    int sequence = x.owners ? x.owners[b] : b, column = place / x.rows;
    page = column < x.pages ? x.table[(long long)sequence * x.pages + column] : -1;
    if (page < 0 || page >= x.blocks) return -1;
    place -= column * x.rows;
  }
  return page * x.page + head * x.head + place * x.row;
}

// One warp's head of D elements, through norm and rotation, to `to`. Pairs of lanes never mix: each lane has whole pairs.
__device__ void turned_head(const ELEMENT *from, ELEMENT *to, const Rotary &how, int start, int place, long long query) {
  int lane = threadIdx.x & 31;
  float factor = 1.0f;
  if (how.weight) {
    float sum = 0.0f;
    for (int d = lane; d < HEAD; d += 32) {
      float x = widen(from[d]);
      sum += x * x;
    }
    factor = 1.0f / sqrtf(reduce_warp<Add>(sum) / HEAD + how.epsilon);
  }
  int position = start + place;
  if (how.mode == 1) position = (int)how.positions[0] + place;
  if (how.mode == 2) position = (int)how.positions[query];
  position = max(0, min(position, how.rows - 1));  // never outside the caches, whatever is fed
  for (int i = lane; i < how.pairs; i += 32) {
    int one = how.offset + (how.interleaved ? 2 * i : i), two = how.interleaved ? one + 1 : one + how.pairs;
    float x = widen(from[one]) * factor, y = widen(from[two]) * factor;
    if (how.weight) x *= widen(how.weight[one]), y *= widen(how.weight[two]);
    float c = widen(how.cosines[(long long)position * how.pairs + i]);
    float s = widen(how.sines[(long long)position * how.pairs + i]);
    to[one] = narrow<ELEMENT>(x * c - y * s);
    to[two] = narrow<ELEMENT>(x * s + y * c);
  }
  for (int d = lane; d < HEAD; d += 32) {
    if (d >= how.offset && d < how.offset + 2 * how.pairs) continue;
    float x = widen(from[d]);
    if (how.weight) x = x * factor * widen(how.weight[d]);
    to[d] = narrow<ELEMENT>(x);
  }
}

#ifdef ONLY_grouped_queries
// Queries (batch, rows, heads, D) at a pitch from row to row -> (batch, heads, rows, D). One warp a head.
extern "C" __global__ void grouped_queries(
    const ELEMENT *from, ELEMENT *to, Lengths lengths, Rotary how, int heads, int rows, long long pitch) {
  long long at = blockIdx.x * (long long)blockDim.y + threadIdx.y;
  if (at >= (long long)lengths.batch * rows * heads) return;
  int head = at % heads;
  long long query = at / heads;
  int row = query % rows, b = query / rows;
  turned_head(from + query * pitch + head * HEAD, to + (((long long)b * heads + head) * rows + row) * HEAD, how,
              start_of(lengths, b), row, query);
}
#endif

#ifdef ONLY_grouped_cache
// The present (batch, heads, length, D): rows of the past, then the new ones, then zeros. One warp a row.
extern "C" __global__ void grouped_cache(
    const ELEMENT *past, const ELEMENT *added, ELEMENT *present, Lengths lengths, Rotary how, int heads, int held,
    int rows, int length, long long pitch) {
  long long at = blockIdx.x * (long long)blockDim.y + threadIdx.y;
  if (at >= (long long)lengths.batch * heads * length) return;
  int row = at % length;
  long long which = at / length;
  int b = which / heads, head = which % heads, lane = threadIdx.x & 31;
  int start = rows ? start_of(lengths, b) : total_of(lengths, b);
  ELEMENT *to = present + at * HEAD;
  if (row >= start && row < start + rows) {
    long long query = (long long)b * rows + (row - start);
    turned_head(added + query * pitch + head * HEAD, to, how, start, row - start, query);
    return;
  }
  const ELEMENT *from = row < start ? past + (which * held + row) * HEAD : 0;
#if HEAD % FEW == 0
  typedef Pack<ELEMENT, FEW> Few;
  for (int d = lane; d < HEAD / FEW; d += 32) {
    Few few = {};
    if (from) few = ((const Few *)from)[d];
    ((Few *)to)[d] = few;
  }
#else
  for (int d = lane; d < HEAD; d += 32) to[d] = from ? from[d] : ELEMENT{};
#endif
}
#endif

#ifdef ONLY_grouped_pages
// New rows (batch, rows, heads, D) to the rows of a cache in pages that `slots` names, one an entry, counted as if pages
// were one; a slot that the cache does not have is none. One warp a head.
extern "C" __global__ void grouped_pages(
    const ELEMENT *added, ELEMENT *store, const int *slots, Lengths lengths, Rotary how, Places places, int heads,
    int rows, long long pitch) {
  long long at = blockIdx.x * (long long)blockDim.y + threadIdx.y;
  if (at >= (long long)lengths.batch * rows * heads) return;
  int head = at % heads;
  long long query = at / heads;
  int row = query % rows, b = query / rows, slot = slots[query];
  if (slot < 0 || slot / places.rows >= places.blocks) return;
  ELEMENT *to = store + slot / places.rows * places.page + head * places.head + slot % places.rows * places.row;
  turned_head(added + query * pitch + head * HEAD, to, how, start_of(lengths, b), row, query);
}
#endif

struct Scoring {
  const ELEMENT *bias, *sinks;
  long long bias_batch, bias_head, bias_row;
  int heads, group, window, causal, smooth, unused;
  float scale, softcap;
};
__device__ __forceinline__ float capped(float score, float softcap) {
  return softcap > 0.0f ? softcap * tanhf(score / softcap) : score;
}
// What a softmax's sum has besides its keys; -infinity for nothing.
__device__ __forceinline__ float sink_of(const Scoring &how, int head) {
  return how.sinks ? (float)widen(how.sinks[head]) : how.smooth ? 0.0f : -infinity(0.0f);
}
__device__ __forceinline__ float scaled(float x, float from, float to) {
  return from == -infinity(0.0f) ? 0.0f : x * expf(from - to);
}

#define NEAR 8                 // lanes that share a key
#define OWN (HEAD / NEAR)      // elements of a head that a lane has
#define KEYS (128 / NEAR)      // keys that a block looks at at once

#ifdef ONLY_grouped_decode
// One query a head against the cache, a part of it a block: keys and values are read once for QUERIES heads of a group.
// Each group of NEAR lanes has a softmax of its own as far as it came; they are joined at the end.
extern "C" __global__ void __launch_bounds__(128) grouped_decode(
    const ELEMENT *queries, const ELEMENT *keys, const ELEMENT *values, ELEMENT *y, float *parts, float *states,
    Lengths lengths, Scoring how, Places places) {
  int split = blockIdx.z, splits = gridDim.z, chunks = (how.group + QUERIES - 1) / QUERIES;
  int key_head = blockIdx.y / chunks, chunk = blockIdx.y % chunks, b = blockIdx.x;
  int lane = threadIdx.x % NEAR, own = threadIdx.x / NEAR, warp = threadIdx.x / 32;
  int total = total_of(lengths, b), low = how.window > 0 ? max(0, start_of(lengths, b) + 1 - how.window) : 0;
  long long token = token_of(places, b);
  int each = (total - low + splits - 1) / splits, begin = low + split * each, end = min(begin + each, total);
  int first = chunk * QUERIES;
  typedef Pack<ELEMENT, STEP> Few;
  float q[QUERIES][OWN], sums[QUERIES][OWN] = {}, most[QUERIES], weight[QUERIES];
#pragma unroll
  for (int g = 0; g < QUERIES; g++) {
    int head = key_head * how.group + min(first + g, how.group - 1);
    const ELEMENT *from = queries + (token * how.heads + head) * HEAD;
    most[g] = -infinity(0.0f), weight[g] = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; i++) q[g][i] = (float)widen(from[(i / STEP * NEAR + lane) * STEP + i % STEP]) * how.scale;
  }
  for (int base = begin; base < end; base += KEYS) {
    int key = min(base + own, end - 1);
    long long row = row_at(places, b, key_head, key);
    bool hidden = base + own >= end || row < 0;
    if (row < 0) row = 0;
    const Few *k = (const Few *)(keys + row), *v = (const Few *)(values + row);
    Few ks[OWN / STEP], vs[OWN / STEP];
#pragma unroll
    for (int i = 0; i < OWN / STEP; i++) ks[i] = k[i * NEAR + lane], vs[i] = v[i * NEAR + lane];
#pragma unroll
    for (int g = 0; g < QUERIES; g++) {
      float score = 0.0f;
#pragma unroll
      for (int i = 0; i < OWN; i++) score += q[g][i] * (float)widen(ks[i / STEP].v[i % STEP]);
#pragma unroll
      for (int step = NEAR / 2; step; step >>= 1) score += __shfl_xor_sync(0xffffffffu, score, step);
      score = capped(score, how.softcap);
      if (how.bias) {
        int head = key_head * how.group + min(first + g, how.group - 1);
        score += (float)widen(how.bias[b * how.bias_batch + head * how.bias_head + key]);
      }
      if (hidden) score = -infinity(0.0f);
      float now = fmaxf(most[g], score);
      float keep = scaled(1.0f, most[g], now), take = scaled(1.0f, score, now);
      most[g] = now;
      weight[g] = weight[g] * keep + take;
#pragma unroll
      for (int i = 0; i < OWN; i++)
        sums[g][i] = sums[g][i] * keep + (take > 0.0f ? take * (float)widen(vs[i / STEP].v[i % STEP]) : 0.0f);
    }
  }
  __shared__ float all[4][QUERIES][HEAD], tops[4][QUERIES], weights[4][QUERIES];
#pragma unroll
  for (int g = 0; g < QUERIES; g++) {
#pragma unroll
    for (int step = NEAR; step < 32; step <<= 1) {  // the groups of a warp
      float other = __shfl_xor_sync(0xffffffffu, most[g], step), theirs = __shfl_xor_sync(0xffffffffu, weight[g], step);
      float now = fmaxf(most[g], other), keep = scaled(1.0f, most[g], now), take = scaled(1.0f, other, now);
      weight[g] = weight[g] * keep + theirs * take;
      most[g] = now;
#pragma unroll
      for (int i = 0; i < OWN; i++)
        sums[g][i] = sums[g][i] * keep + __shfl_xor_sync(0xffffffffu, sums[g][i], step) * take;
    }
    if (threadIdx.x % 32 < NEAR) {
      tops[warp][g] = most[g], weights[warp][g] = weight[g];
#pragma unroll
      for (int i = 0; i < OWN; i++) all[warp][g][(i / STEP * NEAR + lane) * STEP + i % STEP] = sums[g][i];
    }
  }
  __syncthreads();
  for (int at = threadIdx.x; at < QUERIES * HEAD; at += blockDim.x) {
    int g = at / HEAD, d = at % HEAD;
    if (first + g >= how.group) continue;
    int head = key_head * how.group + first + g;
    float top = -infinity(0.0f), sum = 0.0f, total_weight = 0.0f;
    for (int w = 0; w < 4; w++) top = fmaxf(top, tops[w][g]);
    for (int w = 0; w < 4; w++) {
      float factor = scaled(1.0f, tops[w][g], top);
      sum += all[w][g][d] * factor;
      total_weight += weights[w][g] * factor;
    }
    long long which = (long long)b * how.heads + head, out = token * how.heads + head;
    if (splits > 1) {
      parts[(which * splits + split) * HEAD + d] = sum;
      if (d == 0) states[(which * splits + split) * 2] = top, states[(which * splits + split) * 2 + 1] = total_weight;
      continue;
    }
    float sink = sink_of(how, head), now = fmaxf(top, sink);
    total_weight = scaled(total_weight, top, now) + scaled(1.0f, sink, now);
    y[out * HEAD + d] = narrow<ELEMENT>(total_weight > 0.0f ? scaled(sum, top, now) / total_weight : 0.0f);
  }
}
#endif

#ifdef ONLY_grouped_combine
// The parts of `grouped_decode` put together. A block a head.
extern "C" __global__ void grouped_combine(
    const float *parts, const float *states, ELEMENT *y, Scoring how, Places places, int splits) {
  int head = blockIdx.y, b = blockIdx.x, d = threadIdx.x;
  long long which = (long long)b * how.heads + head, out = token_of(places, b) * how.heads + head;
  if (d >= HEAD) return;
  float top = sink_of(how, head);
  float sum = 0.0f, total = 0.0f;
  for (int i = 0; i < splits; i++) top = fmaxf(top, states[(which * splits + i) * 2]);
  for (int i = 0; i < splits; i++) {
    float factor = scaled(1.0f, states[(which * splits + i) * 2], top);
    sum += parts[(which * splits + i) * HEAD + d] * factor;
    total += states[(which * splits + i) * 2 + 1] * factor;
  }
  total += scaled(1.0f, sink_of(how, head), top);
  y[out * HEAD + d] = narrow<ELEMENT>(total > 0.0f ? sum / total : 0.0f);
}
#endif

#ifdef ONLY_grouped_probabilities
// Scores (batch, heads, rows, keys) of queries from `first` on -> probabilities, which may be in the same memory. A block
// a row.
extern "C" __global__ void grouped_probabilities(
    const float *scores, ELEMENT *y, Lengths lengths, Scoring how, int rows, int keys, int first) {
  long long at = blockIdx.x;
  int row = at % rows;
  long long which = at / rows;
  int head = which % how.heads, b = which / how.heads;
  int position = start_of(lengths, b) + first + row, end = total_of(lengths, b);
  if (how.causal) end = min(end, position + 1);
  int begin = how.window > 0 ? max(0, position + 1 - how.window) : 0;
  const float *from = scores + at * keys;
  const ELEMENT *bias =
      how.bias ? how.bias + b * how.bias_batch + head * how.bias_head + (first + row) * how.bias_row : 0;
  float most = sink_of(how, head);
  for (int j = begin + threadIdx.x; j < end; j += blockDim.x)
    most = fmaxf(most, capped(from[j], how.softcap) + (bias ? (float)widen(bias[j]) : 0.0f));
  most = reduce_row<Largest>(most, -infinity(0.0f));
  float sum = 0.0f;
  for (int j = begin + threadIdx.x; j < end; j += blockDim.x)
    sum += scaled(1.0f, capped(from[j], how.softcap) + (bias ? (float)widen(bias[j]) : 0.0f), most);
  sum = reduce_row<Add>(sum, 0.0f) + scaled(1.0f, sink_of(how, head), most);
  float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
  for (int j = threadIdx.x; j < keys; j += blockDim.x) {
    float p = 0.0f;
    if (j >= begin && j < end)
      p = scaled(factor, capped(from[j], how.softcap) + (bias ? (float)widen(bias[j]) : 0.0f), most);
    y[at * keys + j] = narrow<ELEMENT>(p);
  }
}
#endif
