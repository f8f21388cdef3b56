// Running steps, with data sets and without.
#include <chrono>
#include <cstring>

#include "c_api/model.h"
#include "c_api/objects.h"

using namespace ff;
using namespace ff::c_api;

namespace {

// Copy the next batch into the inputs; 0 rows when the epoch is over.
int64_t load_batch(Model& model, const Dataset& data) {
  const int64_t rows = data.next_rows();
  for (size_t c = 0; rows > 0 && c < data.columns().size(); ++c) {
    TensorType type = data.columns()[c].type;
    type.shape[0] = rows;
    State::Entry& entry = model.owner().state.entry(data.columns()[c].input, type);
    data.gather(c, entry.data());
    entry.ready = true;
    ++entry.version;
  }
  if (rows > 0) model.set_batch(rows);
  return rows;
}

void keep_predictions(Model& model, int32_t sections, int64_t rows, int64_t from, const ff_array& array) {
  Executable& executable = model.executable(model.step_spec(sections, rows));
  const Plan& plan = executable.plan();
  const TensorType& type = plan.buffers[plan.results.at("prediction")].type;
  Shape expected = type.shape;
  if (expected.empty()) bad_value("predictions: the output is a scalar; it has no rows");
  if (type.shape[0] != rows)
    bad_value("predictions: the output has shape ", to_string(type.shape), " for a batch of ", rows,
              ": its rows are not those of the batch; run forward and read the tensor instead");
  const TensorType given = c_api::type_of(array);
  expected[0] = given.rank() > 0 ? given.shape[0] : 0;
  if (given.shape != expected || given.dtype != type.dtype || from + type.shape[0] > expected[0])
    bad_value("predictions: got ", to_string(given), "; expected ", name_of(type.dtype), " rows of ",
              to_string(type.shape), " for every sample");
  if (type.shape[0] == 0) return;
  const size_t row = type.bytes() / static_cast<size_t>(type.shape[0]);
  std::memcpy(static_cast<char*>(array.data) + static_cast<size_t>(from) * row, executable.result("prediction"),
              type.bytes());
}

Dataset& begun(DatasetObject& object) {
  if (!object.data.begun()) fail(ErrorKind::state, "the data set has no epoch; call ff_dataset_begin first");
  return object.data;
}

// Clocks differ, so several processes make as many steps as the first one thinks to fill a slice.
int64_t agreed_steps(Model& model, const Dataset& data, int64_t max_steps, double slice_ms) {
  const auto processes = model.processes();
  if (processes == nullptr) return max_steps;
  require_same(*processes, data.digest(), "data set");
  // On a machine that others begin to use, a step may suddenly take a hundred times as long.
  constexpr int64_t kMost = 64;
  int64_t steps = max_steps;
  if (slice_ms > 0)
    steps = std::clamp<int64_t>(static_cast<int64_t>(slice_ms / model.step_ms()), 1, std::min(max_steps, kMost));
  processes->broadcast(0, &steps, sizeof(steps));
  return steps;
}

void run_epoch(Model& model, int32_t sections, Dataset& data, int64_t max_steps, double slice_ms,
               const ff_array* predictions, ff_progress& progress) {
  using Clock = std::chrono::steady_clock;
  const bool alone = model.processes() == nullptr;
  max_steps = agreed_steps(model, data, max_steps, slice_ms);
  const auto start = Clock::now();
  const auto milliseconds = [&] { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); };
  while (progress.steps < max_steps) {
    const int64_t from = data.position();
    const int64_t rows = load_batch(model, data);
    if (rows == 0) break;
    model.run(sections, rows);
    if (predictions != nullptr) keep_predictions(model, sections, rows, from, *predictions);
    data.advance();
    ++progress.steps;
    progress.samples += rows;
    if (alone && slice_ms > 0 && milliseconds() >= slice_ms) break;
  }
  if (progress.steps > 0) model.set_step_ms(milliseconds() / static_cast<double>(progress.steps));
  progress.position = data.position();
  progress.finished = data.next_rows() == 0 ? 1 : 0;
}

State::Entry* scalar(Model& model, const std::string& name) {
  if (name != "learning_rate" && name != "step")
    bad_value("the model has no scalar \"", name, "\"; expected learning_rate or step");
  return model.owner().state.find("optimizer/" + name);
}

}  // namespace

extern "C" {

ff_status ff_dataset_create(ff_handle graph, const ff_tensor* inputs, const ff_array* arrays, size_t n,
                            ff_handle* dataset) {
  return guarded([&] {
    required(dataset, "dataset");
    const auto object = graph_of(graph);
    const std::lock_guard lock(object->mutex);
    std::vector<Dataset::Column> columns;
    for (size_t i = 0; i < n; ++i) {
      const Node& node = object->graph.node(value_of(object->graph, inputs[i]).node);
      if (node.op != "input")
        fail(ErrorKind::type, "\"", node.name, "\" is made by ", node.op, "; a data set feeds inputs");
      const TensorType type = c_api::type_of(arrays[i]);
      Shape expected = node.outputs[0].shape;
      if (!expected.empty() && type.rank() > 0) expected[0] = type.shape[0];  // the samples
      if (type.dtype != node.outputs[0].dtype || type.shape != expected)
        fail(type.dtype != node.outputs[0].dtype ? ErrorKind::type : ErrorKind::value, "data for \"", node.name,
             "\" is ", to_string(type), "; expected ", name_of(node.outputs[0].dtype), " rows of ",
             to_string(node.outputs[0].shape), " (the first extent is free)");
      columns.push_back({node.name, type, arrays[i].data});
    }
    *dataset = keep(std::make_shared<DatasetObject>(DatasetObject{object, Dataset(std::move(columns))}));
  });
}

ff_status ff_dataset_begin(ff_handle dataset, int64_t batch, int32_t shuffle, int64_t seed, int64_t epoch,
                           int32_t drop_last, int64_t position) {
  return guarded([&] {
    const auto object = dataset_of(dataset);
    const std::lock_guard lock(object->owner->mutex);
    object->data.begin(batch, shuffle != 0, static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch), drop_last != 0,
                       position);
  });
}

ff_status ff_run(ff_handle model, int32_t sections, ff_handle dataset, int64_t max_steps, double slice_ms,
                 const ff_array* predictions, ff_progress* progress) {
  return guarded([&] {
    required(progress, "progress");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    *progress = {};
    if (dataset == 0) {
      object->run(sections, object->batch());
      if (predictions != nullptr) keep_predictions(*object, sections, object->batch(), 0, *predictions);
      progress->steps = 1;
      progress->samples = object->batch();
      return;
    }
    const auto data = dataset_of(dataset);
    if (data->owner.get() != &object->owner()) bad_value("the data set belongs to another graph than the model");
    run_epoch(*object, sections, begun(*data), max_steps, slice_ms, predictions, *progress);
  });
}

ff_status ff_next_batch(ff_handle model, ff_handle dataset, int64_t* rows) {
  return guarded([&] {
    required(rows, "rows");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    const auto data = dataset_of(dataset);
    if (data->owner.get() != &object->owner()) bad_value("the data set belongs to another graph than the model");
    *rows = load_batch(*object, begun(*data));
    data->data.advance();
  });
}

ff_status ff_zero_gradients(ff_handle model) {
  return guarded([&] {
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    object->zero_gradients();
  });
}

ff_status ff_scalar_get(ff_handle model, const char* name, double* value) {
  return guarded([&] {
    required(value, "value");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    const State::Entry* entry = scalar(*object, &required(name, "name"));
    int64_t whole = 0;
    *value = 0;
    if (entry == nullptr) return;
    entry->read(entry->type.dtype == DType::int64 ? static_cast<void*>(&whole) : value);
    if (entry->type.dtype == DType::int64) *value = static_cast<double>(whole);
  });
}

ff_status ff_scalar_set(ff_handle model, const char* name, double value) {
  return guarded([&] {
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    const bool step = std::strcmp(&required(name, "name"), "step") == 0;
    if (!step && !object->spec().schedule.empty())
      fail(ErrorKind::state, "the learning rate follows the schedule ", object->spec().schedule,
           " and cannot be set; compile with a number instead");
    State::Entry* entry = scalar(*object, name);
    if (entry == nullptr)
      entry = &object->owner().state.entry(cat("optimizer/", name), {step ? DType::int64 : DType::float64, {}});
    const auto whole = static_cast<int64_t>(value);
    entry->write(step ? static_cast<const void*>(&whole) : &value);
    entry->ready = entry->touched = true;
    ++entry->version;
  });
}

ff_status ff_metrics_read(ff_handle model, double* values, size_t* n, const char** names) {
  return guarded([&] {
    required(n, "n");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    constexpr size_t kCount = 8;
    const State::Entry* totals = object->owner().state.find("metrics/totals");
    double sums[kCount] = {};
    if (totals != nullptr) totals->read(sums);
    std::copy_n(sums, std::min(*n, kCount), values);
    *n = kCount;
    if (names != nullptr)
      *names = lend(
          "samples,loss,correct,categorical_crossentropy,sparse_categorical_crossentropy,mean_squared_error,"
          "root_mean_squared_error,mean_absolute_error");
  });
}

ff_status ff_metrics_reset(ff_handle model) {
  return guarded([&] {
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    if (State::Entry* totals = object->owner().state.find("metrics/totals")) totals->clear();
  });
}

ff_status ff_model_text(ff_handle model, const char* what, int32_t sections, const char** text) {
  return guarded([&] {
    required(text, "text");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    *text = lend(object->text(&required(what, "what"), sections));
  });
}

ff_status ff_agree(ff_handle model, int64_t* value) {
  return guarded([&] {
    required(value, "value");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    if (const auto processes = object->processes()) processes->broadcast(0, value, sizeof(*value));
  });
}

ff_status ff_profile(ff_handle model, int32_t on) {
  return guarded([&] {
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    object->profile(on != 0);
  });
}

}  // extern "C"
