/* The equations of a shape, traced once, evaluated over many records: does every number lie within its bound?
 *
 * It is a screen: a record passes if each deviation is clearly within its bound, by a margin that is wider than the
 * rounding by which this evaluation and the judge's may differ. Whatever does not pass is left to the judge.
 *
 * Values are balls (a value and a radius), laid out by slot and then by lane, one lane a record.
 */

#include <math.h>
#include <stdint.h>

enum { LANES = 32 };
enum { CONSTANT, NEGATE, ADD, SUBTRACT, MULTIPLY, DIVIDE, EXP, LOG, SQRT, POWER, RELU, STEP, TOTAL, SHIFT, UNLESS_ZERO, WIDEN };

typedef struct {
    const int32_t *code;      /* nodes × 3: operation, two operands */
    const int32_t *lists;     /* operands of TOTAL and SHIFT, which name an offset and a count */
    const double *constants;  /* a value and a radius each */
    const int32_t *checks;    /* checks × 2: the slot that is said, the slot that was derived */
    const double *radius;     /* of a stored number by its exponent of ten + 128 */
    int64_t columns, nodes, checked;
    double unit, slack, function_slack, within;
} program;

typedef struct {
    double mid[LANES], rad[LANES];
} ball;

#define EACH for (int l = 0; l < LANES; l++)

static void rounded(ball *y, double slack) { EACH y->rad[l] += slack * fabs(y->mid[l]); }

static void multiply(ball *restrict y, const ball *a, const ball *b, double slack) {
    EACH {
        double mid = a->mid[l] * b->mid[l];
        double rad = fabs(a->mid[l]) * b->rad[l] + a->rad[l] * (fabs(b->mid[l]) + b->rad[l]);
        y->mid[l] = mid;
        y->rad[l] = rad + slack * fabs(mid);
    }
}

static void divide(ball *restrict y, const ball *a, const ball *b) {
    EACH {
        double room = fabs(b->mid[l]) - b->rad[l];
        y->mid[l] = a->mid[l] / b->mid[l];
        y->rad[l] = room > 0.0 ? (fabs(y->mid[l]) * b->rad[l] + a->rad[l]) / room : INFINITY;
    }
}

/* The ball around mid that holds low and high, and the rounding of the function itself. */
static void within(ball *y, int l, double mid, double low, double high, double slack) {
    double up = high - mid, down = mid - low, rad = up > down ? up : down;
    y->mid[l] = mid;
    y->rad[l] = rad + slack * (fabs(mid) + rad);
}

static void function(int32_t operation, ball *restrict y, const ball *a, const ball *b, double slack) {
    EACH {
        double x = a->mid[l], r = a->rad[l], mid, grow;
        switch (operation) {
        case EXP:
            mid = exp(x);
            grow = r < 1e-3 ? r * (1.0 + r * (0.5 + r / 6.0)) : expm1(r);
            within(y, l, mid, mid - mid * grow, mid + mid * grow, slack);
            break;
        case LOG: within(y, l, log(x), x > r ? log(x - r) : -INFINITY, log(x + r), slack); break;
        case SQRT: within(y, l, sqrt(fmax(x, 0.0)), sqrt(fmax(x - r, 0.0)), sqrt(fmax(x + r, 0.0)), slack); break;
        case POWER:
            mid = pow(x, b->mid[l]);
            grow = expm1(b->mid[l] * log1p(r / x));
            within(y, l, mid, mid - mid * grow, mid + mid * grow, slack);
            break;
        case RELU: within(y, l, fmax(x, 0.0), fmax(x - r, 0.0), fmax(x + r, 0.0), slack); break;
        default: /* STEP */
            y->mid[l] = ((x - r > 0.0) + (x + r > 0.0)) / 2.0;
            y->rad[l] = ((x + r > 0.0) - (x - r > 0.0)) / 2.0;
        }
    }
}

static void total(ball *restrict y, const ball *slots, const int32_t *list, int32_t count, double slack) {
    double sizes[LANES] = {0.0};
    EACH y->mid[l] = y->rad[l] = 0.0;
    for (int32_t i = 0; i < count; i++) {
        const ball *x = slots + list[i];
        EACH {
            y->mid[l] += x->mid[l];
            y->rad[l] += x->rad[l];
            sizes[l] += fabs(x->mid[l]) + x->rad[l];
        }
    }
    EACH y->rad[l] += slack * count * sizes[l];
}

static void evaluate(const program *p, ball *slots) {
    double slack = p->slack * p->unit;
    for (int64_t n = 0; n < p->nodes; n++) {
        const int32_t *code = p->code + 3 * n;
        ball *restrict y = slots + p->columns + n;
        const ball *a = slots + code[1], *b = slots + code[2];
        switch (code[0]) {
        case CONSTANT: EACH { y->mid[l] = p->constants[2 * code[1]]; y->rad[l] = p->constants[2 * code[1] + 1]; } break;
        case NEGATE: EACH { y->mid[l] = -a->mid[l]; y->rad[l] = a->rad[l]; } break;
        case ADD:
            EACH { y->mid[l] = a->mid[l] + b->mid[l]; y->rad[l] = a->rad[l] + b->rad[l]; }
            rounded(y, slack);
            break;
        case SUBTRACT:
            EACH { y->mid[l] = a->mid[l] - b->mid[l]; y->rad[l] = a->rad[l] + b->rad[l]; }
            rounded(y, slack);
            break;
        case MULTIPLY: multiply(y, a, b, slack); break;
        case DIVIDE: divide(y, a, b); rounded(y, slack); break;
        case TOTAL: total(y, slots, p->lists + code[1], code[2], slack); break;
        case SHIFT:
            EACH { y->mid[l] = -INFINITY; y->rad[l] = 0.0; }
            for (int32_t i = 0; i < code[2]; i++) {
                a = slots + p->lists[code[1] + i];
                EACH y->mid[l] = a->mid[l] > y->mid[l] ? a->mid[l] : y->mid[l];
            }
            break;
        case UNLESS_ZERO:
            EACH {
                int zero = a->mid[l] == 0.0 && a->rad[l] == 0.0;
                y->mid[l] = zero ? 0.0 : b->mid[l];
                y->rad[l] = zero ? 0.0 : b->rad[l];
            }
            break;
        case WIDEN: EACH { y->mid[l] = a->mid[l]; y->rad[l] = a->rad[l] + slack * fabs(b->mid[l]); } break;
        default: function(code[0], y, a, b, p->function_slack * p->unit);
        }
    }
}

static void load(const program *p, const double *numbers, const int8_t *exponents, int64_t stride, int64_t rows,
                 ball *slots) {
    for (int64_t l = 0; l < LANES; l++) {
        int64_t row = l < rows ? l : rows - 1;
        const double *from = numbers + row * stride;
        const int8_t *powers = exponents + row * stride;
        for (int64_t c = 0; c < p->columns; c++) {
            slots[c].mid[l] = from[c];
            slots[c].rad[l] = p->radius[powers[c] + 128];
        }
    }
}

/* passes[row] is 1 where every check of a record is clearly met. `slots` has room for columns + nodes balls. */
void backproof_screen(const program *p, const double *numbers, const int8_t *exponents, int64_t stride, int64_t rows,
                      ball *slots, uint8_t *passes) {
    for (int64_t at = 0; at < rows; at += LANES) {
        int64_t here = rows - at < LANES ? rows - at : LANES;
        int64_t met[LANES];
        load(p, numbers + at * stride, exponents + at * stride, stride, here, slots);
        evaluate(p, slots);
        EACH met[l] = 1;
        for (int64_t i = 0; i < p->checked; i++) {
            const ball *said = slots + p->checks[2 * i], *found = slots + p->checks[2 * i + 1];
            EACH {
                double bound = (said->rad[l] + found->rad[l]) * p->within;
                double deviation = fabs(said->mid[l] - found->mid[l]);
                met[l] &= deviation <= bound && bound < INFINITY;
            }
        }
        for (int64_t l = 0; l < here; l++) passes[at + l] = (uint8_t)met[l];
    }
}
