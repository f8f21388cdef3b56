// The memory planner: buffers that live at the same time lie apart.
#include <algorithm>
#include <random>

#include "check.h"
#include "plans.h"

using namespace ff;
using namespace plans;

namespace {

struct Life {
  const Buffer* buffer;
  int first, last;
};

// From the steps alone: when the memory of each root is in use.
std::vector<Life> lives(const Plan& plan) {
  std::vector<Life> all;
  for (BufferId id = 0; id < static_cast<BufferId>(plan.buffers.size()); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.alias >= 0 || buffer.storage != Storage::temporary) continue;
    Life life{&buffer, -1, -1};
    for (int s = 0; s < static_cast<int>(plan.steps.size()); ++s) {
      const auto touches = [&](BufferId other) { return other >= 0 && plan.root(other) == id; };
      const auto& step = plan.steps[s];
      if (!std::any_of(step.inputs.begin(), step.inputs.end(), touches) &&
          !std::any_of(step.outputs.begin(), step.outputs.end(), touches))
        continue;
      if (life.first < 0) life.first = s;
      life.last = s;
    }
    if (life.first >= 0) all.push_back(life);
  }
  return all;
}

void check_apart(const Plan& plan) {
  const std::vector<Life> all = lives(plan);
  size_t most = 0;  // bytes in use at once
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    size_t used = 0;
    for (const Life& life : all)
      if (life.first <= static_cast<int>(s) && static_cast<int>(s) <= life.last) used += life.buffer->bytes;
    most = std::max(most, used);
  }
  for (const Life& a : all) {
    CHECK(a.buffer->offset % 64 == 0 && a.buffer->offset + a.buffer->bytes <= plan.arena[0], a.buffer->name);
    for (const Life& b : all) {
      if (a.buffer == b.buffer || a.last < b.first || b.last < a.first) continue;
      const bool apart = a.buffer->offset + a.buffer->bytes <= b.buffer->offset ||
                         b.buffer->offset + b.buffer->bytes <= a.buffer->offset;
      CHECK(apart || a.buffer->bytes == 0 || b.buffer->bytes == 0, a.buffer->name, " and ", b.buffer->name);
    }
  }
  CHECK(plan.arena[0] >= most);
  // The packing is greedy; it may lose some, but not much.
  CHECK(static_cast<double>(plan.arena[0]) <= 1.5 * static_cast<double>(most) + 64.0 * static_cast<double>(all.size()),
        plan.arena[0], " for ", most);
}

// Random steps over random buffers, some of which can work in place.
Plan random_plan(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Plan plan;
  plan.machine.devices = {Device{.kind = "reference"}};
  const auto buffer = [&] {
    Buffer made;
    made.name = cat("b", plan.buffers.size());
    made.type = {DType::float32, {1 + pick(pick(2) == 0 ? 8 : 500)}};
    made.bytes = made.type.bytes();
    plan.buffers.push_back(made);
    return static_cast<BufferId>(plan.buffers.size()) - 1;
  };
  plan.buffers.reserve(100);
  buffer();
  plan.buffers[0].storage = Storage::input;
  for (int s = 0; s < 3 + pick(30); ++s) {
    Step step;
    step.call.op = std::array{"relu", "add", "softmax", "concat"}[static_cast<size_t>(pick(4))];
    for (int i = 0; i < 1 + pick(3); ++i) step.inputs.push_back(pick(static_cast<int>(plan.buffers.size())));
    step.outputs.push_back(buffer());
    if (pick(3) == 0) plan.buffers.back().type = plan.buffers[step.inputs[0]].type;
    plan.buffers.back().bytes = plan.buffers.back().type.bytes();
    step.call.name = plan.buffers.back().name;
    plan.steps.push_back(step);
  }
  return plan;
}

TEST(random_plans_never_overlap) {
  std::mt19937 random(0);
  for (int trial = 0; trial < 400; ++trial) {
    Plan plan = random_plan(random);
    place_buffers(plan, false);
    check_apart(plan);
  }
}

TEST(outputs_take_the_memory_of_inputs_that_end) {
  Graph graph;
  const Value x = input(graph, {4, 5});
  const Value a = add(graph, "exp", {x}), b = add(graph, "tanh", {a}), c = add(graph, "sin", {b});
  graph.outputs.emplace_back("y", add(graph, "add", {c, b}));
  const Plan plan = plan_of(std::move(graph));
  const auto find = [&](const std::string& name) {
    return static_cast<BufferId>(std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                              [&](const Buffer& buffer) { return buffer.name == name; }) -
                                 plan.buffers.begin());
  };
  CHECK(plan.root(find("tanh")) == find("exp"));  // exp ends there
  CHECK(plan.root(find("sin")) == find("sin"));   // tanh is read again
  CHECK(plan.buffers[find("x")].alias < 0);
  CHECK(plan.buffers[plan.root(find("add"))].storage == Storage::pinned);  // a result outlives the run
}

TEST(plans_of_models_never_overlap) {
  for (const bool separate : {false, true})
    for (const char* device : {"reference", "cpu"}) {
      const Classifier model = classifier(device);
      const Plan plan =
          plan_of(build_step(model.graph, model.spec, training(separate), kernel_query()), separate, device);
      check_apart(plan);
      for (const Buffer& buffer : plan.buffers) {
        if (!separate || buffer.alias >= 0 || buffer.storage != Storage::temporary || buffer.first < 0) continue;
        // What one section leaves for another must not be in the arena, which other plans use between them.
        CHECK(plan.steps[buffer.first].section == plan.steps[buffer.last].section, buffer.name);
      }
    }
}

}  // namespace
