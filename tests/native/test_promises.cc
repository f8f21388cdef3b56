// What an operator's definition promises to lowering: linear operands, outputs in the memory of inputs, and an
// expansion that computes the same.
#include "calls.h"
#include "check.h"
#include "engines/engine.h"
#include "lowering/lower.h"
#include "ops/grad.h"

using namespace ff;
using namespace calls;

namespace {

Arrays copies(const Arrays& arrays) {
  Arrays out;
  for (const Array& array : arrays) {
    out.emplace_back(array.type);
    std::memcpy(out.back().memory.data(), array.memory.data(), array.type.bytes());
  }
  return out;
}

void check_linear(const Sample& sample, const OpCall& call, const Arrays& inputs, const std::string& device) {
  for (const int operand : op_def(sample.op).linear_operands) {
    if (static_cast<size_t>(operand) >= inputs.size() || !is_float(inputs[operand].type.dtype)) continue;
    Arrays a = copies(inputs), b = copies(inputs), sum = copies(inputs);
    for (int64_t i = 0; i < a[operand].type.numel(); ++i) {
      a[operand].set(i, 0.5 + static_cast<double>(i % 3));
      b[operand].set(i, 2.0 - static_cast<double>(i % 5));
      sum[operand].set(i, a[operand].get(i) + b[operand].get(i));
    }
    const Arrays of_a = run(call, a, device), of_b = run(call, b, device), of_sum = run(call, sum, device);
    for (size_t k = 0; k < of_a.size(); ++k) {
      if (!is_float(of_a[k].type.dtype)) continue;
      Array both(of_a[k].type);
      for (int64_t i = 0; i < both.type.numel(); ++i) both.set(i, of_a[k].get(i) + of_b[k].get(i));
      CHECK(difference(of_sum[k], both) < 1e-12, sample.name(), " is not linear in operand ", operand);
    }
  }
}

void check_inplace(const Sample& sample, const OpCall& call, const Arrays& inputs, const std::string& device) {
  const Arrays expected = run(call, inputs, device);
  for (const auto& [output, input] : op_def(sample.op).inplace_pairs) {
    if (static_cast<size_t>(output) >= expected.size() || static_cast<size_t>(input) >= inputs.size()) continue;
    if (inputs[input].type.bytes() != expected[output].type.bytes()) continue;
    const Arrays made = run(call, inputs, device, {{output, input}});
    for (size_t k = 0; k < made.size(); ++k)
      if (made[k].type.dtype != DType::opaque)
        CHECK(difference(made[k], expected[k]) == 0, device, " ", sample.name(), ": output ", output,
              " in place of input ", input);
  }
}

// The expansion of a call, lowered and run by the engine.
Arrays run_expanded(const Sample& sample, const Arrays& inputs) {
  Graph graph;
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back({add_op(graph, "input",
                             {{"shape", inputs[i].type.shape}, {"dtype", std::string(name_of(inputs[i].type.dtype))}},
                             {}, cat("x", i)),
                      0});
  const NodeId id = add_op(graph, sample.op, sample.attrs, values, "op");
  Expansion expansion(graph, id);
  const std::vector<Value> with = op_def(sample.op).expand(expansion);
  Arrays outputs;
  for (size_t k = 0; k < with.size(); ++k) {
    CHECK(graph.type(with[k]) == graph.node(id).outputs[k], sample.name(), ": output ", k);
    graph.outputs.emplace_back(cat("y", k), with[k]);
    outputs.emplace_back(graph.type(with[k]));
  }
  graph.sweep();
  const auto engine = make_engine("local", {.device = "reference"});
  State state;
  const auto executable =
      engine->load(std::make_shared<const Plan>(
                       lower(place(std::move(graph), {}, engine->machine()), engine->machine(), kernel_query())),
                   state);
  for (size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(state.entry(cat("x", i), inputs[i].type).data(), inputs[i].memory.data(), inputs[i].type.bytes());
  executable->run(~0u);
  for (size_t k = 0; k < outputs.size(); ++k)
    std::memcpy(outputs[k].memory.data(), executable->result(cat("y", k)), outputs[k].type.bytes());
  return outputs;
}

template <class F>
void each_sample(const std::string& device, DType real, F body) {
  for (const Sample& sample : samples(real)) {
    const OpCall call = call_of(sample);
    if (op_def(sample.op).view || !kernel_query().supported(call, device)) continue;
    const std::string error = check::thrown([&] { body(sample, call, draw_inputs(sample, call, device)); });
    CHECK(error.empty(), device, " ", sample.name(), ": ", error);
  }
}

TEST(linear_operands_are_linear) {
  each_sample("reference", DType::float64, [](const auto& sample, const auto& call, const auto& inputs) {
    check_linear(sample, call, inputs, "reference");
  });
}

TEST(outputs_can_take_the_memory_of_inputs) {
  each_sample("reference", DType::float64, [](const auto& sample, const auto& call, const auto& inputs) {
    check_inplace(sample, call, inputs, "reference");
  });
  each_sample("cpu", DType::float32, [](const auto& sample, const auto& call, const auto& inputs) {
    check_inplace(sample, call, inputs, "cpu");
  });
}

TEST(expansions_compute_the_same) {
  std::map<std::string, int> expanded;
  each_sample("reference", DType::float64, [&](const Sample& sample, const OpCall& call, const Arrays& inputs) {
    if (!op_def(sample.op).expand) return;
    const Arrays simple = run_expanded(sample, inputs);
    if (simple.empty()) return;  // it was simple already
    ++expanded[sample.op];
    const Arrays fused = run(call, inputs, "reference");
    for (size_t k = 0; k < fused.size(); ++k)
      CHECK(difference(simple[k], fused[k]) < 1e-12, sample.name(), ": output ", k, " differs by ",
            difference(simple[k], fused[k]));
  });
  for (const OpDef* def : all_ops())
    CHECK(!def->expand || def->composite || expanded[def->name] > 0, def->name, " has no sample that expands");
}

TEST(cpu_kernels_agree_with_reference_kernels) {
  each_sample("cpu", DType::float32, [](const Sample& sample, const OpCall& call, const Arrays& inputs) {
    if (!kernel_query().supported(call, "reference")) return;
    const Arrays ours = run(call, inputs, "cpu"), plain = run(call, inputs, "reference");
    for (size_t k = 0; k < ours.size(); ++k)
      if (ours[k].type.dtype != DType::opaque)
        CHECK(difference(ours[k], plain[k]) < 4e-6, sample.name(), ": output ", k, " differs by ",
              difference(ours[k], plain[k]));
  });
}

}  // namespace
