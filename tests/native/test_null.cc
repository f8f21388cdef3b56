// The engine that checks plans accepts good ones and finds what is wrong with corrupted ones.
#include <algorithm>

#include "check.h"
#include "engines/engine.h"
#include "plans.h"

using namespace ff;
using namespace plans;

namespace {

std::string verdict(const Plan& plan, bool separate_sections = false) {
  return check::thrown([&] {
    State state;
    const auto checker = make_engine("null", {})->load(std::make_shared<const Plan>(plan), state);
    for (int run = 0; run < 2; ++run) {
      if (!separate_sections) checker->run(~0u);
      for (unsigned section = 1; separate_sections && section <= 8; section *= 2) checker->run(section);
    }
  });
}

#define CHECK_FAULT(plan, text)                                     \
  do {                                                              \
    const std::string found = verdict(plan);                        \
    CHECK(found.find(text) != std::string::npos, "found: ", found); \
  } while (0)

Plan training_plan(bool separate_sections = false) {
  const Classifier model = classifier();
  return plan_of(build_step(model.graph, model.spec, training(separate_sections), kernel_query()), separate_sections);
}

Step& step_of(Plan& plan, const std::string& op) {
  const auto it =
      std::find_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) { return step.call.op == op; });
  FF_CHECK(it != plan.steps.end(), op);
  return *it;
}

TEST(good_plans_pass) {
  CHECK(verdict(training_plan()).empty(), verdict(training_plan()));
  CHECK(verdict(training_plan(true), true).empty(), verdict(training_plan(true), true));
}

TEST(steps_out_of_order) {
  const Plan good = training_plan();
  int found = 0, swapped = 0;
  for (size_t s = 0; s + 1 < good.steps.size(); ++s) {
    const auto& made = good.steps[s].outputs;
    const auto& read = good.steps[s + 1].inputs;
    if (!std::any_of(read.begin(), read.end(),
                     [&](BufferId id) { return std::find(made.begin(), made.end(), id) != made.end(); }))
      continue;
    Plan plan = good;
    std::swap(plan.steps[s], plan.steps[s + 1]);
    ++swapped;
    found += !verdict(plan).empty();
  }
  CHECK(swapped > 5 && found == swapped, found, " of ", swapped);
}

TEST(a_step_is_missing) {
  const Plan good = training_plan();
  for (size_t s = 0; s < good.steps.size(); ++s) {
    // Without its step, an alias is a view of what was there before; only the engine's own rule for views speaks of it.
    const auto used = [&](BufferId id) {
      if (good.buffers[id].alias >= 0) return false;
      const auto reads = [&](const Step& step) {
        return std::find(step.inputs.begin(), step.inputs.end(), id) != step.inputs.end();
      };
      return std::any_of(good.steps.begin(), good.steps.end(), reads);
    };
    if (std::none_of(good.steps[s].outputs.begin(), good.steps[s].outputs.end(), used)) continue;
    Plan plan = good;
    plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(s));
    CHECK(!verdict(plan).empty(), good.steps[s].call.name);
  }
}

TEST(memory_is_taken_too_early) {
  Plan plan = training_plan();
  // All temporaries at one place.
  for (Buffer& buffer : plan.buffers) buffer.offset = 0;
  CHECK(!verdict(plan).empty());
}

TEST(a_value_is_overwritten_by_an_alias) {
  Graph graph;
  const Value x = input(graph, {4});
  const Value a = add(graph, "exp", {x}, {}, "a"), b = add(graph, "tanh", {a}, {}, "b");
  graph.outputs.emplace_back("y", add(graph, "add", {a, b}, {}, "y"));
  Plan plan = plan_of(std::move(graph));
  CHECK(verdict(plan).empty());
  plan.buffers[step_of(plan, "tanh").outputs[0]].alias = plan.root(step_of(plan, "exp").outputs[0]);
  plan.buffers[step_of(plan, "tanh").outputs[0]].offset = 0;
  CHECK_FAULT(plan, "y reads a, where b is");
}

TEST(a_state_is_read_after_its_update) {
  Plan plan = training_plan();
  // The update of the first layer moves to the front of the backward pass, which still reads the weight.
  const auto update = std::find_if(plan.steps.begin(), plan.steps.end(),
                                   [](const Step& s) { return s.call.name == "optimizer/top/kernel"; });
  const auto reader = std::find_if(plan.steps.begin(), plan.steps.end(),
                                   [](const Step& s) { return s.call.op == "linear_grad_input"; });
  CHECK(update != plan.steps.end() && reader != plan.steps.end() && reader < update);
  std::iter_swap(update, reader);
  CHECK(!verdict(plan).empty());
}

TEST(a_view_shows_another_value) {
  Graph graph;
  const Value x = input(graph, {2, 6});
  const Value a = add(graph, "exp", {x}, {}, "a");
  const Value view = add(graph, "reshape", {a}, {{"shape", Shape{3, 4}}}, "view");
  const Value b = add(graph, "tanh", {view}, {}, "b"), c = add(graph, "sin", {view}, {}, "c");
  graph.outputs.emplace_back("y", add(graph, "add", {b, c}, {}, "y"));
  Plan plan = plan_of(std::move(graph));
  CHECK(verdict(plan).empty(), verdict(plan));
  plan.buffers[step_of(plan, "tanh").outputs[0]].alias = plan.root(step_of(plan, "tanh").inputs[0]);
  plan.buffers[step_of(plan, "tanh").outputs[0]].offset = 0;
  CHECK_FAULT(plan, "c reads view, where b is");
}

TEST(memory_is_too_small) {
  Plan plan = training_plan();
  plan.arena[0] /= 2;
  CHECK_FAULT(plan, "leaves the arena");
  plan = training_plan();
  step_of(plan, "linear").scratch = plan.scratch[0] + 1;
  CHECK_FAULT(plan, "more scratch");
  plan = training_plan();
  for (Buffer& buffer : plan.buffers)
    if (buffer.alias >= 0) buffer.bytes = 1 << 20;
  CHECK_FAULT(plan, "does not fit into");
}

TEST(an_input_is_written) {
  Plan plan = training_plan();
  step_of(plan, "linear").outputs[0] = plan.inputs.at("x").buffer;
  CHECK_FAULT(plan, "writes the input x");
}

TEST(outputs_share_memory) {
  Plan plan = training_plan();
  Step& adam = step_of(plan, "adam");
  adam.outputs[1] = adam.outputs[2];
  CHECK_FAULT(plan, "outputs 1 and 2 share memory");
}

Plan plan_on_two_devices() {
  Classifier model = classifier();
  model.spec.strategy.ops[model.graph.find("hidden").node] = {"linear", 0, {Split{.index = "b0", .degree = 2}}};
  const Machine machine{{Device{.kind = "reference", .space = 0}, Device{.kind = "reference", .space = 0}}};
  Graph graph = build_step(model.graph, model.spec, training(), kernel_query());
  return lower(place(std::move(graph), model.spec.strategy, machine), machine, kernel_query());
}

TEST(every_wait_is_needed) {
  const Plan plan = plan_on_two_devices();
  CHECK(verdict(plan).empty());
  int waits = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (size_t w = 0; w < plan.steps[s].waits.size(); ++w, ++waits) {
      Plan hasty = plan;
      hasty.steps[s].waits.erase(hasty.steps[s].waits.begin() + static_cast<std::ptrdiff_t>(w));
      CHECK_FAULT(hasty, "does not wait for");
    }
  CHECK(waits >= 3, waits);
}

TEST(a_wait_for_what_comes_later) {
  Plan plan = plan_on_two_devices();
  const auto last = static_cast<int>(plan.steps.size()) - 1;
  plan.steps[0].waits.push_back({plan.steps[last].device, last});
  CHECK_FAULT(plan, "which is not before it there");
}

}  // namespace
