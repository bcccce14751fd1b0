/* Lines of one shape: numbers read out of JSON text, and canonical nine-digit text written from numbers.
 *
 * A template is a text cut at its numbers: pieces[0] number pieces[1] number ... A line belongs to the template if
 * every piece is there byte for byte and every number is a JSON number. So keys, labels and structure are compared
 * exactly, and only the first line of a shape has to be parsed and judged as a document.
 */
#define _GNU_SOURCE
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 0, MOMENT = 1 }; /* a number, or a text that differs in its digits alone */
enum { ZERO = -128, FAR = 127 }; /* exponents: of 0, and of what is beyond every receipt */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static double power_of_ten(int k) {
    static const double table[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return table[k];
}

/* whole * 10^scale, where a 64-bit mantissa holds both and one operation rounds once. Rounding that to 53 bits is the
 * rounding of the exact value, unless the eleven bits that go are a midpoint or beside one: then 0. */
static int read_wide(uint64_t whole, int scale, double *value) {
#if LDBL_MANT_DIG == 64
    static const long double table[28] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                          1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                          1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    uint64_t mantissa;
    if (scale < -27 || scale > 27) return 0;
    long double v = scale < 0 ? (long double)whole / table[-scale] : (long double)whole * table[scale];
    memcpy(&mantissa, &v, sizeof mantissa);
    uint64_t gone = mantissa & 2047;
    if (gone >= 1023 && gone <= 1025) return 0;
    *value = (double)v;
    return 1;
#else
    (void)whole; (void)scale; (void)value;
    return 0;
#endif
}

/* A JSON number at `at`; gives what follows it, or NULL. Digits that fit 53 bits with a small power of ten are exact in
 * one rounding; everything else goes to the C library in the "C" locale. */
static const char *read_number(const char *at, const char *end, locale_t plain, double *value, int8_t *power) {
    const char *start = at;
    int negative = 0, digits = 0, exponent = 0, point = 0;
    uint64_t whole = 0;
    if (at < end && *at == '-') { negative = 1; at++; }
    if (at >= end || !is_digit(*at)) return NULL;
    if (*at == '0') { at++; digits = 0; }
    else for (; at < end && is_digit(*at); at++) { if (digits < 19) whole = whole * 10 + (uint64_t)(*at - '0'); digits++; }
    if (at < end && *at == '.') {
        const char *first = ++at;
        for (; at < end && is_digit(*at); at++) {
            if (digits || *at != '0') { if (digits < 19) whole = whole * 10 + (uint64_t)(*at - '0'); digits++; }
            point++;
        }
        if (at == first) return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int sign = 1;
        at++;
        if (at < end && (*at == '+' || *at == '-')) { if (*at == '-') sign = -1; at++; }
        if (at >= end || !is_digit(*at)) return NULL;
        for (; at < end && is_digit(*at); at++) if (exponent < 10000) exponent = exponent * 10 + (*at - '0');
        exponent *= sign;
    }
    int scale = exponent - point, first = digits - 1 + scale; /* of ten, of the first digit that is not 0 */
    *power = (int8_t)(digits == 0 ? ZERO : first <= ZERO || first > FAR ? FAR : first);
    if (digits <= 15 && scale >= -22 && scale <= 22 && digits + scale < 40) {
        double v = (double)whole;
        v = scale < 0 ? v / power_of_ten(-scale) : v * power_of_ten(scale);
        *value = negative ? -v : v;
    } else if (digits <= 19 && read_wide(whole, scale, value)) {
        if (negative) *value = -*value;
    } else {
        char held[64], *copy = held;
        size_t size = (size_t)(at - start);
        if (size >= sizeof held && !(copy = malloc(size + 1))) return NULL;
        memcpy(copy, start, size);
        copy[size] = 0;
        *value = strtod_l(copy, NULL, plain);
        if (copy != held) free(copy);
    }
    return isfinite(*value) ? at : NULL;
}

/* A quoted text of the length of the piece that the template has there, digits where that has digits. */
static const char *read_moment(const char *at, const char *end, const char *like, int64_t size) {
    if (end - at < size) return NULL;
    for (int64_t i = 0; i < size; i++)
        if (is_digit(like[i]) ? !is_digit(at[i]) : at[i] != like[i]) return NULL;
    return at + size;
}

/* Read lines as long as they belong to the template. `rows` has `stride` doubles a line, `powers` as many exponents of ten,
 * `starts` the place of each line.
 * Gives the number of lines; `*used` is where the next one begins. A line without its line feed is left. */
int64_t read_lines(const char *text, int64_t size, const char *pieces, const int64_t *ends, int64_t holes,
                   const int8_t *kinds, const char *likes, const int64_t *like_ends, double *rows, int8_t *powers,
                   int64_t stride, int64_t *starts, int64_t most, int64_t *used) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const char *at = text, *limit = text + size;
    int64_t count = 0;
    *used = 0;
    while (count < most) {
        const char *end = memchr(at, '\n', (size_t)(limit - at)), *p = at;
        if (!end) break;
        const char *stop = end > at && end[-1] == '\r' ? end - 1 : end;
        int64_t from = 0, column = 0, moment = 0, hole = 0;
        for (; hole <= holes; hole++) {
            int64_t length = ends[hole] - from;
            if (stop - p < length || memcmp(p, pieces + from, (size_t)length) != 0) break;
            p += length;
            from = ends[hole];
            if (hole == holes) break;
            if (kinds[hole] == NUMBER) {
                int64_t place = count * stride + column++;
                if (!(p = read_number(p, stop, plain, &rows[place], &powers[place]))) break;
            } else {
                int64_t begin = moment ? like_ends[moment - 1] : 0;
                if (!(p = read_moment(p, stop, likes + begin, like_ends[moment] - begin))) break;
                moment++;
            }
        }
        if (hole < holes || p != stop) break;
        starts[count++] = at - text;
        at = end + 1;
        *used = at - text;
    }
    freelocale(plain);
    return count;
}

static const char PAIRS[] =
    "0001020304050607080910111213141516171819"
    "2021222324252627282930313233343536373839"
    "4041424344454647484950515253545556575859"
    "6061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static char *put_digits(char *out, uint64_t digits, int exponent, int negative) {
    char nine[9];
    uint32_t rest = (uint32_t)digits; /* below 10^9 */
    for (int i = 7; i > 0; i -= 2) { memcpy(nine + i, PAIRS + 2 * (rest % 100), 2); rest /= 100; }
    nine[0] = (char)('0' + rest);
    if (negative) *out++ = '-';
    if (exponent < 0) {
        *out++ = '0'; *out++ = '.';
        for (int i = -exponent - 1; i > 0; i--) *out++ = '0';
        memcpy(out, nine, 9);
        return out + 9;
    }
    memcpy(out, nine, (size_t)exponent + 1);
    out += exponent + 1;
    *out++ = '.';
    memcpy(out, nine + exponent + 1, (size_t)(8 - exponent));
    return out + (8 - exponent);
}

/* Seventeen digits, then nine, half to even: the format's own double rounding, by the book. */
static char *put_number_slowly(char *out, double v, int negative, locale_t plain) {
    char text[40];
    locale_t before = uselocale(plain);
    snprintf(text, sizeof text, "%.16e", v);
    uselocale(before);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -13 || exponent > 6) return NULL;
    uint64_t digits = (uint64_t)(text[0] - '0');
    for (int i = 2; i < 10; i++) digits = digits * 10 + (uint64_t)(text[i] - '0');
    int order = strncmp(text + 10, "50000000", 8);
    if (order > 0 || (order == 0 && digits % 2)) digits++;
    if (digits == 1000000000) { digits = 100000000; if (++exponent > 6) return NULL; }
    return put_digits(out, digits, exponent, negative);
}

/* The canonical text of a number, or NULL where the format cannot carry it. Away from a tie, scaling to nine digits
 * decides like the digits do: its error is below 1e-6 of the last digit, and ties are looked at to 1e-5. */
static char *put_number(char *out, double v, locale_t plain) {
    if (v == 0.0) { memcpy(out, "0.000000000", 11); return out + 11; }
    int negative = v < 0.0;
    v = fabs(v);
    if (!(v > 2e-13 && v < 9e6)) return isfinite(v) ? put_number_slowly(out, v, negative, plain) : NULL;
    int exponent = v >= 1.0 ? 0 : -1;
    if (v >= 1.0) while (v >= power_of_ten(exponent + 1)) exponent++;
    else while (v * power_of_ten(-exponent) < 1.0) exponent--;
    double scaled = v * power_of_ten(8 - exponent), floored = floor(scaled), rest = scaled - floored;
    if (fabs(rest - 0.5) < 1e-5 || floored < 100000000.0 || floored > 999999998.0)
        return put_number_slowly(out, v, negative, plain);
    return put_digits(out, (uint64_t)floored + (rest > 0.5), exponent, negative);
}

/* Write rows through a template. `holes[i]` is the column of the i-th number, `whole[i]` whether it is an integer.
 * Gives the bytes written; a number that cannot be carried ends it with -1 - (row * count + hole). */
int64_t write_lines(const char *pieces, const int64_t *ends, int64_t count, const int64_t *holes, const int8_t *whole,
                    const double *rows, int64_t stride, int64_t lines, char *out, int64_t *sizes) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *at = out;
    int64_t failed = 0;
    for (int64_t row = 0; row < lines && !failed; row++) {
        const double *numbers = rows + row * stride;
        char *begin = at;
        int64_t from = 0;
        for (int64_t hole = 0; hole <= count; hole++) {
            memcpy(at, pieces + from, (size_t)(ends[hole] - from));
            at += ends[hole] - from;
            from = ends[hole];
            if (hole == count) break;
            double v = numbers[holes[hole]];
            char *next;
            if (whole[hole]) next = at + sprintf(at, "%lld", (long long)v);
            else next = put_number(at, v, plain);
            if (!next) { failed = -1 - (row * count + hole); break; }
            at = next;
        }
        sizes[row] = at - begin;
    }
    freelocale(plain);
    return failed ? failed : at - out;
}
