// Costs: what they depend on, and what a roofline makes of them.
#include <cmath>
#include <set>

#include "check.h"
#include "plans.h"
#include "search/measured.h"
#include "search/roofline.h"

using namespace ff;
using namespace plans;

namespace {

OpCall linear_call(int64_t batch = 8, const std::string& name = "dense", const std::string& activation = "relu") {
  Graph graph;
  const Value y = dense(graph, input(graph, {batch, 16}), 32, activation, name);
  OpCall call = graph.call(y.node);
  call.box = iteration_space(op_def(call.op), call);
  return call;
}

Layouts dense_layouts(const OpCall& call) {
  return {std::vector<Layout>(call.inputs.size()), std::vector<Layout>(call.outputs.size())};
}

std::string key(const OpCall& call) { return cost_key(call, dense_layouts(call), "cpu", 1, false); }

TEST(keys_tell_apart_what_matters) {
  const OpCall call = linear_call();
  const Layouts layouts = dense_layouts(call);
  std::set<std::string> keys = {key(call),
                                key(linear_call(9)),
                                key(linear_call(8, "dense", "none")),
                                cost_key(call, layouts, "reference", 1, false),
                                cost_key(call, layouts, "cpu", 2, false),
                                cost_key(call, layouts, "cpu", 1, true)};
  Layouts blocked = layouts;
  blocked.inputs[1] = Layout(std::make_shared<const LayoutInfo>("blocked", 4096));
  keys.insert(cost_key(call, blocked, "cpu", 1, false));
  OpCall half = call;
  half.inputs[0].dtype = DType::float16;
  keys.insert(key(half));
  OpCall part = call;
  part.box[0].global *= 2;
  keys.insert(key(part));
  OpCall pieces = call;
  pieces.attrs.set("pieces", std::vector<int64_t>(200, 1));
  keys.insert(key(pieces));
  pieces.attrs.set("pieces", std::vector<int64_t>(200, 2));
  keys.insert(key(pieces));
  CHECK(keys.size() == 11, join(keys, "\n"));
}

TEST(keys_know_no_names) {
  OpCall a = linear_call(8, "dense"), b = linear_call(8, "other");
  a.attrs.set("stream", int64_t{1});
  b.attrs.set("stream", int64_t{2});
  CHECK(key(a) == key(b), key(a), " ", key(b));
}

TEST(a_part_costs_what_another_part_costs) {
  OpCall first = linear_call(), second = first;
  first.box[0] = {first.box[0].name, 0, 8, 16};
  second.box[0] = {first.box[0].name, 8, 8, 16};
  CHECK(key(first) == key(second));
}

TEST(a_call_is_measured_once) {
  CostTable table;
  int measured = 0;
  const Machine machine{{Device{.kind = "cpu"}, Device{.kind = "cpu"}}};
  const auto timer = [&](const OpCall&, const Layouts&, const std::string&, int, bool cold) {
    ++measured;
    return std::optional(cold ? 3.0 : 2.0);
  };
  const Measured costs(machine, table, timer, 0.5);
  const OpCall call = linear_call();
  for (const int device : {0, 1}) CHECK(costs.seconds(call, dense_layouts(call), device, 1) == 2.5);
  CHECK(costs.cold_seconds(call, dense_layouts(call), 0, 1) == 3.5);
  CHECK(measured == 2 && costs.unknown() == 0);
  const Measured hurried(machine, table, [](auto&&...) -> std::optional<double> { return std::nullopt; });
  CHECK(hurried.seconds(call, dense_layouts(call), 0, 1) == 2);
  CHECK(hurried.seconds(linear_call(9), dense_layouts(call), 0, 1) == 0 && hurried.unknown() == 1);
  CHECK(table.all().size() == 2);
}

TEST(a_roofline_takes_the_longer_of_work_and_memory) {
  const OpCall call = linear_call();
  const double flops = op_def("linear").flops(call);
  const double bytes = 4.0 * (8 * 16 + 32 * 16 + 32 + 8 * 32);
  CHECK(bytes_of(call) == bytes, bytes_of(call));
  const auto seconds = [&](double rate, double bandwidth, const Roofline::Factors& factors) {
    return Roofline({{.flops = {{DType::float32, rate}}, .bandwidth = bandwidth, .launch = 1}}, factors)
        .seconds(call, dense_layouts(call), 0, 1);
  };
  CHECK(seconds(flops, 100 * bytes, {}) == 2);
  CHECK(seconds(100 * flops, bytes, {}) == 2);
  CHECK(seconds(flops, bytes, {{"linear", 3}, {"", 7}}) == 4);
  CHECK(seconds(flops, bytes, {{"relu", 3}, {"", 7}}) == 8);
  CHECK_THROWS(seconds(flops, bytes, {{"relu", 0}}), "relu");
}

TEST(a_table_counts_by_the_rows_that_are_read) {
  Graph graph;
  const Value y = add(graph, "embedding", {input(graph, {4, 2}, "ids", "int32")},
                      {{"num_entries", int64_t{1000}}, {"out_dim", int64_t{16}}});
  const OpCall call = graph.call(y.node);
  CHECK(bytes_of(call) == 4.0 * (8 + 8 * 16 + static_cast<double>(numel(call.outputs[0].shape))), bytes_of(call));
}

TEST(factors_are_fitted_to_measurements) {
  const Roofline plain({{.flops = {{DType::float32, 1e9}}, .bandwidth = 1e9, .launch = 1e-6}});
  const Roofline true_costs({{.flops = {{DType::float32, 1e9}}, .bandwidth = 1e9, .launch = 1e-6}}, {{"linear", 2.5}});
  std::vector<Roofline::Sample> samples;
  for (const int64_t batch : {8, 16, 32, 64, 128}) {
    const OpCall call = linear_call(batch);
    samples.push_back({call, 0, true_costs.seconds(call, dense_layouts(call), 0, 1)});
  }
  samples[0].seconds *= 100;  // an outlier
  const Roofline::Factors factors = plain.fitted(samples);
  CHECK(std::abs(factors.at("linear") - 2.5) < 1e-9, factors.at("linear"));
}

}  // namespace
