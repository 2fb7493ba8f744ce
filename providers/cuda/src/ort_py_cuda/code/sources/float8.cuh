// Numbers as float8: to the nearest one, ties to even, what is too large to the largest; a NaN stays one.
//
// MANTISSA bits behind the point, LARGEST the byte of the largest number: 3 and 0x7e for e4m3fn, 2 and 0x7b for e5m2.
// SOURCE is what is read and WIDTH how many at once; ROUNDED is the type in which a quotient is a number of the model's.
const int BIAS = (1 << (6 - MANTISSA)) - 1;

__device__ __forceinline__ uint8 to_float8(float x) {
  unsigned int bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (uint8)(sign | 0x7fu);
  const unsigned int behind = 23 - MANTISSA, largest = ((unsigned int)LARGEST << behind) + ((127u - BIAS) << 23);
  if (size >= largest) return (uint8)(sign | LARGEST);
  const unsigned int least_normal = (unsigned int)(128 - BIAS) << 23;
  if (size < least_normal) {
    // Whole multiples of the least number, 2^(1 - BIAS - MANTISSA); the one after the last of them is normal.
    float steps = __uint_as_float(size) * (float)(1u << (BIAS - 1 + MANTISSA));
    return (uint8)(sign | (unsigned int)rintf(steps));
  }
  size += (1u << (behind - 1)) - 1u + ((size >> behind) & 1u);
  return (uint8)(sign | ((size >> behind) - ((unsigned int)(127 - BIAS) << MANTISSA)));
}

// Rows of x over a scale, filled up with zeros from k to `pitch`, which whole packs make up. One thread a pack.
extern "C" __global__ void float8_rows(const SOURCE *x, uint8 *packed, const float *scale, int64 packs, int k, int pitch) {
  const float by = *scale;
  const int a_row = pitch / WIDTH;
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < packs; i += (int64)gridDim.x * blockDim.x) {
    int64 row = i / a_row;
    int first = (int)(i - row * a_row) * WIDTH;
    Pack<SOURCE, WIDTH> given;
#if ALIGNED
    if (first < k) given = *(const Pack<SOURCE, WIDTH> *)(x + row * k + first);
#else
    for (int j = 0; j < WIDTH; ++j)
      if (first + j < k) given.v[j] = x[row * k + first + j];
#endif
    Pack<uint8, WIDTH> made;
    for (int j = 0; j < WIDTH; ++j)
      made.v[j] = first + j < k ? to_float8(widen(narrow<ROUNDED>(widen(given.v[j]) / by))) : (uint8)0;
    *(Pack<uint8, WIDTH> *)(packed + row * pitch + first) = made;
  }
}
