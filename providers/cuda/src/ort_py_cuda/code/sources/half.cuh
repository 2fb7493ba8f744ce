// float16 and bfloat16 as their bits, and conversions: the one part that is written in the device's own instructions.
struct half_t { unsigned short bits; };
struct bfloat16_t { unsigned short bits; };

__device__ __forceinline__ float to_float(half_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

__device__ __forceinline__ half_t to_half(float x) {
  half_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

__device__ __forceinline__ half_t to_half(double x) {
  half_t y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
  return y;
}

__device__ __forceinline__ float to_float(bfloat16_t x) { return __uint_as_float((unsigned int)x.bits << 16); }

__device__ __forceinline__ bfloat16_t to_bfloat16(float x) {
  bfloat16_t y;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  // To nearest, ties to even; a NaN stays one.
  unsigned int bits = __float_as_uint(x);
  y.bits = (x != x) ? 0x7fff : (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
  return y;
}
