/* Trains a perceptron on made-up data through the C interface, and prints the loss of each epoch.
 *
 *     cc -std=c11 train_mlp.c $(pkg-config --cflags --libs flexflow) -o train_mlp && ./train_mlp
 */
#include <flexflow_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 500, BATCH = 32, FEATURES = 16, HIDDEN = 32, CLASSES = 3, EPOCHS = 10 };

/* Every call returns a status; the library keeps this thread's message. */
static void check(ff_status status) {
  if (status == FF_OK) return;
  fprintf(stderr, "train_mlp: %s\n", ff_last_error());
  exit(EXIT_FAILURE);
}

static ff_attr integer(const char* name, int64_t value) {
  return (ff_attr){.name = name, .type = FF_ATTR_INT, .i = value};
}
static ff_attr real(const char* name, double value) {
  return (ff_attr){.name = name, .type = FF_ATTR_FLOAT, .f = value};
}
static ff_attr text(const char* name, const char* value) {
  return (ff_attr){.name = name, .type = FF_ATTR_STRING, .s = value};
}

/* An operator of one input; a dense layer ("linear") makes its weights itself. */
static ff_tensor layer(ff_handle graph, const char* op, ff_tensor input, const ff_attr* attrs, size_t n) {
  ff_tensor output;
  size_t outputs;
  check(ff_graph_add_op(graph, op, NULL, attrs, n, &input, 1, &output, 1, &outputs));
  return output;
}

static ff_tensor build(ff_handle graph, ff_tensor* x) {
  const int64_t shape[] = {BATCH, FEATURES};
  const ff_attr extents = {.name = "shape", .type = FF_ATTR_INTS, .ints = shape, .n = 2};
  size_t outputs;
  check(ff_graph_add_op(graph, "input", "x", &extents, 1, NULL, 0, x, 1, &outputs));
  const ff_attr hidden[] = {integer("out_channels", HIDDEN), text("activation", "relu")};
  const ff_attr top[] = {integer("out_channels", CLASSES)};
  ff_tensor t = layer(graph, "linear", *x, hidden, 2);
  t = layer(graph, "linear", t, top, 1);
  return layer(graph, "softmax", t, NULL, 0);
}

int main(void) {
  static float data[SAMPLES][FEATURES];
  static int32_t labels[SAMPLES]; /* which of the first numbers is the largest */
  for (int i = 0; i < SAMPLES; ++i) {
    for (int j = 0; j < FEATURES; ++j) data[i][j] = (float)rand() / (float)RAND_MAX;
    for (int j = 1; j < CLASSES; ++j)
      if (data[i][j] > data[i][labels[i]]) labels[i] = j;
  }

  ff_handle graph, model, dataset;
  ff_tensor x, label;
  check(ff_graph_create(0, &graph));
  const ff_attr options[] = {integer("output", build(graph, &x)), text("loss", "sparse_categorical_crossentropy"),
                             text("metrics", "accuracy"), text("optimizer", "adam"), real("learning_rate", 0.01)};
  check(ff_compile(graph, options, sizeof options / sizeof *options, &model));
  check(ff_model_label(model, &label));

  const int64_t data_shape[] = {SAMPLES, FEATURES}, label_shape[] = {SAMPLES, 1};
  const ff_tensor inputs[] = {x, label};
  const ff_array arrays[] = {{data, FF_FLOAT32, 2, data_shape}, {labels, FF_INT32, 2, label_shape}};
  check(ff_dataset_create(graph, inputs, arrays, 2, &dataset));
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    ff_progress progress;
    double totals[8]; /* samples, loss, correct, ... */
    size_t n = 8;
    check(ff_metrics_reset(model));
    check(ff_dataset_begin(dataset, BATCH, 1, 0, epoch, 0, 0));
    check(ff_run(model, FF_TRAIN_STEP, dataset, SAMPLES, 0, NULL, &progress));
    check(ff_metrics_read(model, totals, &n, NULL));
    printf("epoch %d: loss %.4f, accuracy %.3f\n", epoch, totals[1] / totals[0], totals[2] / totals[0]);
  }
  check(ff_close(dataset));
  check(ff_close(model));
  check(ff_close(graph));
  return EXIT_SUCCESS;
}
