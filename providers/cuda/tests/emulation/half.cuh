// In place of the device's instructions: float16 and bfloat16 in integer arithmetic, to nearest, ties to even.
struct half_t { unsigned short bits; };
struct bfloat16_t { unsigned short bits; };

inline float to_float(half_t x) {
  int exponent = (x.bits >> 10) & 31, fraction = x.bits & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
  return (float)(x.bits & 0x8000 ? -value : value);
}

inline half_t to_half(double x) {
  unsigned short sign = signbit(x) ? 0x8000 : 0;
  if (x != x) return {(unsigned short)(sign | 0x7e00)};
  double size = fabs(x);
  if (size >= 65520.0) return {(unsigned short)(sign | 0x7c00)};
  int exponent = 0;
  frexp(size, &exponent);
  int shift = exponent - 11 < -24 ? -24 : exponent - 11;
  unsigned int steps = (unsigned int)nearbyint(ldexp(size, -shift));  // 1024 to 2048, or fewer below the normal ones
  if (steps < 1024 || size == 0) return {(unsigned short)(sign | steps)};
  return {(unsigned short)(sign | (((shift + 25) << 10) + (steps - 1024)))};
}
inline half_t to_half(float x) { return to_half((double)x); }

inline float to_float(bfloat16_t x) { return __uint_as_float((unsigned int)x.bits << 16); }
inline bfloat16_t to_bfloat16(float x) {
  unsigned int bits = __float_as_uint(x);
  if (x != x) return {0x7fff};
  return {(unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
