// Operators of one element, as ONNX defines them. Arguments are of the type to compute in.
// Integers wrap around, as in NumPy: sums and products are formed of unsigned numbers, whose overflow is defined.
template <typename T> struct Wrapping { typedef T type; };
template <> struct Wrapping<int32> { typedef uint32 type; };
template <> struct Wrapping<int64> { typedef uint64 type; };
template <> struct Wrapping<uint16> { typedef uint32 type; };

template <typename T> struct IsFloat { static const bool value = false; };
template <> struct IsFloat<float> { static const bool value = true; };
template <> struct IsFloat<double> { static const bool value = true; };

template <typename T> __device__ __forceinline__ T add(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return (T)((W)a + (W)b);
}
template <typename T> __device__ __forceinline__ T subtract(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return (T)((W)a - (W)b);
}
template <typename T> __device__ __forceinline__ T multiply(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return (T)((W)a * (W)b);
}
template <typename T> __device__ __forceinline__ T negative(T a) {
  if (IsFloat<T>::value) return -a;  // of 0 it is -0
  return subtract(T(0), a);
}

// The quotient of integers, cut toward zero; the least number by -1 wraps around, a zero divisor is reported.
template <typename T> __device__ __forceinline__ T quotient(T a, T b, Fault *fault, int64 site) {
  if (b == T(0)) {
    report(fault, site, (int64)a, 0);
    return T(0);
  }
  if (T(-1) < T(0) && b == T(-1)) return negative(a);
  return a / b;
}
// What is left of that, with the sign of the dividend; or of the divisor.
template <typename T> __device__ __forceinline__ T rest(T a, T b, Fault *fault, int64 site) {
  if (b == T(0)) {
    report(fault, site, (int64)a, 0);
    return T(0);
  }
  if (T(-1) < T(0) && b == T(-1)) return T(0);
  return a % b;
}
template <typename T> __device__ __forceinline__ T modulo(T a, T b, Fault *fault, int64 site) {
  T left = rest(a, b, fault, site);
  return (left != T(0) && ((left < T(0)) != (b < T(0)))) ? (T)(left + b) : left;
}
template <typename T> __device__ __forceinline__ T float_modulo(T a, T b) {
  T left = fmod(a, b);
  if (left == T(0)) return copysign(T(0), b);
  return ((left < T(0)) != (b < T(0))) ? left + b : left;
}

// An integer power; a negative one is 1 of 1, alternates of -1, and is 0 of all others.
template <typename T, typename E> __device__ __forceinline__ T integer_power(T base, E exponent) {
  if (exponent < E(0)) {
    if (base == T(1)) return T(1);
    if (T(-1) < T(0) && base == T(-1)) return (exponent & E(1)) ? T(-1) : T(1);
    return T(0);
  }
  T result = T(1);
  while (exponent) {
    if (exponent & E(1)) result = multiply(result, base);
    base = multiply(base, base);
    exponent >>= 1;
  }
  return result;
}

// A NaN on either side is the result.
template <typename T> __device__ __forceinline__ T maximum(T a, T b) { return (a != a || a > b) ? a : b; }
template <typename T> __device__ __forceinline__ T minimum(T a, T b) { return (a != a || a < b) ? a : b; }

template <typename T> __device__ __forceinline__ T absolute(T a) { return a < T(0) ? negative(a) : a; }
__device__ __forceinline__ float absolute(float a) { return fabsf(a); }
__device__ __forceinline__ double absolute(double a) { return fabs(a); }
template <typename T> __device__ __forceinline__ T sign(T a) {
  return a > T(0) ? T(1) : a < T(0) ? negative(T(1)) : a;  // a NaN stays
}

template <typename T> __device__ __forceinline__ bool is_infinite(T a, bool negative_too, bool positive_too) {
  return (positive_too && a == infinity(a)) || (negative_too && a == -infinity(a));
}

// Shifts by as many bits as there are, or more, leave nothing but a sign.
template <typename T> __device__ __forceinline__ T shift_left(T a, T by) {
  typedef typename Wrapping<T>::type W;
  return by < T(0) || by >= T(8 * sizeof(T)) ? T(0) : (T)((W)a << by);
}
template <typename T> __device__ __forceinline__ T shift_right(T a, T by) {
  if (by < T(0) || by >= T(8 * sizeof(T))) return a < T(0) ? (T)-1 : T(0);
  return (T)(a >> by);
}

template <typename T> __device__ __forceinline__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <typename T> __device__ __forceinline__ T softplus(T x) {
  return maximum(x, T(0)) + log1p(exp(-absolute(x)));
}
template <typename T> __device__ __forceinline__ T elu(T x, T alpha) {
  return x > T(0) ? x : alpha * expm1(x);
}
template <typename T> __device__ __forceinline__ T celu(T x, T alpha) {
  return maximum(x, T(0)) + minimum(alpha * expm1(x / alpha), T(0));
}
template <typename T> __device__ __forceinline__ T hard_sigmoid(T x, T alpha, T beta) {
  return minimum(maximum(alpha * x + beta, T(0)), T(1));
}
template <typename T> __device__ __forceinline__ T mish(T x) { return x * tanh(softplus(x)); }
template <typename T> __device__ __forceinline__ T gelu(T x) {
  return x * T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
}
template <typename T> __device__ __forceinline__ T gelu_tanh(T x) {
  return x * T(0.5) * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}
template <typename T> __device__ __forceinline__ T shrink(T x, T bias, T bound) {
  return x < -bound ? x + bias : x > bound ? x - bias : T(0);
}
