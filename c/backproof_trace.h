/* backproof_trace.h: record what a training step computes, layer by layer, for `bp compare`. C99 and C++11; no dependency.

   In one source file:      #define BACKPROOF_TRACE_IMPLEMENTATION
   and in all that trace:   #include "backproof_trace.h"

   A program tells a *sink* what it has just computed; what becomes of it is the sink's business. The sink here writes a folder:
   `trace.json`, the manifest, and `stepNNN/<probe>.<phase>[.<parameter>][.sNNN].npy`.

     bpt_writer *writer;
     bpt_sink sink;
     bpt_open(&writer, "out/trace", "my framework 1.0");
     bpt_layer(writer, "fc", "linear", "input", "weight,bias"); // the network, in the order of execution
     sink = bpt_writer_sink(writer);
     bpt_begin_step(writer, 0);
       bpt_fire(&sink, "fc", "fwd", NULL, sample, bpt_1d(BPT_FLOAT32, y, 10));
       ...
     bpt_end_step(writer);                              // the step's folder appears now, whole
     if (bpt_close(writer) != BPT_OK) ...

   A NULL sink costs a comparison: `bpt_fire(NULL, ...)` returns BPT_OK and touches nothing. Nothing here ends the program or prints.
   Every function returns what went wrong, and a writer remembers the first failure: it writes nothing more, and `bpt_close` returns
   that failure. So a program may look once, at the end.

   Phases: fwd (a layer's output), lossgrad (gradient of the loss with respect to what the loss reads), agrad (gradient with respect to
   the layer's *output*), grad_raw (a parameter's gradient, summed over the batch), grad_scaled (what the optimizer reads), w_before,
   w_after, opt_before, opt_after. Samples count from 0; BPT_BATCH says that a tensor is of the whole batch. */
#ifndef BACKPROOF_TRACE_H
#define BACKPROOF_TRACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BPT_MAX_DIMS 8
#define BPT_BATCH (-1L)

typedef enum {
  BPT_OK = 0,
  BPT_NO_MEMORY, /* malloc failed */
  BPT_BAD_NAME,  /* a name is made of letters, digits and . # + - _ ~, starts with none of . - ~, ends with no dot, has <= 100 bytes;
                    or a phase that there is not; or something set of no layer */
  BPT_BAD_SHAPE, /* more than BPT_MAX_DIMS dimensions, or data is NULL and the size is not 0 */
  BPT_TOO_LONG,  /* a path is longer than the file system takes; nothing was cut */
  BPT_EXISTS,    /* the folder holds a trace already, or a step or tensor was written twice */
  BPT_NO_STEP,   /* a tensor or an end without bpt_begin_step, or a second begin */
  BPT_CANNOT_WRITE /* the system says no; errno tells */
} bpt_status;

typedef enum { BPT_FLOAT32, BPT_FLOAT64, BPT_FLOAT16, BPT_BFLOAT16, BPT_INT8, BPT_INT32, BPT_INT64 } bpt_dtype;

/* A borrowed view of numbers in C order. Quantised ones stand for scale·(stored - zero_point); else scale is 1, zero_point 0. */
typedef struct {
  const void *data;
  bpt_dtype dtype;
  int dims;
  size_t shape[BPT_MAX_DIMS];
  double scale;
  int zero_point;
} bpt_tensor;

/* One thing seen. Everything is borrowed until the sink returns. */
typedef struct {
  const char *probe, *phase, *parameter; /* parameter may be NULL */
  long sample;                           /* BPT_BATCH: of the whole batch */
  bpt_tensor tensor;
} bpt_event;

typedef struct {
  bpt_status (*fire)(void *context, const bpt_event *event);
  void *context;
} bpt_sink;

typedef struct bpt_writer bpt_writer;

/* Tensors of one, two, three and any number of dimensions. */
bpt_tensor bpt_1d(bpt_dtype dtype, const void *data, size_t n);
bpt_tensor bpt_2d(bpt_dtype dtype, const void *data, size_t rows, size_t columns);
bpt_tensor bpt_3d(bpt_dtype dtype, const void *data, size_t a, size_t b, size_t c);
bpt_tensor bpt_nd(bpt_dtype dtype, const void *data, int dims, const size_t *shape);
bpt_tensor bpt_scaled(bpt_tensor whole, double scale, int zero_point); /* the same bytes, standing for scale·(stored - zero_point) */

/* Tell a sink. */
bpt_status bpt_fire(const bpt_sink *sink, const char *probe, const char *phase, const char *parameter, long sample,
                    bpt_tensor tensor);

/* The writer. `folder` is made where it is missing (not its parents), and must hold no trace yet. */
bpt_status bpt_open(bpt_writer **writer, const char *folder, const char *framework);
bpt_sink bpt_writer_sink(bpt_writer *writer);
bpt_status bpt_begin_step(bpt_writer *writer, long step);
bpt_status bpt_end_step(bpt_writer *writer);
bpt_status bpt_close(bpt_writer *writer); /* an unfinished step stays behind as stepNNN.part, which no reader takes for a step */
bpt_status bpt_failure(const bpt_writer *writer);
const char *bpt_message(bpt_status status);

/* The manifest. First the run: how many samples a step has, how many of them (the first) are recorded one by one; and, where a phase's
   numbers are not those of each sample's own loss (and grad_raw not their sum), what to multiply them by: B for means over a batch. */
bpt_status bpt_batch(bpt_writer *writer, long batch, long samples);
bpt_status bpt_phase_scale(bpt_writer *writer, const char *phase, double factor);
bpt_status bpt_note(bpt_writer *writer, const char *key, const char *value); /* a remark: nothing is concluded from it */

/* Then the network, in the order of execution, and the optimizer. `reads` names what a layer reads, separated by commas: layers before
   it, "input" and "label"; `parameters` names its trainable ones, or is NULL. docs/traces.md has the kinds and what is set of each. */
bpt_status bpt_layer(bpt_writer *writer, const char *probe, const char *kind, const char *reads, const char *parameters);
bpt_status bpt_optimizer(bpt_writer *writer, const char *name);
bpt_status bpt_set_whole(bpt_writer *writer, const char *key, long value); /* of the layer or optimizer named last */
bpt_status bpt_set_real(bpt_writer *writer, const char *key, double value);
bpt_status bpt_set_text(bpt_writer *writer, const char *key, const char *value);
bpt_status bpt_set_wholes(bpt_writer *writer, const char *key, int count, const long *values);

/* One tensor as a .npy file of version 1.0, whole or not at all. BFLOAT16 is stored as its bits, in uint16. */
bpt_status bpt_write_npy(const char *path, const bpt_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif /* BACKPROOF_TRACE_H */

#ifdef BACKPROOF_TRACE_IMPLEMENTATION

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#define BPT_MKDIR(path) _mkdir(path)
#else
#include <sys/stat.h>
#include <sys/types.h>
#define BPT_MKDIR(path) mkdir(path, 0777)
#endif

/* ── text that grows ──────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
  char *text;
  size_t length, room;
  int failed; /* once memory was missing, the text is of no use */
} bpt_text;

static void bpt_put(bpt_text *t, const char *more) {
  size_t n = strlen(more);
  if (t->failed) return;
  if (t->length + n + 1 > t->room) {
    size_t room = (t->length + n + 1) * 2;
    char *grown = (char *)realloc(t->text, room);
    if (!grown) {
      t->failed = 1;
      return;
    }
    t->text = grown;
    t->room = room;
  }
  memcpy(t->text + t->length, more, n + 1);
  t->length += n;
}

static void bpt_put_whole(bpt_text *t, long value) {
  char digits[32];
  snprintf(digits, sizeof digits, "%ld", value);
  bpt_put(t, digits);
}

static void bpt_put_real(bpt_text *t, double value) {
  char digits[40];
  char *comma;
  snprintf(digits, sizeof digits, "%.17g", value);
  comma = strchr(digits, ','); /* a locale may write it so */
  if (comma) *comma = '.';
  bpt_put(t, value - value != 0 ? "null" : digits); /* JSON has no infinity */
}

static void bpt_put_string(bpt_text *t, const char *value) {
  char piece[8];
  bpt_put(t, "\"");
  for (; *value; value++) {
    unsigned char c = (unsigned char)*value;
    if (c == '"' || c == '\\' || c < 32)
      snprintf(piece, sizeof piece, "\\u%04x", c);
    else {
      piece[0] = (char)c;
      piece[1] = 0;
    }
    bpt_put(t, piece);
  }
  bpt_put(t, "\"");
}

/* ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

const char *bpt_message(bpt_status status) {
  switch (status) {
    case BPT_OK: return "all is written";
    case BPT_NO_MEMORY: return "no memory";
    case BPT_BAD_NAME: return "a name has another character than letters, digits and .#+-_~, or more than 100; or the phase is unknown; or no layer is named";
    case BPT_BAD_SHAPE: return "a tensor has more than BPT_MAX_DIMS dimensions, or no data";
    case BPT_TOO_LONG: return "a path is longer than the file system takes; nothing was written under a shorter one";
    case BPT_EXISTS: return "it exists already: a trace in this folder, a step, or a tensor of this step";
    case BPT_NO_STEP: return "no step is open (bpt_begin_step), or one is open still";
    case BPT_CANNOT_WRITE: return "the system does not let it be written (errno tells why)";
  }
  return "unknown status";
}

static bpt_status bpt_system_failure(void) { return errno == ENAMETOOLONG ? BPT_TOO_LONG : BPT_CANNOT_WRITE; }

static int bpt_exists(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file) fclose(file);
  return file != NULL;
}

/* Bytes to `path`, by way of `path`.part: what has the name is whole. */
static bpt_status bpt_write_whole(const char *path, const void *head, size_t head_size, const void *body, size_t body_size) {
  bpt_text part = {NULL, 0, 0, 0};
  bpt_status status = BPT_OK;
  FILE *file;
  int good;
  bpt_put(&part, path);
  bpt_put(&part, ".part");
  if (part.failed) {
    free(part.text);
    return BPT_NO_MEMORY;
  }
  file = fopen(part.text, "wb");
  if (!file)
    status = bpt_system_failure();
  else {
    good = fwrite(head, 1, head_size, file) == head_size && (!body_size || fwrite(body, 1, body_size, file) == body_size);
    if (fclose(file) != 0) good = 0; /* a full disk may show only here */
    if (!good) status = BPT_CANNOT_WRITE;
#ifdef _WIN32
    if (!status) remove(path); /* rename does not replace there */
#endif
    if (!status && rename(part.text, path) != 0) status = bpt_system_failure();
    if (status) remove(part.text);
  }
  free(part.text);
  return status;
}

/* ── one tensor ───────────────────────────────────────────────────────────────────────────────────────────────────── */

bpt_tensor bpt_nd(bpt_dtype dtype, const void *data, int dims, const size_t *shape) {
  bpt_tensor t;
  int i;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = dtype;
  t.dims = dims;
  t.scale = 1;
  for (i = 0; i < dims && dims <= BPT_MAX_DIMS; i++) t.shape[i] = shape[i]; /* more are refused when they are written */
  return t;
}

bpt_tensor bpt_1d(bpt_dtype dtype, const void *data, size_t n) { return bpt_nd(dtype, data, 1, &n); }

bpt_tensor bpt_2d(bpt_dtype dtype, const void *data, size_t rows, size_t columns) {
  size_t shape[2];
  shape[0] = rows;
  shape[1] = columns;
  return bpt_nd(dtype, data, 2, shape);
}

bpt_tensor bpt_3d(bpt_dtype dtype, const void *data, size_t a, size_t b, size_t c) {
  size_t shape[3];
  shape[0] = a;
  shape[1] = b;
  shape[2] = c;
  return bpt_nd(dtype, data, 3, shape);
}

bpt_tensor bpt_scaled(bpt_tensor whole, double scale, int zero_point) {
  whole.scale = scale;
  whole.zero_point = zero_point;
  return whole;
}

static size_t bpt_item_size(bpt_dtype dtype) {
  switch (dtype) {
    case BPT_FLOAT32: return 4;
    case BPT_FLOAT64: return 8;
    case BPT_FLOAT16: return 2;
    case BPT_BFLOAT16: return 2;
    case BPT_INT8: return 1;
    case BPT_INT32: return 4;
    case BPT_INT64: return 8;
  }
  return 0;
}

static const char *bpt_descr(bpt_dtype dtype) {
  const unsigned short probe = 1;
  const int little = *(const unsigned char *)&probe;
  switch (dtype) {
    case BPT_FLOAT32: return little ? "<f4" : ">f4";
    case BPT_FLOAT64: return little ? "<f8" : ">f8";
    case BPT_FLOAT16: return little ? "<f2" : ">f2";
    case BPT_BFLOAT16: return little ? "<u2" : ">u2";
    case BPT_INT8: return "|i1";
    case BPT_INT32: return little ? "<i4" : ">i4";
    case BPT_INT64: return little ? "<i8" : ">i8";
  }
  return "";
}

bpt_status bpt_write_npy(const char *path, const bpt_tensor *tensor) {
  /* The longest header: 8 dimensions of 20 digits with commas, and 60 other characters. */
  char head[10 + 64 + 22 * BPT_MAX_DIMS + 64];
  size_t at = 10, size = bpt_item_size(tensor->dtype), total;
  int i;
  if (tensor->dims < 0 || tensor->dims > BPT_MAX_DIMS || !size) return BPT_BAD_SHAPE;
  for (i = 0; i < tensor->dims; i++) {
    if (tensor->shape[i] && size > (size_t)-1 / tensor->shape[i]) return BPT_BAD_SHAPE;
    size *= tensor->shape[i];
  }
  if (!tensor->data && size) return BPT_BAD_SHAPE;
  at += (size_t)snprintf(head + at, sizeof head - at, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                         bpt_descr(tensor->dtype));
  for (i = 0; i < tensor->dims; i++)
    at += (size_t)snprintf(head + at, sizeof head - at, "%zu%s", tensor->shape[i],
                           tensor->dims == 1 ? "," : i + 1 < tensor->dims ? ", " : "");
  at += (size_t)snprintf(head + at, sizeof head - at, "), }");
  total = (at + 1 + 63) / 64 * 64; /* the numbers begin at a multiple of 64 */
  memset(head + at, ' ', total - at);
  head[total - 1] = '\n';
  memcpy(head, "\x93NUMPY\x01\x00", 8);
  head[8] = (char)((total - 10) & 255);
  head[9] = (char)((total - 10) >> 8);
  return bpt_write_whole(path, head, total, tensor->data, size);
}

/* ── the writer ───────────────────────────────────────────────────────────────────────────────────────────────────── */

struct bpt_writer {
  bpt_status failure;
  bpt_text folder, step, part;   /* paths: of the trace, of the open step, and of the open step until it is whole */
  bpt_text framework, run, scales, notes, probes, optimizer, steps; /* the pieces of the manifest */
  bpt_text tensors;              /* of the open step: key, dtype, shape */
  bpt_text *last;                /* what bpt_set_… speaks of */
  int set;                       /* how much was set of it */
  long index;
  int open;
};

static bpt_status bpt_fail(bpt_writer *w, bpt_status status) {
  if (!w) return BPT_NO_MEMORY;
  if (!w->failure) w->failure = status;
  return w->failure;
}

static int bpt_good_name(const char *name) {
  size_t n = name ? strlen(name) : 0;
  if (!n || n > 100 || strchr(".-~", *name) || name[n - 1] == '.') return 0;
  for (; *name; name++)
    if (!((*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
          strchr(".#+-_~", *name)))
      return 0;
  return 1;
}

static int bpt_is_phase(const char *phase) {
  static const char *const phases[] = {"fwd",      "lossgrad", "agrad",      "grad_raw", "grad_scaled",
                                       "w_before", "w_after",  "opt_before", "opt_after"};
  size_t i;
  for (i = 0; phase && i < sizeof phases / sizeof *phases; i++)
    if (!strcmp(phase, phases[i])) return 1;
  return 0;
}

static void bpt_clear(bpt_text *t) {
  free(t->text);
  memset(t, 0, sizeof *t);
}

static void bpt_put_key(bpt_text *t, const char *key) {
  bpt_put(t, t->length ? ", " : "");
  bpt_put_string(t, key);
  bpt_put(t, ": ");
}

/* "a,b" as ["a", "b"] */
static void bpt_put_list(bpt_text *t, const char *names) {
  char piece[2] = {0, 0};
  bpt_put(t, "[");
  if (names && *names) {
    bpt_put(t, "\"");
    for (; *names; names++) {
      piece[0] = *names;
      bpt_put(t, *names == ',' ? "\", \"" : piece);
    }
    bpt_put(t, "\"");
  }
  bpt_put(t, "]");
}

/* Every name of "a,b" is one. */
static int bpt_good_list(const char *names) {
  char piece[104];
  size_t n;
  while (names && *names) {
    n = strcspn(names, ",");
    if (n > 100) return 0;
    memcpy(piece, names, n);
    piece[n] = 0;
    if (!bpt_good_name(piece)) return 0;
    names += n;
    if (*names && !*++names) return 0; /* a comma, and nothing after it */
  }
  return 1;
}

bpt_status bpt_open(bpt_writer **writer, const char *folder, const char *framework) {
  bpt_writer *w = (bpt_writer *)calloc(1, sizeof *w);
  *writer = w;
  if (!w) return BPT_NO_MEMORY;
  bpt_put(&w->folder, folder);
  bpt_put(&w->step, folder);
  bpt_put(&w->step, "/trace.json");
  bpt_put_string(&w->framework, framework);
  if (w->folder.failed || w->step.failed || w->framework.failed) return bpt_fail(w, BPT_NO_MEMORY);
  if (BPT_MKDIR(folder) != 0 && errno != EEXIST) return bpt_fail(w, bpt_system_failure());
  if (bpt_exists(w->step.text)) return bpt_fail(w, BPT_EXISTS);
  return BPT_OK;
}

bpt_status bpt_failure(const bpt_writer *writer) { return writer ? writer->failure : BPT_NO_MEMORY; }

bpt_status bpt_batch(bpt_writer *w, long batch, long samples) {
  long i;
  if (!w || w->failure) return bpt_failure(w);
  w->run.length = 0;
  bpt_put(&w->run, "\"batch\": ");
  bpt_put_whole(&w->run, batch);
  bpt_put(&w->run, ",\n \"samples\": [");
  for (i = 0; i < samples; i++) {
    if (i) bpt_put(&w->run, ", ");
    bpt_put_whole(&w->run, i);
  }
  bpt_put(&w->run, "],\n ");
  return BPT_OK;
}

bpt_status bpt_phase_scale(bpt_writer *w, const char *phase, double factor) {
  if (!w || w->failure) return bpt_failure(w);
  if (!bpt_is_phase(phase)) return bpt_fail(w, BPT_BAD_NAME);
  bpt_put_key(&w->scales, phase);
  bpt_put_real(&w->scales, factor);
  return BPT_OK;
}

bpt_status bpt_note(bpt_writer *w, const char *key, const char *value) {
  if (!w || w->failure) return bpt_failure(w);
  bpt_put_key(&w->notes, key);
  bpt_put_string(&w->notes, value);
  return BPT_OK;
}

static void bpt_end_last(bpt_writer *w) {
  if (w->last == &w->probes) bpt_put(&w->probes, "}}");
  w->last = NULL;
  w->set = 0;
}

bpt_status bpt_layer(bpt_writer *w, const char *probe, const char *kind, const char *reads, const char *parameters) {
  if (!w || w->failure) return bpt_failure(w);
  if (!bpt_good_name(probe) || !kind || !bpt_good_list(reads) || !bpt_good_list(parameters)) return bpt_fail(w, BPT_BAD_NAME);
  bpt_end_last(w);
  bpt_put(&w->probes, w->probes.length ? ",\n  {\"name\": " : "\n  {\"name\": ");
  bpt_put_string(&w->probes, probe);
  bpt_put(&w->probes, ", \"parents\": ");
  bpt_put_list(&w->probes, reads);
  bpt_put(&w->probes, ", \"parameters\": ");
  bpt_put_list(&w->probes, parameters);
  bpt_put(&w->probes, ", \"kind\": ");
  bpt_put_string(&w->probes, kind);
  bpt_put(&w->probes, ", \"hyper\": {");
  w->last = &w->probes;
  return BPT_OK;
}

bpt_status bpt_optimizer(bpt_writer *w, const char *name) {
  if (!w || w->failure) return bpt_failure(w);
  bpt_end_last(w);
  w->optimizer.length = 0;
  bpt_put(&w->optimizer, "\"name\": ");
  bpt_put_string(&w->optimizer, name);
  w->last = &w->optimizer;
  w->set = 1;
  return BPT_OK;
}

static bpt_text *bpt_setting(bpt_writer *w, const char *key) {
  if (!w || w->failure) return NULL;
  if (!w->last) {
    bpt_fail(w, BPT_BAD_NAME);
    return NULL;
  }
  if (w->set++) bpt_put(w->last, ", ");
  bpt_put_string(w->last, key);
  bpt_put(w->last, ": ");
  return w->last;
}

bpt_status bpt_set_whole(bpt_writer *w, const char *key, long value) {
  bpt_text *t = bpt_setting(w, key);
  if (t) bpt_put_whole(t, value);
  return bpt_failure(w);
}

bpt_status bpt_set_real(bpt_writer *w, const char *key, double value) {
  bpt_text *t = bpt_setting(w, key);
  if (t) bpt_put_real(t, value);
  return bpt_failure(w);
}

bpt_status bpt_set_text(bpt_writer *w, const char *key, const char *value) {
  bpt_text *t = bpt_setting(w, key);
  if (t) bpt_put_string(t, value);
  return bpt_failure(w);
}

bpt_status bpt_set_wholes(bpt_writer *w, const char *key, int count, const long *values) {
  bpt_text *t = bpt_setting(w, key);
  int i;
  if (t) {
    bpt_put(t, "[");
    for (i = 0; i < count; i++) {
      if (i) bpt_put(t, ", ");
      bpt_put_whole(t, values[i]);
    }
    bpt_put(t, "]");
  }
  return bpt_failure(w);
}

/* ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

bpt_status bpt_begin_step(bpt_writer *w, long index) {
  char name[48];
  int attempt;
  if (!w || w->failure) return bpt_failure(w);
  if (w->open || index < 0) return bpt_fail(w, BPT_NO_STEP);
  w->step.length = w->tensors.length = 0;
  snprintf(name, sizeof name, "/step%03ld", index);
  bpt_put(&w->step, w->folder.text);
  bpt_put(&w->step, name);
  /* What a killed run has left there is not ours to mix with: another .part is taken. */
  for (attempt = 0;; attempt++) {
    snprintf(name, sizeof name, attempt ? ".%d.part" : ".part", attempt);
    w->part.length = 0;
    bpt_put(&w->part, w->step.text);
    bpt_put(&w->part, name);
    if (w->step.failed || w->part.failed) return bpt_fail(w, BPT_NO_MEMORY);
    if (BPT_MKDIR(w->part.text) == 0) break;
    if (errno != EEXIST || attempt > 9999) return bpt_fail(w, bpt_system_failure());
  }
  w->index = index;
  w->open = 1;
  return BPT_OK;
}

static const char *bpt_dtype_name(bpt_dtype dtype) {
  switch (dtype) {
    case BPT_FLOAT32: return "float32";
    case BPT_FLOAT64: return "float64";
    case BPT_FLOAT16: return "float16";
    case BPT_BFLOAT16: return "bfloat16";
    case BPT_INT8: return "int8";
    case BPT_INT32: return "int32";
    case BPT_INT64: return "int64";
  }
  return "";
}

static void bpt_note_tensor(bpt_text *t, const char *key, const bpt_tensor *tensor) {
  int i;
  bpt_put(t, t->length ? ",\n   " : "\n   ");
  bpt_put_string(t, key);
  bpt_put(t, ": {\"dtype\": ");
  bpt_put_string(t, bpt_dtype_name(tensor->dtype));
  bpt_put(t, ", \"shape\": [");
  for (i = 0; i < tensor->dims; i++) {
    char size[32];
    snprintf(size, sizeof size, "%s%zu", i ? ", " : "", tensor->shape[i]);
    bpt_put(t, size);
  }
  bpt_put(t, "]");
  if (tensor->scale != 1 || tensor->zero_point) {
    bpt_put(t, ", \"scale\": ");
    bpt_put_real(t, tensor->scale);
    bpt_put(t, ", \"zero_point\": ");
    bpt_put_whole(t, tensor->zero_point);
  }
  bpt_put(t, "}");
}

static bpt_status bpt_writer_fire(void *context, const bpt_event *event) {
  bpt_writer *w = (bpt_writer *)context;
  bpt_text key = {NULL, 0, 0, 0}, path = {NULL, 0, 0, 0};
  bpt_status status;
  char sample[32];
  if (!w || w->failure) return bpt_failure(w);
  if (!w->open) return bpt_fail(w, BPT_NO_STEP);
  if (!bpt_good_name(event->probe) || !bpt_is_phase(event->phase) || (event->parameter && !bpt_good_name(event->parameter)))
    return bpt_fail(w, BPT_BAD_NAME);
  bpt_put(&key, event->probe);
  bpt_put(&key, ".");
  bpt_put(&key, event->phase);
  if (event->parameter) {
    bpt_put(&key, ".");
    bpt_put(&key, event->parameter);
  }
  if (event->sample != BPT_BATCH) {
    snprintf(sample, sizeof sample, ".s%03ld", event->sample);
    bpt_put(&key, sample);
  }
  if (!key.failed) bpt_put(&path, w->part.text);
  bpt_put(&path, "/");
  if (!key.failed) bpt_put(&path, key.text);
  bpt_put(&path, ".npy");
  if (key.failed || path.failed)
    status = BPT_NO_MEMORY;
  else if (bpt_exists(path.text))
    status = BPT_EXISTS;
  else
    status = bpt_write_npy(path.text, &event->tensor);
  if (status == BPT_OK) bpt_note_tensor(&w->tensors, key.text, &event->tensor);
  bpt_clear(&key);
  bpt_clear(&path);
  return status == BPT_OK ? BPT_OK : bpt_fail(w, status);
}

bpt_sink bpt_writer_sink(bpt_writer *writer) {
  bpt_sink sink;
  sink.fire = bpt_writer_fire;
  sink.context = writer;
  return sink;
}

bpt_status bpt_fire(const bpt_sink *sink, const char *probe, const char *phase, const char *parameter, long sample,
                    bpt_tensor tensor) {
  bpt_event event;
  if (!sink) return BPT_OK;
  event.probe = probe;
  event.phase = phase;
  event.parameter = parameter;
  event.sample = sample;
  event.tensor = tensor;
  return sink->fire(sink->context, &event);
}

static const char *bpt_of(const bpt_text *t) { return t->length ? t->text : ""; }

static bpt_status bpt_write_manifest(bpt_writer *w) {
  bpt_text all = {NULL, 0, 0, 0}, path = {NULL, 0, 0, 0};
  const bpt_text *pieces[7];
  bpt_status status;
  size_t i;
  bpt_end_last(w);
  bpt_put(&all, "{\"format\": \"backproof.trace.v1\",\n \"framework\": ");
  bpt_put(&all, bpt_of(&w->framework));
  bpt_put(&all, ",\n \"store\": \"npy\",\n ");
  bpt_put(&all, bpt_of(&w->run));
  bpt_put(&all, "\"scale\": {");
  bpt_put(&all, bpt_of(&w->scales));
  bpt_put(&all, "},\n \"optimizer\": {");
  bpt_put(&all, bpt_of(&w->optimizer));
  bpt_put(&all, "},\n \"probes\": [");
  bpt_put(&all, bpt_of(&w->probes));
  bpt_put(&all, "],\n \"steps\": [");
  bpt_put(&all, bpt_of(&w->steps));
  bpt_put(&all, "],\n \"notes\": {");
  bpt_put(&all, bpt_of(&w->notes));
  bpt_put(&all, "}}\n");
  bpt_put(&path, w->folder.text);
  bpt_put(&path, "/trace.json");
  pieces[0] = &w->run;
  pieces[1] = &w->scales;
  pieces[2] = &w->optimizer;
  pieces[3] = &w->probes;
  pieces[4] = &w->steps;
  pieces[5] = &w->notes;
  pieces[6] = &all;
  status = path.failed ? BPT_NO_MEMORY : BPT_OK;
  for (i = 0; i < sizeof pieces / sizeof *pieces; i++)
    if (pieces[i]->failed) status = BPT_NO_MEMORY;
  if (!status) status = bpt_write_whole(path.text, all.text, all.length, NULL, 0);
  bpt_clear(&all);
  bpt_clear(&path);
  return status;
}

bpt_status bpt_end_step(bpt_writer *w) {
  bpt_status status;
  if (!w || w->failure) return bpt_failure(w);
  if (!w->open) return bpt_fail(w, BPT_NO_STEP);
  w->open = 0;
  if (w->tensors.failed) return bpt_fail(w, BPT_NO_MEMORY);
  if (rename(w->part.text, w->step.text) != 0) /* a folder that holds something is not replaced */
    return bpt_fail(w, errno == EEXIST || errno == ENOTEMPTY ? BPT_EXISTS : bpt_system_failure());
  bpt_put(&w->steps, w->steps.length ? ",\n  {\"index\": " : "\n  {\"index\": ");
  bpt_put_whole(&w->steps, w->index);
  bpt_put(&w->steps, ", \"tensors\": {");
  bpt_put(&w->steps, bpt_of(&w->tensors));
  bpt_put(&w->steps, "}}");
  status = bpt_write_manifest(w);
  return status == BPT_OK ? BPT_OK : bpt_fail(w, status);
}

bpt_status bpt_close(bpt_writer *w) {
  bpt_status status = bpt_failure(w);
  if (!w) return status;
  bpt_clear(&w->folder);
  bpt_clear(&w->step);
  bpt_clear(&w->part);
  bpt_clear(&w->framework);
  bpt_clear(&w->run);
  bpt_clear(&w->scales);
  bpt_clear(&w->notes);
  bpt_clear(&w->probes);
  bpt_clear(&w->optimizer);
  bpt_clear(&w->steps);
  bpt_clear(&w->tensors);
  free(w);
  return status;
}

#endif /* BACKPROOF_TRACE_IMPLEMENTATION */
