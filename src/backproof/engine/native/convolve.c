/* A convolution as a product of matrices of which the first, every window of x laid out as a row, is never written down.
 *
 * The number at row i and column k of that matrix is x[rows[i] + columns[k]]: one offset says where a window begins, the other
 * where in a window an element lies. So one loop serves any stride, dilation and number of axes, and the gradient of the kernels,
 * which is a convolution too, with few windows that are as large as an image.
 */

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

enum { BLOCK = 384, WIDEST = 16, HIGHEST = 8 }; /* a panel of BLOCK × WIDEST numbers stays in the innermost cache, */
enum { ROWS = 480 };                            /* and what these rows read of a block stays in the next one */

typedef void tile(const double *const *rows, const int64_t *columns, int64_t count, const double *panel, double *found);

/* Some rows times a panel that is two vectors wide; the sums stay in registers. */
#define TILE(NAME, TARGET, VECTOR, PREFIX, LANES, HEIGHT)                                                       \
    __attribute__((target(TARGET))) static void NAME(const double *const *rows, const int64_t *columns,         \
                                                     int64_t count, const double *panel, double *found) {       \
        const double *row[HEIGHT];                                                                              \
        VECTOR left[HEIGHT], right[HEIGHT];                                                                     \
        for (int r = 0; r < HEIGHT; r++) {                                                                      \
            row[r] = rows[r];                                                                                   \
            left[r] = right[r] = PREFIX##_setzero_pd();                                                         \
        }                                                                                                       \
        for (int64_t k = 0; k < count; k++, panel += 2 * LANES) {                                               \
            VECTOR a = PREFIX##_loadu_pd(panel), b = PREFIX##_loadu_pd(panel + LANES);                          \
            int64_t column = columns[k];                                                                        \
            for (int r = 0; r < HEIGHT; r++) {                                                                  \
                VECTOR x = PREFIX##_set1_pd(row[r][column]);                                                    \
                left[r] = PREFIX##_fmadd_pd(x, a, left[r]);                                                     \
                right[r] = PREFIX##_fmadd_pd(x, b, right[r]);                                                   \
            }                                                                                                   \
        }                                                                                                       \
        for (int r = 0; r < HEIGHT; r++, found += 2 * LANES) {                                                  \
            PREFIX##_storeu_pd(found, left[r]);                                                                 \
            PREFIX##_storeu_pd(found + LANES, right[r]);                                                        \
        }                                                                                                       \
    }

TILE(wide, "avx512f", __m512d, _mm512, 8, 8)
TILE(narrow, "avx2,fma", __m256d, _mm256, 4, 6)

/* How many numbers wide a panel may be on this processor; 0 where a library's product of matrices is no slower. */
int64_t backproof_width(void) {
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

/* A block of the kernels, one after the other in each line; what is beyond the last of them is 0. */
static void pack(double *panel, int64_t width, const double *kernels, int64_t apart, int64_t outs, const int64_t *taps,
                 int64_t count) {
    for (int64_t from = 0; from < count; from += 8) { /* some lines at a time, so that none is fetched again for each kernel */
        int64_t to = count - from < 8 ? count : from + 8;
        for (int64_t o = 0; o < width; o++)
            for (int64_t k = from; k < to; k++) panel[k * width + o] = o < outs ? kernels[o * apart + taps[k]] : 0.0;
    }
}

/* y[o, i] = Σₖ x[rows[i] + columns[k]] · kernels[o · apart + taps[k]] for the rows from begin up to end, of `all`.
 *
 * Each sum goes from the first k to the last, whatever range of rows it is computed in. */
void backproof_convolve(const double *x, const int64_t *rows, int64_t begin, int64_t end, int64_t all,
                        const int64_t *columns, int64_t count, const double *kernels, int64_t apart,
                        const int64_t *taps, int64_t out, int64_t width, double *y) {
    tile *multiply = width == 16 ? wide : narrow;
    int64_t height = width == 16 ? 8 : 6;
    double panel[BLOCK * WIDEST], found[HIGHEST * WIDEST];
    int64_t blocks = (count + BLOCK - 1) / BLOCK, step = (count + blocks - 1) / blocks;
    for (int64_t from = begin; from < end; from += ROWS) {
        int64_t to = end - from < ROWS ? end : from + ROWS;
        for (int64_t k = 0; k < count; k += step) {
            int64_t block = count - k < step ? count - k : step;
            for (int64_t o = 0; o < out; o += width) {
                int64_t outs = out - o < width ? out - o : width;
                pack(panel, width, kernels + o * apart, apart, outs, taps + k, block);
                for (int64_t i = from; i < to; i += height) {
                    int64_t high = to - i < height ? to - i : height;
                    const double *at[HIGHEST];
                    for (int64_t r = 0; r < height; r++) at[r] = x + rows[i + (r < high ? r : 0)];
                    multiply(at, columns + k, block, panel, found);
                    for (int64_t j = 0; j < outs; j++) {
                        double *sums = y + (o + j) * all + i;
                        if (k)
                            for (int64_t r = 0; r < high; r++) sums[r] += found[r * width + j];
                        else
                            for (int64_t r = 0; r < high; r++) sums[r] = found[r * width + j];
                    }
                }
            }
        }
    }
}

#else

int64_t backproof_width(void) { return 0; }

void backproof_convolve(const double *x, const int64_t *rows, int64_t begin, int64_t end, int64_t all,
                        const int64_t *columns, int64_t count, const double *kernels, int64_t apart,
                        const int64_t *taps, int64_t out, int64_t width, double *y) {}

#endif
