#include "ops/grad.h"

namespace ff {

std::vector<Value> Emitter::emit_all(const std::string& op, std::vector<Value> inputs, Attrs attrs) {
  const std::string name = graph_.node(node_).name + (section_ == Section::backward ? "/" + op : ":" + op);
  const NodeId id = add_op(graph_, op, std::move(attrs), std::move(inputs), name);
  Node& made = graph_.node(id);
  made.section = section_;
  made.origin = graph_.node(node_).origin;
  std::vector<Value> outputs;
  for (size_t k = 0; k < made.outputs.size(); ++k) outputs.push_back({id, static_cast<int32_t>(k)});
  return outputs;
}

Value Emitter::emit(const std::string& op, std::vector<Value> inputs, Attrs attrs) {
  return emit_all(op, std::move(inputs), std::move(attrs)).front();
}

Value Emitter::fill(const TensorType& type, double value) {
  return emit("constant", {}, {{"shape", type.shape}, {"dtype", std::string(name_of(type.dtype))}, {"value", value}});
}

Value GradContext::dout(int i) {
  if (!output_grads_[i].valid()) output_grads_[i] = fill(out_type(i), 0.0);
  return output_grads_[i];
}

void GradContext::in_grad(int i, Value grad) {
  input_grads_[i] = input_grads_[i].valid() ? emit("add", {input_grads_[i], grad}) : grad;
}

}  // namespace ff
