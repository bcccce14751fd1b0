/* Every function of the header, in C and in C++; what each returned is printed. The folder to write into is the argument. */
#define BACKPROOF_TRACE_IMPLEMENTATION
#include "backproof_trace.h"

#include <stdint.h>

static bpt_status count(void *context, const bpt_event *event) {
  (void)event;
  ++*(int *)context;
  return BPT_OK;
}

int main(int argc, char **argv) {
  const float f32[6] = {1, 2, 3, 4, 5, 6};
  const double f64[2] = {0.1, -1e300};
  const uint16_t f16[2] = {0x3c00, 0xc000}, bf16[2] = {0x3f80, 0xc000};
  const signed char i8[4] = {-128, 0, 3, 127};
  const int64_t i64[3] = {1, -2, 3};
  const int32_t i32[1] = {7};
  const size_t shape[4] = {1, 1, 2, 3};
  const long wholes[2] = {2, 3};
  char name[200], deep[600];
  bpt_writer *w = NULL, *other = NULL;
  bpt_sink sink, counter;
  int seen = 0;
  size_t i;
  if (argc != 2) return 3;

  printf("open %d\n", bpt_open(&w, argv[1], "test \"1\"\n"));
  bpt_batch(w, 4, 2);
  bpt_phase_scale(w, "agrad", 4);
  bpt_layer(w, "fc", "linear", "input", "weight,bias");
  bpt_layer(w, "act", "leaky_relu", "fc", NULL);
  bpt_set_real(w, "negative_slope", 0.01);
  bpt_layer(w, "shape", "reshape", "act", "");
  bpt_set_wholes(w, "shape", 2, wholes);
  bpt_set_whole(w, "extra", -1);
  bpt_set_text(w, "mode", "a\\b");
  bpt_optimizer(w, "sgd");
  bpt_set_real(w, "lr", 0.1);
  printf("note %d\n", bpt_note(w, "seed", "7"));
  sink = bpt_writer_sink(w);
  printf("begin %d\n", bpt_begin_step(w, 0));
  printf("f32 %d\n", bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_3d(BPT_FLOAT32, f32, 1, 2, 3)));
  printf("nd %d\n", bpt_fire(&sink, "fc", "fwd", NULL, 1, bpt_nd(BPT_FLOAT32, f32, 4, shape)));
  printf("f64 %d\n", bpt_fire(&sink, "fc", "w_before", "weight", BPT_BATCH, bpt_2d(BPT_FLOAT64, f64, 1, 2)));
  printf("f16 %d\n", bpt_fire(&sink, "act", "fwd", NULL, 0, bpt_1d(BPT_FLOAT16, f16, 2)));
  printf("bf16 %d\n", bpt_fire(&sink, "act", "fwd", NULL, 1234, bpt_1d(BPT_BFLOAT16, bf16, 2)));
  printf("i8 %d\n", bpt_fire(&sink, "shape", "fwd", NULL, 0, bpt_scaled(bpt_1d(BPT_INT8, i8, 4), 0.5, 3)));
  printf("i64 %d\n", bpt_fire(&sink, "label", "fwd", NULL, 0, bpt_1d(BPT_INT64, i64, 3)));
  printf("i32 %d\n", bpt_fire(&sink, "label", "fwd", NULL, 1, bpt_1d(BPT_INT32, i32, 1)));
  printf("scalar %d\n", bpt_fire(&sink, "loss", "fwd", NULL, BPT_BATCH, bpt_nd(BPT_FLOAT32, f32, 0, NULL)));
  printf("empty %d\n", bpt_fire(&sink, "fc", "agrad", NULL, 0, bpt_1d(BPT_FLOAT32, NULL, 0)));
  printf("end %d\n", bpt_end_step(w));
  printf("null %d\n", bpt_fire(NULL, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)));
  counter.fire = count;
  counter.context = &seen;
  bpt_fire(&counter, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6));
  printf("seen %d\n", seen);
  printf("close %d\n", bpt_close(w));

  printf("again %d\n", bpt_open(&other, argv[1], "second"));
  printf("kept %d\n", bpt_begin_step(other, 0));
  printf("closed %d\n", bpt_close(other));

  snprintf(deep, sizeof deep, "%s/", argv[1]);
  for (i = strlen(deep); i < 560; i++) deep[i] = 'x';
  deep[i] = 0;
  printf("long %d\n", bpt_open(&other, deep, "long"));
  bpt_close(other);

#define REFUSED(what, call)                              \
  do {                                                   \
    snprintf(name, sizeof name, "%s/%s", argv[1], what); \
    bpt_open(&other, name, what);                        \
    bpt_begin_step(other, 0);                            \
    sink = bpt_writer_sink(other);                       \
    (void)(call);                                        \
    printf("%s %d", what, bpt_end_step(other));          \
    printf(" %d\n", bpt_close(other));                   \
  } while (0)
  REFUSED("slash", bpt_fire(&sink, "../fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)));
  REFUSED("nameless", bpt_fire(&sink, "", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)));
  REFUSED("phase", bpt_fire(&sink, "fc", "forward", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)));
  REFUSED("dims", bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_nd(BPT_FLOAT32, f32, 9, NULL)));
  REFUSED("data", bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, NULL, 6)));
  REFUSED("huge", bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_2d(BPT_FLOAT32, f32, (size_t)-1 / 2, 8)));
  REFUSED("twice", (bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)),
                    bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6))));
  REFUSED("set", (bpt_end_step(other), bpt_begin_step(other, 1), bpt_set_whole(other, "stride", 1)));
  REFUSED("fine", bpt_fire(&sink, "fc", "fwd", NULL, 0, bpt_1d(BPT_FLOAT32, f32, 6)));
  printf("nobody %d %s\n", bpt_close(NULL), bpt_message(BPT_TOO_LONG));
  return 0;
}
