/* The layers of a small network in plain C: forward, backward and the update, one sample at a time. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stddef.h>

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

typedef enum { CONV1D, LAYER_NORM, RELU, MAX_POOL1D, FLATTEN, LINEAR } layer_kind;

typedef struct {
  real *value, *gradient, *momentum;
  size_t count;
} parameter;

/* channels × length in, channels × length out; a vector is channels × 1. */
typedef struct {
  layer_kind kind;
  const char *name;
  size_t in_channels, in_length, channels, length;
  size_t kernel, stride, padding;
  parameter weight, bias; /* count 0: the layer has none */
} layer;

/* y = layer(x) */
void layer_forward(const layer *l, const real *x, real *y);

/* dx = (dy/dx)ᵀ·dy, and the parameters' gradients are added to. */
void layer_backward(layer *l, const real *x, const real *dy, real *dx);

/* -log softmax(logits)[label], and its gradient: softmax(logits) - onehot(label). */
real cross_entropy(const real *logits, size_t classes, size_t label, real *gradient);

/* g ← factor·g */
void scale_gradient(parameter *p, real factor);

/* g ← g + decay·w;  v ← momentum·v + g;  w ← w - rate·v. The gradient itself is left as it was. */
void sgd_update(parameter *p, real rate, real momentum, real decay);

#endif
