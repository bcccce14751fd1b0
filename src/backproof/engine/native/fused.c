/* A run of elementwise operations and sums along rows, a block of numbers at a time: each value in float64 with one bound, which is
 * never more than the likely one (`fused.py` says what is computed; what is within such a bound holds). Nothing is held but blocks.
 *
 * What is doubtful here (overflow, operands that are not numbers) gives bounds that are too small, or are not numbers, and so is left
 * to the whole analysis. Operations are not fused or reordered by the compiler; every machine computes the same. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 512

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#define INSIDE static inline __attribute__((always_inline)) /* else it would be there for the default machine alone */
#else
#define WIDE
#define INSIDE static inline
#endif

enum { FLOAT64, FLOAT32, INT64, INT32, BOOL };

enum {
    LOAD, CONSTANT, SPREAD, SCATTER,
    ADD, SUB, MUL, DIV, NEG, ABS, RELU, MAXIMUM, MINIMUM, EXP, LOG, TANH, SIGMOID, SQRT, RSQRT, WHERE,
    EQ, NE, LT, LE, GT, GE,
    TOTAL, LARGEST, LEAST, LSE_TOP, LSE_SUM
};

typedef struct {
    const char *base;
    const int64_t *rows; /* bytes from the base to each row; none if there is but one place for all */
    int64_t step;        /* bytes from a column to the next */
    int64_t kind;
} input;

typedef struct {
    int32_t op, to, a, b, c; /* registers; of LOAD the inputs of values and of bounds */
    int32_t known;           /* bits: operands without a bound */
    double unit, under, x, y;
} instruction;

typedef struct {
    const instruction *code;
    const int32_t *ends; /* of stages: a row's beginning, then a pass over its columns and what follows it, in turn */
    int64_t stages, registers, rows, columns;
    int64_t result, sink; /* a register, and one of: */
} program;

enum { FULL, ROW, COLUMN };

/* ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────── */

INSIDE double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INSIDE uint64_t to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e to the x: a Taylor polynomial where |r| is at most ln 2 / 2, within 2^-50; 0 where the result is no normal number. */
INSIDE double exponential(double x) {
    const double magic = 0x1.8p52;
    double inside = x < -708.0 ? -708.0 : x;
    inside = inside > 709.0 ? 709.0 : inside;
    double shifted = inside * 0x1.71547652b82fep0 + magic;
    double n = shifted - magic;
    double r = (inside - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    double y = p * from_bits((to_bits(shifted) + 1023) << 52);
    return y * (x < -708.0 ? 0.0 : 1.0) + (x > 709.0 ? INFINITY : 0.0);
}

INSIDE double tangent(double x) {
    double size = fabs(x), s = x * x;
    double p = -1382.0 / 155925.0;
    p = p * s + 62.0 / 2835.0;
    p = p * s - 17.0 / 315.0;
    p = p * s + 2.0 / 15.0;
    p = p * s - 1.0 / 3.0;
    double near = size + size * s * p;
    double far = 1.0 - 2.0 / (exponential(2.0 * size) + 1.0);
    return copysign(size < 0.03 ? near : far, x);
}

INSIDE double logistic(double x) {
    double decay = exponential(-fabs(x));
    return (x >= 0 ? 1.0 : decay) / (1.0 + decay);
}

/* The derivative of the logistic function; that of tanh at x is four times this at 2x. */
INSIDE double slope(double x) {
    double decay = exponential(-fabs(x));
    return decay / ((1.0 + decay) * (1.0 + decay));
}

/* ── one instruction over a block ─────────────────────────────────────────────────────────────────────────────────── */

#define EACH for (int64_t i = 0; i < n; i++)

INSIDE void load(const input *from, int64_t row, int64_t column, int64_t n, double *restrict to) {
    const char *at = from->base + (from->rows ? from->rows[row] : 0) + column * from->step;
    const int64_t step = from->step;
    switch (from->kind) {
    case FLOAT32:
        if (step == sizeof(float)) EACH to[i] = ((const float *)at)[i];
        else EACH to[i] = *(const float *)(at + i * step);
        break;
    case FLOAT64:
        if (step == sizeof(double)) memcpy(to, at, (size_t)n * sizeof(double));
        else EACH to[i] = *(const double *)(at + i * step);
        break;
    case INT64: EACH to[i] = (double)*(const int64_t *)(at + i * step); break;
    case INT32: EACH to[i] = (double)*(const int32_t *)(at + i * step); break;
    case BOOL: EACH to[i] = *(const uint8_t *)(at + i * step) ? 1.0 : 0.0; break;
    }
}

/* The bound of a result once it is rounded. */
INSIDE void rounded(const double *restrict y, double *restrict e, int64_t n, double unit, double under) {
    EACH e[i] += (fabs(y[i]) + e[i]) * unit + under;
}

INSIDE double sum_of(const double *restrict x, int64_t n) {
    double part[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++) part[j] += x[i + j];
    for (; i < n; i++) part[0] += x[i];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

INSIDE double size_of(const double *restrict x, int64_t n) {
    double part[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++) part[j] += fabs(x[i + j]);
    for (; i < n; i++) part[0] += fabs(x[i]);
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

INSIDE int are_whole(const double *restrict x, int64_t n) {
    int64_t other = 0;
    EACH other += !(x[i] - rint(x[i]) == 0.0);
    return !other;
}

/* The largest of a block, if none is not a number. */
INSIDE double largest_of(const double *restrict x, int64_t n) {
    double part[8];
    for (int64_t j = 0; j < 8; j++) part[j] = -INFINITY;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++) part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
    for (; i < n; i++) part[0] = x[i] > part[0] ? x[i] : part[0];
    for (int64_t j = 1; j < 8; j++) part[0] = part[j] > part[0] ? part[j] : part[0];
    return part[0];
}

/* What a reduction has gathered of a row so far is kept in its register: the result, and beside it what the bound is made of. */
enum { HELD = 4 };

INSIDE void step(const instruction *in, double *const *value, double *const *bound, int64_t n) {
    double *restrict y = value[in->to], *restrict e = bound[in->to];
    const double *restrict a = value[in->a], *restrict ea = bound[in->a];
    const double *restrict b = value[in->b], *restrict eb = bound[in->b];
    const double *c = value[in->c];
    const int exact = (in->known & 3) == 3;
    switch (in->op) {
    case SPREAD:
        EACH y[i] = a[0];
        EACH e[i] = ea[0];
        return;
    case ADD:
        EACH y[i] = a[i] + b[i];
        if (!exact) EACH e[i] = ea[i] + eb[i];
        break;
    case SUB:
        EACH y[i] = a[i] - b[i];
        if (!exact) EACH e[i] = ea[i] + eb[i];
        break;
    case MUL:
        EACH y[i] = a[i] * b[i];
        if (!exact) EACH e[i] = fabs(b[i]) * ea[i] + fabs(a[i]) * eb[i] + ea[i] * eb[i];
        break;
    case DIV:
        EACH y[i] = a[i] / b[i];
        if (!exact) EACH {
            double room = fabs(b[i]) - eb[i], top = ea[i] + fabs(y[i]) * eb[i];
            e[i] = room > 0 ? top / room : NAN;
        }
        break;
    case NEG:
        EACH y[i] = -a[i];
        EACH e[i] = ea[i];
        return;
    case ABS:
        EACH y[i] = fabs(a[i]);
        EACH e[i] = ea[i];
        return;
    case RELU:
        EACH y[i] = a[i] > 0 ? a[i] : a[i] == a[i] ? 0.0 : a[i];
        EACH e[i] = a[i] <= -ea[i] ? 0.0 : ea[i];
        return;
    case MAXIMUM:
        EACH y[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];
        EACH e[i] = ea[i] > eb[i] ? ea[i] : eb[i];
        return;
    case MINIMUM:
        EACH y[i] = a[i] < b[i] || a[i] != a[i] ? a[i] : b[i];
        EACH e[i] = ea[i] > eb[i] ? ea[i] : eb[i];
        return;
    case WHERE:
        EACH y[i] = c[i] != 0 ? a[i] : b[i];
        EACH e[i] = c[i] != 0 ? ea[i] : eb[i];
        return;
    case EXP: /* exp(e) - 1 is at least e + e²/2 */
        EACH y[i] = exponential(a[i]);
        if (!exact) EACH e[i] = y[i] * (ea[i] + 0.5 * ea[i] * ea[i]);
        break;
    case LOG: /* -log(1 - e/a) is at least e/a */
        EACH y[i] = log(a[i]);
        if (!exact) EACH e[i] = ea[i] / a[i];
        break;
    case TANH: /* the slope is steeper nearer to 0 */
        EACH y[i] = tangent(a[i]);
        if (!exact) EACH e[i] = ea[i] * 4.0 * slope(2.0 * a[i]);
        break;
    case SIGMOID:
        EACH y[i] = logistic(a[i]);
        if (!exact) EACH e[i] = ea[i] * slope(a[i]);
        break;
    case SQRT: /* below a the slope is steeper */
        EACH y[i] = sqrt(a[i]);
        if (!exact) EACH e[i] = ea[i] == 0 ? 0.0 : ea[i] / (2.0 * y[i]);
        break;
    case RSQRT:
        EACH y[i] = 1.0 / sqrt(a[i]);
        if (!exact) EACH e[i] = ea[i] == 0 ? 0.0 : ea[i] * y[i] / (2.0 * a[i]);
        break;
    case EQ: EACH y[i] = a[i] == b[i]; goto decided;
    case NE: EACH y[i] = a[i] != b[i]; goto decided;
    case LT: EACH y[i] = a[i] < b[i]; goto decided;
    case LE: EACH y[i] = a[i] <= b[i]; goto decided;
    case GT: EACH y[i] = a[i] > b[i]; goto decided;
    case GE: EACH y[i] = a[i] >= b[i]; goto decided;
    decided:
        EACH e[i] = 0.0;
        return;
    }
    if (exact) EACH e[i] = y[i] == 0 ? 0.0 : fabs(y[i]) * in->unit + in->under; /* what is 0 is rounded to 0 */
    else rounded(y, e, n, in->unit, in->under);
}

/* A part of a row joins what is gathered: sums in y[0]; in y[1] of bounds, in y[2] of sizes, in y[3] whether a number was not whole. */
INSIDE void gather(const instruction *in, double *const *value, double *const *bound, int64_t column, int64_t n) {
    double *restrict y = value[in->to];
    const double *restrict a = value[in->a], *restrict ea = bound[in->a];
    switch (in->op) {
    case TOTAL:
        y[0] += sum_of(a, n);
        y[2] += size_of(a, n);
        y[3] += !are_whole(a, n);
        if (!(in->known & 1)) y[1] += sum_of(ea, n);
        return;
    case LARGEST:
    case LEAST: {
        /* The bound is that of the number itself, or of the first of equals. */
        int64_t best = -1;
        double top = column ? y[0] : in->op == LARGEST ? -INFINITY : INFINITY;
        EACH if (in->op == LARGEST ? a[i] > top : a[i] < top) {
            top = a[i];
            best = i;
        }
        int64_t lost = 0;
        EACH lost += a[i] != a[i];
        if (column == 0) y[1] = ea[0];
        if (best >= 0) y[1] = ea[best];
        y[0] = lost ? NAN : top;
        return;
    }
    case LSE_TOP: { /* the largest number, and the widest bound */
        double top = largest_of(a, n), wide = in->known & 1 ? 0.0 : largest_of(ea, n);
        y[0] = column && y[0] > top ? y[0] : top;
        y[1] = column && y[1] > wide ? y[1] : wide;
        return;
    }
    case LSE_SUM: { /* of exp(a - top), and of what may be off in each: b has the top and the width */
        const double *restrict top = value[in->b];
        double *restrict weight = bound[in->c], *restrict each = value[in->c];
        const double middle = top[0], width = 2.0 * top[1], unit = in->unit, ulps = in->x;
        EACH weight[i] = exponential(a[i] - middle);
        EACH each[i] = weight[i] * (unit * (fabs(a[i] - middle) + width) + ulps);
        y[0] += sum_of(weight, n);
        y[1] += sum_of(each, n);
        return;
    }
    }
}

/* A row has ended: what was gathered becomes a number with its bound. */
INSIDE void settle(const instruction *in, double *const *value, double *const *bound) {
    double *y = value[in->to], *e = bound[in->to];
    switch (in->op) {
    case TOTAL: { /* `x` is what the roundings of a sum may make of its sizes; `y` how large whole numbers may be */
        int whole = y[1] == 0 && y[3] == 0 && y[2] <= in->y;
        e[0] = whole ? 0.0 : y[1] + in->x * (y[2] + y[1]) + in->under;
        if (!whole && in->unit > 0) e[0] += (fabs(y[0]) + e[0]) * in->unit;
        return;
    }
    case LARGEST:
    case LEAST: e[0] = in->known & 1 ? 0.0 : y[1]; return;
    case LSE_TOP: e[0] = 0.0; return;
    case LSE_SUM: { /* the logarithm is within 8 units, which is LOG_ULPS */
        const double *top = value[in->b];
        double total = y[0], off = top[1] <= 1 ? top[1] : NAN, relative = y[1] / total + in->y;
        double size = log(total), logarithm = relative + 8.0 * in->unit * (size + relative);
        y[0] = size + top[0];
        e[0] = off + logarithm + in->unit * (fabs(y[0]) + off + logarithm) + in->under;
        return;
    }
    }
}

INSIDE int gathers(int32_t op) { return op >= TOTAL; }

/* Run a program over all rows. `space` has 2·registers·BLOCK numbers; v and e are where the result goes; of sums
 * over rows, e also gets the sizes, and how many numbers were not whole. */
WIDE void backproof_fused(const program *p, const input *inputs, double *space, double *v, double *e) {
    double *value[256], *bound[256];
    for (int64_t r = 0; r < p->registers; r++) {
        value[r] = space + 2 * r * BLOCK;
        bound[r] = value[r] + BLOCK;
    }
    memset(space, 0, (size_t)(2 * p->registers * BLOCK) * sizeof(double));
    if (p->sink == COLUMN) {
        memset(v, 0, (size_t)(p->columns) * sizeof(double));
        memset(e, 0, (size_t)(3 * p->columns) * sizeof(double));
    }
    for (int64_t row = 0; row < p->rows; row++) {
        int32_t begin = 0;
        for (int64_t stage = 0; stage < p->stages; stage++) {
            const int32_t end = p->ends[stage];
            const int over = stage & 1; /* over the columns, or of one number a row */
            for (int32_t at = begin; at < end; at++) {
                const instruction *in = p->code + at;
                if (over && gathers(in->op)) memset(value[in->to], 0, HELD * sizeof(double));
                if (!over && gathers(in->op)) settle(in, value, bound);
                else if (!over && in->op == CONSTANT) {
                    if (row == 0)
                        for (int64_t i = 0; i < BLOCK; i++) {
                            value[in->to][i] = in->x;
                            bound[in->to][i] = in->y;
                        }
                } else if (!over && in->op == LOAD) {
                    load(inputs + in->a, row, 0, 1, value[in->to]);
                    if (in->b >= 0) load(inputs + in->b, row, 0, 1, bound[in->to]);
                } else if (!over) step(in, value, bound, 1);
            }
            for (int64_t column = 0; over && column < p->columns; column += BLOCK) {
                const int64_t left = p->columns - column, n = left < BLOCK ? left : BLOCK;
                for (int32_t at = begin; at < end; at++) {
                    const instruction *in = p->code + at;
                    if (gathers(in->op)) gather(in, value, bound, column, n);
                    else if (in->op == LOAD) {
                        load(inputs + in->a, row, column, n, value[in->to]);
                        if (in->b >= 0) load(inputs + in->b, row, column, n, bound[in->to]);
                        else memset(bound[in->to], 0, (size_t)n * sizeof(double));
                    } else if (in->op == SCATTER) {
                        memset(value[in->to], 0, (size_t)n * sizeof(double));
                        memset(bound[in->to], 0, (size_t)n * sizeof(double));
                        const double place = value[in->a][0] - (double)column;
                        if (place >= 0 && place < (double)n) {
                            value[in->to][(int64_t)place] = value[in->b][0];
                            bound[in->to][(int64_t)place] = bound[in->b][0];
                        }
                    } else step(in, value, bound, n);
                }
                if (stage != p->stages - 1) continue;
                const double *from = value[p->result], *off = bound[p->result];
                if (p->sink == FULL) {
                    memcpy(v + row * p->columns + column, from, (size_t)n * sizeof(double));
                    memcpy(e + row * p->columns + column, off, (size_t)n * sizeof(double));
                } else if (p->sink == COLUMN) {
                    EACH v[column + i] += from[i];
                    EACH e[column + i] += off[i];
                    double *sizes = e + p->columns, *parts = sizes + p->columns;
                    EACH sizes[column + i] += fabs(from[i]);
                    EACH parts[column + i] += !(from[i] - rint(from[i]) == 0.0);
                }
            }
            begin = end;
        }
        if (p->sink == ROW) {
            v[row] = value[p->result][0];
            e[row] = bound[p->result][0];
        }
    }
}

/* A bound from below of sums y: factor times the larger of |y| and of the sizes of some of the terms, which float32 may have made larger
 * by `lost` and in proportion. */
WIDE void backproof_floor(const double *restrict y, const float *restrict sizes, double *restrict e, int64_t n, double shrink,
                          double lost, double factor, double under) {
    EACH {
        double size = (double)sizes[i] * shrink - lost, least = fabs(y[i]);
        e[i] = (size > least ? size : least) * factor + under;
    }
}

/* ── what is claimed against what was derived ─────────────────────────────────────────────────────────────────────── */

typedef struct {
    double ratio, norm, lean;
    int64_t at;
} measure;

/* The largest |claim - v| / e, where, and what the slope is made of. Without e, any difference is infinitely large. */
#define MEASURE(name, type)                                                                                            \
    WIDE void name(const type *restrict claims, const double *restrict v, const double *restrict e, int64_t size,      \
                   measure *found) {                                                                                   \
        double ratio[BLOCK], norm[8] = {0}, lean[8] = {0};                                                             \
        found->ratio = -1.0;                                                                                           \
        found->at = 0;                                                                                                 \
        for (int64_t begin = 0; begin < size; begin += BLOCK) {                                                        \
            const int64_t n = size - begin < BLOCK ? size - begin : BLOCK;                                             \
            int64_t i = 0;                                                                                             \
            for (; i + 8 <= n; i += 8)                                                                                 \
                for (int64_t j = 0; j < 8; j++) {                                                                      \
                    double y = v[begin + i + j], off = (double)claims[begin + i + j] - y;                              \
                    norm[j] += y * y;                                                                                  \
                    lean[j] += off * y;                                                                                \
                }                                                                                                      \
            for (; i < n; i++) {                                                                                       \
                double y = v[begin + i], off = (double)claims[begin + i] - y;                                          \
                norm[0] += y * y;                                                                                      \
                lean[0] += off * y;                                                                                    \
            }                                                                                                          \
            for (i = 0; i < n; i++) {                                                                                  \
                double gap = fabs((double)claims[begin + i] - v[begin + i]), bound = e ? e[begin + i] : 0.0;           \
                double r = gap / bound;                                                                                \
                r = gap == 0 ? 0.0 : r;                                                                                \
                ratio[i] = r <= 1.7976931348623157e308 && bound <= 1.7976931348623157e308 ? r : INFINITY;              \
            }                                                                                                          \
            double top = largest_of(ratio, n);                                                                         \
            if (top > found->ratio) {                                                                                  \
                found->ratio = top;                                                                                    \
                for (i = 0; i < n && ratio[i] != top; i++) {                                                           \
                }                                                                                                      \
                found->at = begin + i;                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        found->norm = ((norm[0] + norm[1]) + (norm[2] + norm[3])) + ((norm[4] + norm[5]) + (norm[6] + norm[7]));       \
        found->lean = ((lean[0] + lean[1]) + (lean[2] + lean[3])) + ((lean[4] + lean[5]) + (lean[6] + lean[7]));       \
    }

MEASURE(backproof_measure32, float)
MEASURE(backproof_measure64, double)
