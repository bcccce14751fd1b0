#include "layers.h"

#include <math.h>
#include <string.h>

static const real EPSILON = (real)1e-5;

/* The place in x that output position t reads through tap k; -1 in the padding. */
static long source(const layer *l, size_t t, size_t k) {
  long u = (long)(t * l->stride + k) - (long)l->padding;
  return u < 0 || u >= (long)l->in_length ? -1 : u;
}

/* ── convolution: y[o,t] = b[o] + Σ w[o,c,k] x[c, t·stride + k - padding] ─────────────────────────────────────────── */

static void conv1d_forward(const layer *l, const real *x, real *y) {
  for (size_t o = 0; o < l->channels; o++)
    for (size_t t = 0; t < l->length; t++) {
      real sum = l->bias.value[o];
      for (size_t c = 0; c < l->in_channels; c++)
        for (size_t k = 0; k < l->kernel; k++) {
          long u = source(l, t, k);
          if (u >= 0) sum += l->weight.value[(o * l->in_channels + c) * l->kernel + k] * x[c * l->in_length + (size_t)u];
        }
      y[o * l->length + t] = sum;
    }
}

static void conv1d_backward(layer *l, const real *x, const real *dy, real *dx) {
  memset(dx, 0, l->in_channels * l->in_length * sizeof *dx);
  for (size_t o = 0; o < l->channels; o++)
    for (size_t t = 0; t < l->length; t++) {
      real g = dy[o * l->length + t];
      l->bias.gradient[o] += g;
      for (size_t c = 0; c < l->in_channels; c++)
        for (size_t k = 0; k < l->kernel; k++) {
          long u = source(l, t, k);
          size_t w = (o * l->in_channels + c) * l->kernel + k;
          if (u < 0) continue;
          l->weight.gradient[w] += g * x[c * l->in_length + (size_t)u];
          dx[c * l->in_length + (size_t)u] += g * l->weight.value[w];
        }
    }
}

/* ── layer norm over all values of a sample: n = (x - mean)/√(variance + ε), y = γn + β ───────────────────────────── */

static void moments(const layer *l, const real *x, real *mean, real *scale) {
  size_t n = l->channels * l->length;
  real sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  *mean = sum / (real)n;
  for (size_t i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
  *scale = 1 / (real)sqrt(squares / (real)n + EPSILON);
}

static void layer_norm_forward(const layer *l, const real *x, real *y) {
  size_t n = l->channels * l->length;
  real mean, scale;
  moments(l, x, &mean, &scale);
  for (size_t i = 0; i < n; i++) y[i] = l->weight.value[i] * ((x[i] - mean) * scale) + l->bias.value[i];
}

static void layer_norm_backward(layer *l, const real *x, const real *dy, real *dx) {
  size_t n = l->channels * l->length;
  real mean, scale, mean_g = 0, mean_gn = 0;
  moments(l, x, &mean, &scale);
  for (size_t i = 0; i < n; i++) {
    real normal = (x[i] - mean) * scale, g = dy[i] * l->weight.value[i];
    l->weight.gradient[i] += dy[i] * normal;
    l->bias.gradient[i] += dy[i];
    mean_g += g;
    mean_gn += g * normal;
  }
  mean_g /= (real)n;
  mean_gn /= (real)n;
  for (size_t i = 0; i < n; i++) {
    real normal = (x[i] - mean) * scale, g = dy[i] * l->weight.value[i];
    dx[i] = scale * (g - mean_g - normal * mean_gn);
  }
}

/* ── relu, max-pool, flatten ──────────────────────────────────────────────────────────────────────────────────────── */

static void relu_forward(const layer *l, const real *x, real *y) {
  for (size_t i = 0; i < l->channels * l->length; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

static void relu_backward(const layer *l, const real *x, const real *dy, real *dx) {
  for (size_t i = 0; i < l->channels * l->length; i++) dx[i] = x[i] > 0 ? dy[i] : 0;
}

/* The first of the largest values of a window. */
static size_t largest(const layer *l, const real *x, size_t c, size_t t) {
  size_t best = c * l->in_length + t * l->stride;
  for (size_t k = 1; k < l->kernel; k++) {
    size_t i = c * l->in_length + t * l->stride + k;
    if (x[i] > x[best]) best = i;
  }
  return best;
}

static void max_pool_forward(const layer *l, const real *x, real *y) {
  for (size_t c = 0; c < l->channels; c++)
    for (size_t t = 0; t < l->length; t++) y[c * l->length + t] = x[largest(l, x, c, t)];
}

static void max_pool_backward(const layer *l, const real *x, const real *dy, real *dx) {
  memset(dx, 0, l->in_channels * l->in_length * sizeof *dx);
  for (size_t c = 0; c < l->channels; c++)
    for (size_t t = 0; t < l->length; t++) dx[largest(l, x, c, t)] += dy[c * l->length + t];
}

/* ── linear: y = Wx + b ───────────────────────────────────────────────────────────────────────────────────────────── */

static void linear_forward(const layer *l, const real *x, real *y) {
  for (size_t o = 0; o < l->channels; o++) {
    real sum = l->bias.value[o];
    for (size_t i = 0; i < l->in_channels; i++) sum += l->weight.value[o * l->in_channels + i] * x[i];
    y[o] = sum;
  }
}

static void linear_backward(layer *l, const real *x, const real *dy, real *dx) {
  memset(dx, 0, l->in_channels * sizeof *dx);
  for (size_t o = 0; o < l->channels; o++) {
    l->bias.gradient[o] += dy[o];
    for (size_t i = 0; i < l->in_channels; i++) {
      l->weight.gradient[o * l->in_channels + i] += dy[o] * x[i];
      dx[i] += l->weight.value[o * l->in_channels + i] * dy[o];
    }
  }
}

/* ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────── */

void layer_forward(const layer *l, const real *x, real *y) {
  switch (l->kind) {
    case CONV1D: conv1d_forward(l, x, y); break;
    case LAYER_NORM: layer_norm_forward(l, x, y); break;
    case RELU: relu_forward(l, x, y); break;
    case MAX_POOL1D: max_pool_forward(l, x, y); break;
    case FLATTEN: memcpy(y, x, l->channels * sizeof *y); break;
    case LINEAR: linear_forward(l, x, y); break;
  }
}

void layer_backward(layer *l, const real *x, const real *dy, real *dx) {
  switch (l->kind) {
    case CONV1D: conv1d_backward(l, x, dy, dx); break;
    case LAYER_NORM: layer_norm_backward(l, x, dy, dx); break;
    case RELU: relu_backward(l, x, dy, dx); break;
    case MAX_POOL1D: max_pool_backward(l, x, dy, dx); break;
    case FLATTEN: memcpy(dx, dy, l->channels * sizeof *dx); break;
    case LINEAR: linear_backward(l, x, dy, dx); break;
  }
}

real cross_entropy(const real *logits, size_t classes, size_t label, real *gradient) {
  real top = logits[0], sum = 0;
  for (size_t i = 1; i < classes; i++) top = logits[i] > top ? logits[i] : top;
  for (size_t i = 0; i < classes; i++) sum += (real)exp(logits[i] - top);
  for (size_t i = 0; i < classes; i++) gradient[i] = (real)exp(logits[i] - top) / sum;
  gradient[label] -= 1;
  return (real)log(sum) - (logits[label] - top);
}

void scale_gradient(parameter *p, real factor) {
  for (size_t i = 0; i < p->count; i++) p->gradient[i] *= factor;
}

void sgd_update(parameter *p, real rate, real momentum, real decay) {
  for (size_t i = 0; i < p->count; i++) {
    real g = p->gradient[i] + decay * p->value[i];
    p->momentum[i] = momentum * p->momentum[i] + g;
    p->value[i] -= rate * p->momentum[i];
  }
}
