// Rotary embedding: pairs of elements of a head turned by the angle of their position, the rest copied.
struct Turned {
  int64 batch, length, heads, size, half;
  int64 x_batch, x_length, x_head;  // strides of the input, in elements; heads are contiguous
  int64 y_batch, y_length, y_head;
  int64 rows;                       // of the caches; of caches without positions, `batch or 1` times `length`
  int64 position_batch;             // stride of the positions' batches, 0 where all share them
  int64 site;
};

enum { NO_POSITIONS = 0, EACH = 1, FIRST = 2 };  // how positions are given

template <typename T, typename P, int POSITIONS, bool NEIGHBOURS>
__device__ __forceinline__ void rotate(
    const T *x, const T *cosines, const T *sines, const P *positions, T *y, const Turned &t, Fault *fault) {
  typedef typename Computed<T>::type C;
  int64 per_head = t.half + (t.size - 2 * t.half);  // a pair is one piece of work, and so is a copied element
  int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= t.batch * t.length * t.heads * per_head) return;
  int64 piece = at % per_head;
  int64 head = at / per_head % t.heads;
  int64 place = at / (per_head * t.heads) % t.length;
  int64 entry = at / (per_head * t.heads * t.length);
  x += entry * t.x_batch + place * t.x_length + head * t.x_head;
  y += entry * t.y_batch + place * t.y_length + head * t.y_head;
  if (piece >= t.half) {
    int64 element = piece + t.half;
    y[element] = x[element];
    return;
  }
  int64 row;
  if (POSITIONS == NO_POSITIONS) {
    row = entry * t.position_batch + place;
  } else {
    row = POSITIONS == EACH ? (int64)positions[entry * t.position_batch + place] : (int64)positions[0] + place;
    if (row < 0 || row >= t.rows) {
      report(fault, t.site, row, t.rows);
      return;
    }
  }
  C c = widen(cosines[row * t.half + piece]), s = widen(sines[row * t.half + piece]);
  int64 first = NEIGHBOURS ? 2 * piece : piece, second = NEIGHBOURS ? 2 * piece + 1 : piece + t.half;
  C a = widen(x[first]), b = widen(x[second]);
  y[first] = narrow<T>(a * c - b * s);
  y[second] = narrow<T>(b * c + a * s);
}
