// ff_compile: options become a CompileSpec, an engine is made, and the model stands.
#include <algorithm>
#include <sstream>

#include "base/ranks.h"
#include "c_api/model.h"
#include "c_api/objects.h"
#include "c_api/options.h"
#include "engines/plugins.h"
#include "kernels/kernel.h"
#include "ops/op.h"

using namespace ff;
using namespace ff::c_api;

namespace {

int small_count(Options& options, const std::string& name, int64_t fallback) {
  const int64_t value = options.take(name, fallback);
  if (value != static_cast<int>(value)) bad_value("compile: ", name, " is ", value, ", which no machine has");
  return static_cast<int>(value);
}

Attrs metric_flags(const std::string& names, bool sparse) {
  Attrs flags = {{"sparse", sparse}};
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');)
    if (!name.empty()) flags.set(name, true);
  return complete_attrs(op_def("metrics"), std::move(flags), "metrics");
}

// The label has the prediction's type, or holds the class of each row. It is an input of the graph, shared by compiles
// that agree on its type.
Value add_label(GraphObject& object, Value output, bool sparse) {
  Graph& graph = object.graph;
  TensorType type = graph.type(output);
  if (sparse) {
    if (type.rank() == 0)
      bad_value("sparse_categorical_crossentropy needs a prediction with classes along its last axis; got a scalar");
    type.dtype = DType::int32;
    type.shape.back() = 1;
  }
  for (const NodeId id : object.labels)
    if (graph.node(id).outputs[0] == type) return {id, 0};
  object.labels.push_back(
      add_op(graph, "input", {{"shape", type.shape}, {"dtype", std::string(name_of(type.dtype))}}, {}, "label"));
  return {object.labels.back(), 0};
}

CompileSpec take_spec(GraphObject& object, Options& options) {
  CompileSpec spec;
  spec.output = value_of(object.graph, options.take<int64_t>("output", -1));
  spec.seed = object.seed;
  spec.fuse = options.take("fuse", true);
  spec.device = options.take<std::string>("device", "cpu");
  spec.loss = options.take<std::string>("loss", "");
  spec.loss_attrs = options.take_prefix("loss_");
  const auto metrics = options.take<std::string>("metrics", "");
  const bool sparse = spec.loss == "sparse_categorical_crossentropy";
  spec.metrics = metric_flags(metrics, sparse);
  spec.optimizer = options.take<std::string>("optimizer", "");
  spec.optimizer_attrs = options.take_prefix("optimizer_");
  spec.schedule = options.take<std::string>("schedule", "");
  spec.schedule_attrs = options.take_prefix("schedule_");
  spec.clip_norm = options.take("clip_norm", 0.0);
  spec.strategy = take_strategy(object.graph, options);
  if (!spec.loss.empty()) {
    spec.loss_attrs = complete_attrs(op_def(spec.loss), spec.loss_attrs, spec.loss);
    spec.label = add_label(object, spec.output, sparse);
  } else if (!metrics.empty()) {
    bad_value("compile: metrics without a loss; give a loss, or leave the metrics out");
  }
  if (!spec.optimizer.empty())
    spec.optimizer_attrs = complete_attrs(op_def(spec.optimizer), spec.optimizer_attrs, spec.optimizer);
  if (!spec.schedule.empty())
    spec.schedule_attrs = complete_attrs(op_def(spec.schedule), spec.schedule_attrs, spec.schedule);
  return spec;
}

std::unique_ptr<Engine> take_engine(Options& options, const std::string& device) {
  const auto name = options.take<std::string>("engine", default_engine());
  const EngineConfig config{.device = device,
                            .devices = small_count(options, "devices", 1),
                            .threads = small_count(options, "threads", 0),
                            .shared_memory = options.take("shared_memory", true),
                            .flags = lines_of(options.take<std::string>("runtime_flags", ""))};
  options.finish();
  return make_engine(name, config);
}

// A new compile starts its optimizer, metrics and gradients afresh; weights and running statistics stay.
void reset_training_state(State& state, double learning_rate) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : state.entries())
    if (name.rfind("optimizer/", 0) == 0 || name.rfind("metrics/", 0) == 0 || name.rfind("gradient/", 0) == 0)
      names.push_back(name);
  for (const std::string& name : names) state.erase(name);
  State::Entry& rate = state.entry("optimizer/learning_rate", {DType::float64, {}});
  rate.write(&learning_rate);
  rate.ready = rate.touched = true;
}

}  // namespace

namespace ff::c_api {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string default_engine() { return ranks().count > 1 || runtime_is_up() ? "legion" : "local"; }

}  // namespace ff::c_api

extern "C" {

ff_status ff_compile(ff_handle graph, const ff_attr* options, size_t n_options, ff_handle* model) {
  return guarded([&] {
    required(model, "model");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    Options given(attrs_of(options, n_options));
    const CompileSpec spec = take_spec(*object, given);
    const auto mode = given.take<std::string>("mode", "training");
    if (mode != "training" && mode != "inference")
      bad_value("compile: mode is \"", mode, "\"; expected training or inference");
    const auto rate = given.take("learning_rate", 0.01);
    auto made = std::make_shared<Model>(object, spec, mode == "training", take_engine(given, spec.device));
    made->check_fit();
    reset_training_state(object->state, rate);
    object->model = made;
    *model = keep(std::move(made));
  });
}

ff_status ff_model_place(ff_handle model, const ff_attr* options, size_t n_options) {
  return guarded([&] {
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    Options given(attrs_of(options, n_options));
    Strategy strategy = take_strategy(object->owner().graph, given);
    object->move_to(std::move(strategy), take_engine(given, object->spec().device));
  });
}

ff_status ff_model_label(ff_handle model, ff_tensor* label) {
  return guarded([&] {
    required(label, "label");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    if (!object->spec().label.valid()) fail(ErrorKind::state, "the model was compiled without a loss: it has no label");
    *label = tensor_of(object->spec().label);
  });
}

}  // extern "C"
