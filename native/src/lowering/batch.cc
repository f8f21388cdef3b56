// A copy of the user's graph at another batch size. The first dimension of the inputs is the batch; shape rules carry
// a new one through, and the few ops that hold it in an attribute adapt theirs (OpDef::rebatch).
#include "base/error.h"
#include "lowering/step_graph.h"
#include "ops/op.h"

namespace ff {
namespace {

std::vector<bool> needed_nodes(const Graph& user, const std::vector<Value>& roots) {
  std::vector<bool> needed(user.size(), false);
  std::vector<NodeId> stack;
  for (const Value& root : roots) stack.push_back(root.node);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    for (const Value& input : user.node(id).inputs) stack.push_back(input.node);
  }
  return needed;
}

void set_leading(Node& node, int64_t batch) {
  node.outputs[0].shape[0] = batch;
  node.attrs.set("shape", node.outputs[0].shape);
}

Copied copy(const Graph& user, const std::vector<Value>& roots, int64_t batch, bool batched_constants) {
  const int64_t before = batch_size(user);
  const std::vector<bool> needed = needed_nodes(user, roots);
  Copied copied{.graph = {}, .map = std::vector<NodeId>(user.size(), -1)};
  for (const NodeId id : user.order()) {
    if (!needed[id]) continue;
    Node node = user.node(id);
    node.origin = id;
    const bool has_batch = !node.outputs.empty() && node.outputs[0].rank() > 0 && node.outputs[0].shape[0] == before;
    if (batch > 0 && batch != before && has_batch &&
        (node.op == "input" || (batched_constants && node.op == "constant")))
      set_leading(node, batch);
    for (Value& input : node.inputs) input = copied(input);
    if (!node.inputs.empty()) {
      const OpDef& def = op_def(node.op);
      OpCall call = user.call(id);
      std::vector<TensorType> inputs;
      for (const Value& input : node.inputs) inputs.push_back(copied.graph.type(input));
      if (def.rebatch && inputs != call.inputs) node.attrs = def.rebatch(call, inputs);
      call.attrs = node.attrs;
      call.inputs = std::move(inputs);
      node.outputs = def.shape(call);
    }
    copied.map[id] = copied.graph.add(std::move(node));
  }
  return copied;
}

}  // namespace

int64_t batch_size(const Graph& user) {
  for (NodeId id = 0; id < static_cast<NodeId>(user.size()); ++id)
    if (user.node(id).op == "input" && user.node(id).outputs[0].rank() > 0) return user.node(id).outputs[0].shape[0];
  return 0;
}

Copied copy_for_batch(const Graph& user, const std::vector<Value>& roots, int64_t batch) {
  // A constant with the batch as its first extent may or may not mean the batch: the reading under which the shapes
  // agree is taken, unchanged constants first.
  try {
    return copy(user, roots, batch, false);
  } catch (const Error&) {
    try {
      return copy(user, roots, batch, true);
    } catch (const Error&) {
    }
    throw;
  }
}

}  // namespace ff
