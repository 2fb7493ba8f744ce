/* The complex functions of the C library, which Wine 8 exports without a body and NumPy imports.
 * On Windows a complex number is passed as a structure, and a long double is a double. */
#include <complex.h>

typedef struct { double re, im; } pair;
typedef struct { float re, im; } small_pair;

static double complex read(pair v) { return __builtin_complex(v.re, v.im); }
static float complex read_small(small_pair v) { return __builtin_complex(v.re, v.im); }
static pair written(double complex z) { return (pair){creal(z), cimag(z)}; }
static small_pair written_small(float complex z) { return (small_pair){crealf(z), cimagf(z)}; }

#define TO_COMPLEX(name) \
    pair own_##name(pair v) { return written(name(read(v))); } \
    pair own_##name##l(pair v) { return written(name(read(v))); } \
    small_pair own_##name##f(small_pair v) { return written_small(name##f(read_small(v))); }
#define TO_REAL(name) \
    double own_##name(pair v) { return name(read(v)); } \
    double own_##name##l(pair v) { return name(read(v)); } \
    float own_##name##f(small_pair v) { return name##f(read_small(v)); }

TO_COMPLEX(ccos)
TO_COMPLEX(ccosh)
TO_COMPLEX(cexp)
TO_COMPLEX(csin)
TO_COMPLEX(csinh)
TO_COMPLEX(ctan)
TO_COMPLEX(ctanh)
TO_REAL(cabs)
TO_REAL(carg)
TO_REAL(cimag)
TO_REAL(creal)

pair own_cpow(pair a, pair b) { return written(cpow(read(a), read(b))); }
pair own_cpowl(pair a, pair b) { return own_cpow(a, b); }
small_pair own_cpowf(small_pair a, small_pair b) { return written_small(cpowf(read_small(a), read_small(b))); }
