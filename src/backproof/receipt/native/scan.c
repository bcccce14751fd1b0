/* Lines of JSON that differ in their numbers and free texts alone, read against the skeleton of the first.
 *
 * A skeleton is what such lines share: literal bytes, and between two literals one token, a number or a text. A line
 * either fits the skeleton byte for byte, and then its tokens are all that it adds, or it is left to the strict reader,
 * which alone decides and explains. Nothing is guessed here: whatever is unusual does not fit.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 0, WHOLE = 1, TEXT = 2 };
enum { FULL = 0, MORE = 1, MISFIT = 2 };
enum { ZERO = -128, MOST_TOKEN = 1100 };

typedef struct {
    const uint8_t *literals;
    const int64_t *ends; /* literal i is literals[ends[i - 1]] to literals[ends[i] - 1]; there are slots + 1 of them */
    const uint8_t *kinds;
    int64_t slots;
    int64_t numbers;
    int64_t texts;
} skeleton;

typedef struct {
    double *numbers;     /* rows × stride */
    int8_t *exponents;   /* rows × stride: of the first digit that is not 0; ZERO for 0 */
    int64_t *lines;      /* rows × 2: begin and end, without the line feed */
    int64_t *texts;      /* rows × texts × 2 */
    uint8_t *canonical;  /* whether every token of the row is spelled as the format spells it */
    uint8_t *repeated;   /* rows × texts: whether a text is that of the row before */
    int64_t stride;
    int64_t most;
} block;

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint64_t MOST_EXACT = UINT64_C(1) << 53;
enum { EXACT_TEN = 22, MOST_DIGITS = 19 };
enum { NINE = 9, ZERO_DECIMALS = 9, WHOLE_DIGITS = 15, LEAST_POWER = -13, MOST_POWER = 6 }; /* of the format */

static int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* A token that neither argument below decides: the library's conversion, of a copy that ends. */
static int convert(const uint8_t *from, const uint8_t *to, double *value) {
    char copy[MOST_TOKEN + 1], *end;
    size_t length = (size_t)(to - from);
    if (length > MOST_TOKEN) return 0;
    memcpy(copy, from, length);
    copy[length] = 0;
    *value = strtod(copy, &end);
    /* Under a locale with another decimal point the conversion stops early. */
    return end == copy + length && *value - *value == 0.0;
}

/* A number at p, which is followed by a byte that ends it: its value, correctly rounded. Returns where it ends, or
 * NULL. Its digits as an integer w and the power of ten q: if w <= 2^53 and -22 <= q, both are doubles without error,
 * and one division rounds once, which is the correct rounding. */
static const uint8_t *number(const uint8_t *p, uint8_t kind, double *value, int8_t *exponent, uint8_t *canonical) {
    const uint8_t *from = p, *whole, *point, *first;
    uint64_t w = 0; /* wraps beyond 19 digits, and is not used then */
    int64_t digits, decimals = 0, power;
    int negative = *p == '-', plain, zero;
    p += negative;
    whole = p;
    while (is_digit(*p)) w = w * 10 + (uint64_t)(*p++ - '0');
    point = p;
    first = whole;
    if (point == whole || (*whole == '0' && point != whole + 1)) return NULL;
    if (*p == '.') {
        p++;
        if (*whole == '0') {
            while (*p == '0') p++;
            first = p;
        }
        while (is_digit(*p)) w = w * 10 + (uint64_t)(*p++ - '0');
        decimals = p - point - 1;
        if (decimals == 0) return NULL;
    }
    zero = *whole == '0' && (decimals == 0 || first == p);
    power = *whole == '0' ? point - first : point - whole - 1; /* of the first digit that is not 0 */
    digits = zero ? 0 : (p - first) - (*whole != '0' && decimals ? 1 : 0);
    plain = *p != 'e' && *p != 'E';
    if (!plain) {
        p++;
        p += *p == '+' || *p == '-';
        if (!is_digit(*p)) return NULL;
        while (is_digit(*p)) p++;
    }
    *exponent = (int8_t)(zero || power < ZERO || power > -ZERO - 1 ? ZERO : power);
    if (!plain || (kind == NUMBER) != (decimals > 0)) *canonical = 0;
    else if (zero) *canonical &= !negative && decimals == (kind == NUMBER ? ZERO_DECIMALS : 0);
    else if (kind == WHOLE) *canonical &= digits <= WHOLE_DIGITS;
    else *canonical &= digits == NINE && power >= LEAST_POWER && power <= MOST_POWER;
    if (plain && digits <= MOST_DIGITS && w <= MOST_EXACT && decimals <= EXACT_TEN) {
        double v = (double)w / TENS[decimals];
        *value = negative && (decimals || !zero) ? -v : v; /* an integer 0 has no sign */
    } else if (!convert(from, p, value)) {
        return NULL;
    }
    return p;
}

/* A text at p up to its closing quote: printable ASCII without escapes, or NULL. */
static const uint8_t *text(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '\\') {
        if (*p == '"') return p;
        p++;
    }
    return NULL;
}

static const uint8_t *row(const skeleton *s, const block *b, int64_t at, const uint8_t *buffer, const uint8_t *p,
                          const uint8_t *end) {
    double *values = b->numbers + at * b->stride;
    int8_t *exponents = b->exponents + at * b->stride;
    int64_t *spans = b->texts + at * s->texts * 2;
    const int64_t *before = at ? spans - s->texts * 2 : NULL;
    uint8_t *repeated = b->repeated + at * s->texts;
    int64_t begin = 0;
    b->canonical[at] = 1;
    for (int64_t i = 0; i <= s->slots; i++) {
        int64_t length = s->ends[i] - begin;
        if (length > end - p || memcmp(p, s->literals + begin, (size_t)length) != 0) return NULL;
        p += length;
        begin = s->ends[i];
        if (i == s->slots) break;
        if (p >= end) return NULL;
        if (s->kinds[i] == TEXT) {
            const uint8_t *from = p;
            int64_t size = before ? before[1] - before[0] : end - p;
            *repeated = size < end - p && p[size] == '"' && memcmp(p, buffer + before[0], (size_t)size) == 0;
            p = *repeated++ ? p + size : text(p, end);
            if (p == NULL) return NULL;
            if (before) before += 2;
            *spans++ = from - buffer;
            *spans++ = p - buffer;
        } else {
            p = number(p, s->kinds[i], values++, exponents++, b->canonical + at);
            if (p == NULL || p > end) return NULL;
        }
    }
    return p;
}

/* The lines that fit, from `begin` on, as rows from `at` on. buffer[end] must be readable and no part of a number.
 * Returns the number of rows in the block; *stop is FULL, MORE (the last line is not complete) or MISFIT. */
int64_t backproof_scan(const skeleton *s, const block *b, const uint8_t *buffer, int64_t begin, int64_t end,
                       int32_t final, int64_t at, int32_t *stop) {
    const uint8_t *p = buffer + begin, *last = buffer + end;
    for (;; at++) {
        const uint8_t *stopped;
        if (at == b->most || p == last) {
            *stop = at == b->most ? FULL : MORE;
            return at;
        }
        stopped = row(s, b, at, buffer, p, last);
        if (stopped == NULL || (stopped == last ? !final : *stopped != '\n')) {
            int complete = final || memchr(p, '\n', (size_t)(last - p)) != NULL;
            *stop = complete ? MISFIT : MORE;
            return at;
        }
        b->lines[2 * at] = p - buffer;
        b->lines[2 * at + 1] = stopped - buffer;
        p = stopped + (stopped < last);
    }
}
