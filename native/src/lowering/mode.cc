// Training or inference mode, and the expansions that come before differentiation.
#include <algorithm>

#include "base/error.h"
#include "lowering/step_graph.h"
#include "ops/grad.h"

namespace ff {
namespace {

// Put the outputs of an emitted replacement in a node's place; what makes its first output inherits its name.
void replace_outputs(Graph& graph, NodeId id, const std::vector<Value>& with) {
  for (size_t k = 0; k < with.size(); ++k) graph.replace({id, static_cast<int32_t>(k)}, with[k]);
  const std::string name = graph.node(id).name;
  graph.remove(id);
  if (with[0].node > id) graph.rename(with[0].node, name);
}

NodeId add_state(Graph& graph, const std::string& name, const TensorType& type) {
  const NodeId id = add_op(
      graph, "weight",
      {{"shape", type.shape}, {"dtype", std::string(name_of(type.dtype))}, {"initializer", std::string("zeros")}}, {},
      name);
  graph.node(id).trainable = false;
  return id;
}

// The number of this forward run: a state that each forward moves on.
Value step_counter(Graph& graph) {
  const NodeId state = add_state(graph, "random/counter", {DType::int64, {}});
  const NodeId next = add_op(graph, "increment", {}, {{state, 0}}, "random/next");
  graph.assignments.push_back({state, {next, 0}});
  return {next, 0};
}

// An op moves a state on. Where another op moved it before (a shared layer that is called twice), this one goes on from
// there, and its value is the one that stays.
void update_state(Graph& graph, NodeId id, int input, int output) {
  Value& current = graph.node(id).inputs[input];
  const auto before = std::find_if(graph.assignments.begin(), graph.assignments.end(),
                                   [&](const Assignment& a) { return a.state == current.node; });
  if (before == graph.assignments.end()) {
    graph.assignments.push_back({current.node, {id, output}});
  } else {
    current = before->value;
    before->value = {id, output};
  }
}

size_t distinct(std::vector<Rect> rects) {
  std::vector<Rect> seen;
  for (Rect& rect : rects)
    if (std::find(seen.begin(), seen.end(), rect) == seen.end()) seen.push_back(std::move(rect));
  return seen.size();
}

// Is an op asked to split what its kernel needs whole, or would it have to gather what lies in parts?
bool splits_whole(const Pcg& pcg, NodeId id, const Strategy& strategy) {
  const Graph& graph = pcg.graph;
  const Node& node = graph.node(id);
  const Splitting splitting(op_def(node.op), graph.call(id));
  const auto said = strategy.ops.find(node.origin);
  if (said != strategy.ops.end() && said->second.op == node.op) {
    for (const Split& split : said->second.splits) {
      const Box& box = splitting.box();
      const auto it = std::find_if(box.begin(), box.end(), [&](const IndexRange& r) { return r.name == split.index; });
      if (split.degree > 1 && (it == box.end() || !splitting.obstacle(static_cast<size_t>(it - box.begin())).empty()))
        return true;
    }
    return false;
  }
  const NodeId producer = node.inputs[0].node;
  if (pcg.parts[producer].size() < 2) return false;
  const Splitting made(op_def(graph.node(producer).op), graph.call(producer));
  std::vector<Rect> before, here;
  for (const Part& part : pcg.parts[producer]) before.push_back(made.region(part.box, {true, node.inputs[0].index}));
  for (const Part& part : pcg.parts[id]) here.push_back(splitting.region(part.box, {false, 0}));
  return distinct(here) < distinct(before);
}

}  // namespace

void expand_composites(Graph& graph) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeId id : graph.order()) {
      const OpDef& def = op_def(graph.node(id).op);
      if (!def.composite) continue;
      Expansion expansion(graph, id);
      replace_outputs(graph, id, def.expand(expansion));
      changed = true;
    }
  }
}

void set_mode(Graph& graph, bool training, int64_t seed) {
  Value counter;
  for (const NodeId id : graph.order()) {
    const OpDef& def = op_def(graph.node(id).op);
    if (!training && def.inference) {
      Expansion expansion(graph, id);
      replace_outputs(graph, id, def.inference(expansion));
      continue;
    }
    for (const auto& [input, output] : def.state_updates) update_state(graph, id, input, output);
    if (!def.random || graph.node(id).inputs.empty()) continue;
    if (!counter.valid()) counter = step_counter(graph);
    Node& node = graph.node(id);
    node.inputs.push_back(counter);
    if (node.attrs.integer("seed") < 0) node.attrs.set("seed", seed);
  }
}

void expand_activations(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const OpDef& def = op_def(graph.node(id).op);
    if (!def.expand || !graph.node(id).attrs.has("activation") || graph.node(id).attrs.text("activation") == "none")
      continue;
    Expansion expansion(graph, id);
    replace_outputs(graph, id, def.expand(expansion));
  }
}

void expand_split(Graph& graph, const Strategy& strategy) {
  if (strategy.ops.empty()) return;
  for (bool changed = true; changed;) {
    changed = false;
    const Pcg pcg = place(graph, strategy, {}, true);
    for (const NodeId id : graph.order()) {
      const OpDef& def = op_def(graph.node(id).op);
      if (!def.expand || !splits_whole(pcg, id, strategy)) continue;
      Expansion expansion(graph, id);
      const std::vector<Value> simpler = def.expand(expansion);
      if (simpler.empty()) continue;
      replace_outputs(graph, id, simpler);
      changed = true;
      break;  // what follows may now follow otherwise
    }
  }
}

void expand_unsupported(Graph& graph, const std::string& device, const KernelQuery& kernels) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeId id : graph.order()) {
      const OpDef& def = op_def(graph.node(id).op);
      if (!def.expand || kernels.supported(graph.call(id), device)) continue;
      Expansion expansion(graph, id);
      const std::vector<Value> simpler = def.expand(expansion);
      if (simpler.empty()) continue;  // nothing to expand here: binding will say that there is no kernel
      replace_outputs(graph, id, simpler);
      changed = true;
    }
  }
}

}  // namespace ff
