/* A chain of element-wise operators over arrays of float, block by block: what lies between two steps stays in the
 * first-level cache. Knows nothing of Python and calls nothing of it, so it may run without the interpreter's lock. */

#include <math.h>
#include <stdint.h>

enum { ADD, SUB, MUL, DIV, RELU, NEG, ABS, SQRT };

typedef struct { int32_t operation, first, second, result; } native_step;

typedef struct {
    const native_step *steps;
    int64_t step_count;
    float **values;                /* arrays of `elements`; NULL for what lives in a block of `scratch` */
    int64_t elements;
    float *scratch;
    const int32_t *scratch_places; /* which block, by value; numbers fill theirs before the first run */
} native_program;

#define BLOCK 1024
const int64_t native_block = BLOCK;

static float *at(const native_program *program, int32_t value, int64_t start)
{
    float *array = program->values[value];
    return array ? array + start : program->scratch + (int64_t)program->scratch_places[value] * BLOCK;
}

int native_run(void *context)
{
    const native_program *program = context;
    for (int64_t start = 0; start < program->elements; start += BLOCK) {
        int64_t left = program->elements - start, n = left < BLOCK ? left : BLOCK;
        for (int64_t index = 0; index < program->step_count; index++) {
            const native_step *step = program->steps + index;
            const float *a = at(program, step->first, start), *b = at(program, step->second, start);
            float *y = at(program, step->result, start);
            switch (step->operation) {
            case ADD: for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i]; break;
            case SUB: for (int64_t i = 0; i < n; i++) y[i] = a[i] - b[i]; break;
            case MUL: for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i]; break;
            case DIV: for (int64_t i = 0; i < n; i++) y[i] = a[i] / b[i]; break;
            case RELU: for (int64_t i = 0; i < n; i++) y[i] = a[i] < 0 ? 0 : a[i]; break; /* NaN stays NaN */
            case NEG: for (int64_t i = 0; i < n; i++) y[i] = -a[i]; break;
            case ABS: for (int64_t i = 0; i < n; i++) y[i] = fabsf(a[i]); break;
            case SQRT: for (int64_t i = 0; i < n; i++) y[i] = sqrtf(a[i]); break;
            default: return 1;
            }
        }
    }
    return 0;
}
