// Element types, the type each is computed in, loads of 16 bytes, and what several threads share.
typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef int int32;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;

// The type to compute in, and conversions to it and back.
template <typename T> struct Computed { typedef T type; };
template <> struct Computed<half_t> { typedef float type; };
template <> struct Computed<bfloat16_t> { typedef float type; };

template <typename T> __device__ __forceinline__ T widen(T x) { return x; }
__device__ __forceinline__ float widen(half_t x) { return to_float(x); }
__device__ __forceinline__ float widen(bfloat16_t x) { return to_float(x); }

template <typename T> struct Narrow {
  template <typename S> static __device__ __forceinline__ T from(S x) { return (T)x; }
};
template <> struct Narrow<half_t> {
  static __device__ __forceinline__ half_t from(float x) { return to_half(x); }
};
template <> struct Narrow<bfloat16_t> {
  static __device__ __forceinline__ bfloat16_t from(float x) { return to_bfloat16(x); }
};
template <typename T, typename S> __device__ __forceinline__ T narrow(S x) { return Narrow<T>::from(x); }

// N neighbours that are read and written at once; at most 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

template <typename T> __device__ __forceinline__ T zero_of() { return T(); }
__device__ __forceinline__ float infinity(float) { return __int_as_float(0x7f800000); }
__device__ __forceinline__ double infinity(double) { return __longlong_as_double(0x7ff0000000000000LL); }

// What a kernel found wrong in its data, in memory that the host reads once the stream is done: see `faults`.
struct Fault {
  int64 raised;
  int64 site;
  int64 value;
  int64 bound;
};

__device__ __noinline__ void report(Fault *fault, int64 site, int64 value, int64 bound) {
  volatile Fault *seen = fault;
  if (seen->raised) return;  // the first one counts; two at once may both write, and both are true
  seen->site = site;
  seen->value = value;
  seen->bound = bound;
  __threadfence_system();
  seen->raised = 1;
}

// An index counted from the front; where it is outside [-size, size) it is reported, and the answer is -1.
__device__ __forceinline__ int64 checked_index(int64 index, int64 size, Fault *fault, int64 site) {
  int64 found = index < 0 ? index + size : index;
  if (found < 0 || found >= size) {
    report(fault, site, index, size);
    return -1;
  }
  return found;
}
