// First values of states: each is drawn by an `initialize` op on the engine, so that a split state is drawn in parts
// that fit together.
#include "base/parallel.h"
#include "c_api/objects.h"
#include "kernels/kernel.h"
#include "lowering/lower.h"
#include "ops/op.h"

namespace ff::c_api {

void initialize(State& state, const std::vector<std::pair<std::string, Attrs>>& states, int64_t seed) {
  Graph graph;
  std::vector<std::string> names;
  for (const auto& [name, attrs] : states) {
    if (const State::Entry* entry = state.find(name); entry != nullptr && entry->ready) continue;
    Attrs drawn = attrs;
    if (attrs.integer("seed") < 0) drawn.set("seed", seed);
    const NodeId target = add_op(graph, "weight", attrs, {}, name);
    const NodeId value = add_op(graph, "initialize", drawn, {}, "initialize/" + name);
    graph.assignments.push_back({target, {value, 0}});
    names.push_back(name);
  }
  if (names.empty()) return;
  const auto engine = make_engine("local", {});
  set_thread_count(engine->machine().devices[0].threads);
  promote_halves(graph, "cpu", kernel_query());
  const auto plan = std::make_shared<const Plan>(
      lower(place(std::move(graph), {}, engine->machine()), engine->machine(), kernel_query()));
  // Each process draws the whole; those who use it take their pieces.
  const auto processes = state.share(nullptr);
  try {
    engine->load(plan, state)->run(~0u);
  } catch (...) {
    state.share(processes);
    throw;
  }
  state.share(processes);
  for (const std::string& name : names) {
    state.find(name)->ready = true;
    state.find(name)->touched = false;
  }
}

}  // namespace ff::c_api
