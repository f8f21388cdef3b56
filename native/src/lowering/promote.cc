// Half-precision tensors where no kernel takes them: the op computes in float32 between casts. What is stored, moved
// and shared keeps its 16 bits.
#include <algorithm>

#include "base/error.h"
#include "lowering/step_graph.h"
#include "ops/grad.h"

namespace ff {
namespace {

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

bool has_half(const OpCall& call) {
  const auto half = [](const TensorType& type) { return is_half(type.dtype); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), half) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), half);
}

Value cast(Emitter& emitter, Value value, DType to) {
  return emitter.emit("cast", {value}, {{"dtype", std::string(name_of(to))}});
}

void promote(Graph& graph, NodeId id) {
  Expansion emitter(graph, id);
  const Node before = graph.node(id);
  std::vector<Value> inputs = before.inputs;
  for (Value& input : inputs)
    if (is_half(graph.type(input).dtype)) input = cast(emitter, input, DType::float32);
  Attrs attrs = before.attrs;
  if (attrs.has("dtype") && is_half(dtype_from_name(attrs.text("dtype")))) attrs.set("dtype", std::string("float32"));
  const std::vector<Value> outputs = emitter.emit_all(before.op, inputs, attrs);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const DType wanted = before.outputs[k].dtype;
    graph.replace({id, static_cast<int32_t>(k)}, is_half(wanted) ? cast(emitter, outputs[k], wanted) : outputs[k]);
  }
  graph.remove(id);
  graph.rename(outputs[0].node, before.name);
}

}  // namespace

void promote_halves(Graph& graph, const std::string& device, const KernelQuery& kernels) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == "weight" || node.op == "input" || node.op == "cast" || op_def(node.op).view) continue;
    const OpCall call = graph.call(id);
    if (has_half(call) && !kernels.supported(call, device)) promote(graph, id);
  }
}

}  // namespace ff
