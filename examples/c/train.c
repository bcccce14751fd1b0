/* Trains a small 1-D convolutional network, and tells a sink what it computes.

   conv1 → ln1 → relu1 → pool1 → conv2 → ln2 → relu2 → pool2 → flatten → fc → softmax cross-entropy; SGD with momentum.

     ./train --export data                      writes the weights and the samples that it starts from, for others to read
     ./train --data data --trace out/c          reads them and records every step of a short run; bp compare reads the trace
     ./train                                    trains without a trace: the sink is NULL */
#define BACKPROOF_TRACE_IMPLEMENTATION
#include "../../c/backproof_trace.h"

#include "layers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 10, CHANNELS = 2, LENGTH = 48, SAMPLES = 128, CLASSES = 4 };

static const bpt_dtype DTYPE = sizeof(real) == 8 ? BPT_FLOAT64 : BPT_FLOAT32;

/* What the optimizer is told. */
typedef struct {
  double rate, momentum, decay;
} settings;

/*                             kind        name       in        out      kernel stride padding */
static layer network[LAYERS] = {
    {CONV1D,     "conv1",   2, 48,   8, 48,  3, 1, 1, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {LAYER_NORM, "ln1",     8, 48,   8, 48,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {RELU,       "relu1",   8, 48,   8, 48,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {MAX_POOL1D, "pool1",   8, 48,   8, 24,  2, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {CONV1D,     "conv2",   8, 24,  12, 12,  5, 2, 2, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {LAYER_NORM, "ln2",    12, 12,  12, 12,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {RELU,       "relu2",  12, 12,  12, 12,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {MAX_POOL1D, "pool2",  12, 12,  12,  4,  3, 3, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {FLATTEN,    "flatten",12,  4,  48,  1,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {LINEAR,     "fc",     48,  1,   4,  1,  0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
};

static real samples[SAMPLES][CHANNELS * LENGTH];
static int labels[SAMPLES];

/* What a sample leaves behind: activation[i] is what layer i reads, gradient[i] the loss's gradient with respect to it. */
static real activation[LAYERS + 1][8 * 48], gradient[LAYERS + 1][8 * 48];

/* ── where the numbers come from ──────────────────────────────────────────────────────────────────────────────────── */

/* A number between -1 and 1 with 24 bits, the same on every machine. */
static real noise(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (real)(int)(*state >> 8) / 8388608 - 1;
}

static int allocate(parameter *p, size_t count) {
  p->count = count;
  p->value = calloc(count, sizeof(real));
  p->gradient = calloc(count, sizeof(real));
  p->momentum = calloc(count, sizeof(real));
  return p->value && p->gradient && p->momentum;
}

static int make_network(void) {
  unsigned state = 7;
  for (int i = 0; i < LAYERS; i++) {
    layer *l = &network[i];
    size_t weights = l->kind == CONV1D ? l->channels * l->in_channels * l->kernel
                     : l->kind == LINEAR ? l->channels * l->in_channels
                     : l->kind == LAYER_NORM ? l->channels * l->length : 0;
    if (!weights) continue;
    if (!allocate(&l->weight, weights) || !allocate(&l->bias, l->kind == LAYER_NORM ? weights : l->channels)) return 0;
    for (size_t k = 0; k < weights; k++)
      l->weight.value[k] = l->kind == LAYER_NORM ? 1 + noise(&state) / 8 : noise(&state) / 4;
    for (size_t k = 0; k < l->bias.count; k++) l->bias.value[k] = noise(&state) / 8;
  }
  return 1;
}

static void free_network(void) {
  for (int i = 0; i < LAYERS; i++) {
    parameter *both[2] = {&network[i].weight, &network[i].bias};
    for (int k = 0; k < 2; k++) {
      free(both[k]->value);
      free(both[k]->gradient);
      free(both[k]->momentum);
    }
  }
}

/* Class k is a saw of period 6 + 3k in the first channel, and noise in both. */
static void make_samples(void) {
  unsigned state = 11;
  for (int s = 0; s < SAMPLES; s++) {
    int period = 6 + 3 * (labels[s] = s * 7 % CLASSES);
    for (int t = 0; t < LENGTH; t++) {
      samples[s][t] = (real)((s + t) % period) / (real)period + noise(&state) / 2;
      samples[s][LENGTH + t] = noise(&state);
    }
  }
}

/* ── files: NAME.npy of float32, and labels as float32 too ────────────────────────────────────────────────────────── */

static char *join(const char *folder, const char *name, const char *what) {
  size_t room = strlen(folder) + strlen(name) + strlen(what) + 8;
  char *path = malloc(room);
  if (path) snprintf(path, room, "%s/%s%s%s.npy", folder, name, *what ? "." : "", what);
  return path;
}

/* Writes (or reads) `count` numbers as float32. The file's header is the one that bpt_write_npy writes; the shape is ours to know. */
static int transfer(const char *folder, const char *name, const char *what, real *numbers, size_t count, int reading) {
  char *path = join(folder, name, what);
  float *buffer = malloc(count * sizeof *buffer);
  int good = path && buffer;
  if (good && reading) {
    unsigned char head[10];
    FILE *file = fopen(path, "rb");
    good = file && fread(head, 1, 10, file) == 10 && fseek(file, 10 + head[8] + 256L * head[9], SEEK_SET) == 0 &&
           fread(buffer, sizeof *buffer, count, file) == count && fgetc(file) == EOF;
    if (file) fclose(file);
    for (size_t i = 0; good && i < count; i++) numbers[i] = buffer[i];
  } else if (good) {
    for (size_t i = 0; i < count; i++) buffer[i] = (float)numbers[i];
    bpt_tensor tensor = bpt_1d(BPT_FLOAT32, buffer, count);
    good = bpt_write_npy(path, &tensor) == BPT_OK;
  }
  if (!good) fprintf(stderr, "train: %s: cannot %s %zu numbers of float32\n", path ? path : name, reading ? "read" : "write", count);
  free(buffer);
  free(path);
  return good;
}

static int transfer_all(const char *folder, int reading) {
  real classes[SAMPLES];
  for (int s = 0; s < SAMPLES; s++) classes[s] = (real)labels[s];
  int good = transfer(folder, "samples", "", &samples[0][0], SAMPLES * CHANNELS * LENGTH, reading) &&
             transfer(folder, "labels", "", classes, SAMPLES, reading);
  for (int i = 0; good && i < LAYERS; i++)
    if (network[i].weight.count)
      good = transfer(folder, network[i].name, "weight", network[i].weight.value, network[i].weight.count, reading) &&
             transfer(folder, network[i].name, "bias", network[i].bias.value, network[i].bias.count, reading);
  for (int s = 0; good && s < SAMPLES; s++)
    if (classes[s] >= 0 && classes[s] < CLASSES) labels[s] = (int)classes[s];
    else good = 0;
  return good;
}

/* ── tracing ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bpt_tensor view(const real *numbers, size_t channels, size_t length) {
  return length == 1 ? bpt_2d(DTYPE, numbers, 1, channels) : bpt_3d(DTYPE, numbers, 1, channels, length);
}

/* One phase of every parameter. A state of the optimizer has a name of its own, as in weight.momentum_buffer. */
static void trace_parameters(const bpt_sink *sink, const char *phase, const char *state, real *of(const parameter *)) {
  for (int i = 0; sink && i < LAYERS; i++) {
    const layer *l = &network[i];
    char weight[40], bias[40];
    if (!l->weight.count) continue;
    snprintf(weight, sizeof weight, "weight%s%s", state ? "." : "", state ? state : "");
    snprintf(bias, sizeof bias, "bias%s%s", state ? "." : "", state ? state : "");
    const real *w = of(&l->weight), *b = of(&l->bias);
    bpt_fire(sink, l->name, phase, weight, BPT_BATCH,
             l->kind == CONV1D   ? bpt_3d(DTYPE, w, l->channels, l->in_channels, l->kernel)
             : l->kind == LINEAR ? bpt_2d(DTYPE, w, l->channels, l->in_channels)
                                 : bpt_2d(DTYPE, w, l->channels, l->length));
    bpt_fire(sink, l->name, phase, bias, BPT_BATCH,
             l->kind == LAYER_NORM ? bpt_2d(DTYPE, b, l->channels, l->length) : bpt_1d(DTYPE, b, l->channels));
  }
}

static real *value_of(const parameter *p) { return p->value; }
static real *gradient_of(const parameter *p) { return p->gradient; }
static real *momentum_of(const parameter *p) { return p->momentum; }

/* The network as the manifest tells it; see docs/traces.md for the kinds. */
static void describe(bpt_writer *w, long batch, long recorded, long first_sample, const settings *s) {
  const char *reads = "input";
  char start[24];
  bpt_batch(w, batch, recorded);
  for (int i = 0; i < LAYERS; i++) {
    const layer *l = &network[i];
    long whole[2] = {(long)l->channels, (long)l->length};
    switch (l->kind) {
      case CONV1D:
        bpt_layer(w, l->name, "conv1d", reads, "weight,bias");
        bpt_set_whole(w, "stride", (long)l->stride);
        bpt_set_whole(w, "padding", (long)l->padding);
        break;
      case LAYER_NORM:
        bpt_layer(w, l->name, "layer_norm", reads, "weight,bias");
        bpt_set_wholes(w, "normalized_shape", 2, whole);
        bpt_set_real(w, "eps", 1e-5);
        break;
      case MAX_POOL1D:
        bpt_layer(w, l->name, "max_pool1d", reads, NULL);
        bpt_set_whole(w, "kernel_size", (long)l->kernel);
        bpt_set_whole(w, "stride", (long)l->stride);
        break;
      case RELU: bpt_layer(w, l->name, "relu", reads, NULL); break;
      case FLATTEN: 
        bpt_layer(w, l->name, "flatten", reads, NULL);
        bpt_set_whole(w, "start_dim", 1);
        break;
      case LINEAR: bpt_layer(w, l->name, "linear", reads, "weight,bias"); break;
    }
    reads = l->name;
  }
  bpt_layer(w, "loss", "cross_entropy", "fc,label", NULL);
  bpt_optimizer(w, "sgd");
  bpt_set_real(w, "lr", s->rate);
  bpt_set_real(w, "momentum", s->momentum);
  bpt_set_real(w, "weight_decay", s->decay);
  snprintf(start, sizeof start, "%ld", first_sample);
  bpt_note(w, "first sample", start);
}

/* ── one step ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* One sample forward and backward; its gradients are added to what is there. The loss is the sample's own. */
static real run_sample(const real *x, size_t label, const bpt_sink *sink, long sample) {
  const int64_t target = (int64_t)label;
  memcpy(activation[0], x, sizeof samples[0]);
  bpt_fire(sink, "input", "fwd", NULL, sample, view(activation[0], CHANNELS, LENGTH));
  bpt_fire(sink, "label", "fwd", NULL, sample, bpt_1d(BPT_INT64, &target, 1));
  for (int i = 0; i < LAYERS; i++) {
    layer_forward(&network[i], activation[i], activation[i + 1]);
    bpt_fire(sink, network[i].name, "fwd", NULL, sample, view(activation[i + 1], network[i].channels, network[i].length));
  }
  real loss = cross_entropy(activation[LAYERS], CLASSES, label, gradient[LAYERS]);
  bpt_fire(sink, "loss", "lossgrad", NULL, sample, view(gradient[LAYERS], CLASSES, 1));
  for (int i = LAYERS - 1; i >= 0; i--) {
    bpt_fire(sink, network[i].name, "agrad", NULL, sample, view(gradient[i + 1], network[i].channels, network[i].length));
    layer_backward(&network[i], activation[i], gradient[i + 1], gradient[i]);
  }
  bpt_fire(sink, "input", "agrad", NULL, sample, view(gradient[0], CHANNELS, LENGTH));
  return loss;
}

static real run_step(int first, long start, long batch, long recorded, const settings *s, const bpt_sink *sink) {
  real loss = 0;
  trace_parameters(sink, "w_before", NULL, value_of);
  if (!first) trace_parameters(sink, "opt_before", "momentum_buffer", momentum_of); /* before the first step there is none */
  for (int i = 0; i < LAYERS; i++) {
    parameter *both[2] = {&network[i].weight, &network[i].bias};
    for (int k = 0; k < 2; k++)
      if (both[k]->count) memset(both[k]->gradient, 0, both[k]->count * sizeof(real));
  }
  for (long k = 0; k < batch; k++) {
    size_t which = (size_t)(start + k) % SAMPLES;
    loss += run_sample(samples[which], (size_t)labels[which], k < recorded ? sink : NULL, k);
  }
  loss /= (real)batch;
  bpt_fire(sink, "loss", "fwd", NULL, BPT_BATCH, bpt_nd(DTYPE, &loss, 0, NULL));
  trace_parameters(sink, "grad_raw", NULL, gradient_of);
  for (int i = 0; i < LAYERS; i++) {
    scale_gradient(&network[i].weight, 1 / (real)batch);
    scale_gradient(&network[i].bias, 1 / (real)batch);
  }
  trace_parameters(sink, "grad_scaled", NULL, gradient_of);
  for (int i = 0; i < LAYERS; i++) {
    sgd_update(&network[i].weight, (real)s->rate, (real)s->momentum, (real)s->decay);
    sgd_update(&network[i].bias, (real)s->rate, (real)s->momentum, (real)s->decay);
  }
  trace_parameters(sink, "opt_after", "momentum_buffer", momentum_of);
  trace_parameters(sink, "w_after", NULL, value_of);
  return loss;
}

/* ── the program ──────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
  const char *data, *export, *trace;
  long start, batch, recorded, steps;
  settings sgd;
} options;

static int usage(void) {
  fputs("usage: train [--data DIR] [--export DIR] [--trace DIR] [--start N] [--batch N] [--samples N] [--steps N]\n"
        "  --data DIR     read weights and samples from DIR; without it they are made here\n"
        "  --export DIR   write them to DIR (which exists), and stop\n"
        "  --trace DIR    record every step into DIR\n"
        "  --start N      the first sample of the first batch (0)\n"
        "  --batch N      samples per step (16)\n"
        "  --samples N    how many of them are recorded one by one (all)\n"
        "  --steps N      steps (3), each on the next samples\n"
        "  --rate X, --momentum X, --decay X   of SGD (0.05, 0.9, 0.01)\n", stderr);
  return 3;
}

static int read_options(int count, char **words, options *o) {
  for (int i = 1; i < count; i++) {
    const char *name = words[i], *value = i + 1 < count ? words[++i] : NULL;
    long *number = !strcmp(name, "--start") ? &o->start : !strcmp(name, "--batch") ? &o->batch
                   : !strcmp(name, "--samples") ? &o->recorded : !strcmp(name, "--steps") ? &o->steps : NULL;
    const char **text = !strcmp(name, "--data") ? &o->data : !strcmp(name, "--export") ? &o->export
                        : !strcmp(name, "--trace") ? &o->trace : NULL;
    double *decimal = !strcmp(name, "--rate") ? &o->sgd.rate : !strcmp(name, "--momentum") ? &o->sgd.momentum
                      : !strcmp(name, "--decay") ? &o->sgd.decay : NULL;
    char *end = NULL;
    if (!value || (!number && !text && !decimal)) return 0;
    if (text) *text = value;
    if (number) *number = strtol(value, &end, 10);
    if (decimal) *decimal = strtod(value, &end);
    if (!text && (*end || end == value)) return 0;
    if (number && (*number < 0 || *number > 1000000)) return 0;
  }
  if (o->recorded < 0 || o->recorded > o->batch) o->recorded = o->batch;
  return o->batch > 0;
}

static int train(const options *o) {
  bpt_writer *writer = NULL;
  bpt_sink sink, *traced = NULL;
  if (o->trace) {
    bpt_open(&writer, o->trace, "plain C");
    describe(writer, o->batch, o->recorded, o->start, &o->sgd);
    sink = bpt_writer_sink(writer);
    traced = &sink;
  }
  for (long step = 0; step < o->steps; step++) {
    if (traced) bpt_begin_step(writer, step);
    real loss = run_step(step == 0, o->start + step * o->batch, o->batch, o->recorded, &o->sgd, traced);
    if (traced) bpt_end_step(writer);
    printf("step %ld: loss %.6f\n", step, (double)loss);
  }
  bpt_status status = traced ? bpt_close(writer) : BPT_OK;
  if (status) fprintf(stderr, "train: the trace %s is not whole: %s\n", o->trace, bpt_message(status));
  return status ? 2 : 0;
}

int main(int count, char **words) {
  options o = {NULL, NULL, NULL, 0, 16, -1, 3, {0.05, 0.9, 0.01}};
  int result = 2;
  if (!read_options(count, words, &o)) return usage();
  make_samples();
  if (make_network() && (!o.data || transfer_all(o.data, 1)))
    result = o.export ? (transfer_all(o.export, 0) ? 0 : 2) : train(&o);
  free_network();
  return result;
}
