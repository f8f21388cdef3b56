#include "calls.h"

#include <cmath>

#include "base/random.h"

namespace calls {
namespace {

template <class F>
auto with_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::boolean:
      return body(bool{});
    case DType::int32:
      return body(int32_t{});
    case DType::int64:
      return body(int64_t{});
    case DType::float16:
      return body(float16{});
    case DType::bfloat16:
      return body(bfloat16{});
    case DType::float32:
      return body(float{});
    default:
      return body(double{});
  }
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

void fill(Array& array, const Domain& domain, uint64_t stream) {
  RandomStream random(1, stream, 0);
  const bool integer = !is_float(array.type.dtype);
  const int64_t span = std::min<int64_t>(domain.high - std::max<int64_t>(domain.low, 0), 100);
  for (int64_t i = 0; i < array.type.numel(); ++i) {
    const double u = random.uniform(static_cast<uint64_t>(i));
    // Positive: roots and logarithms are among the operators.
    array.set(i, integer ? static_cast<double>(domain.low) + std::floor(u * static_cast<double>(span)) : 0.25 + u);
  }
}

}  // namespace

double Array::get(int64_t i) const {
  return with_type(type.dtype, [&](auto zero) { return static_cast<double>(as<decltype(zero)>()[i]); });
}

void Array::set(int64_t i, double value) {
  with_type(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    as<T>()[i] = static_cast<T>(static_cast<std::conditional_t<sizeof(T) == 2, float, double>>(value));
  });
}

std::string Sample::name() const {
  std::vector<std::string> types;
  for (const TensorType& type : inputs) types.push_back(to_string(type));
  return cat(op, "(", join(types), "; ", to_string(attrs), ")");
}

OpCall call_of(const Sample& sample) {
  Graph graph;
  std::vector<Value> inputs;
  for (const TensorType& type : sample.inputs) {
    // An opaque input has the size that a residual of this call has; no "input" op makes it.
    Node node{.name = "", .op = "input", .attrs = {{"shape", type.shape}}, .inputs = {}, .outputs = {type}};
    inputs.push_back({graph.add(std::move(node)), 0});
  }
  return graph.call(add_op(graph, sample.op, sample.attrs, inputs, "sample"));
}

Arrays draw_inputs(const Sample& sample, const OpCall& call, const std::string& device) {
  const OpDef& def = op_def(call.op);
  Arrays inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.emplace_back(call.inputs[i]);
    const bool ids = def.domain && !is_float(call.inputs[i].dtype);
    fill(inputs.back(), ids ? def.domain(call, static_cast<int>(i)) : Domain{0, 5}, i);
  }
  if (sample.prepare) sample.prepare(call, inputs, device);
  return inputs;
}

Arrays run(const OpCall& whole, const Arrays& inputs, const std::string& device,
           const std::vector<std::pair<int, int>>& inplace) {
  OpCall call = whole;
  const OpDef& def = op_def(call.op);
  for (const int output : def.residuals)
    if (static_cast<size_t>(output) < call.outputs.size())
      call.outputs[output].shape = {static_cast<int64_t>(kernel_query().residual(call, device, output))};
  Arrays outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const TensorType& type : call.outputs) out.push_back(outputs.emplace_back(type).memory.data());
  for (const Array& array : inputs) in.push_back(array.memory.data());
  for (const auto& [output, input] : inplace) {
    std::memcpy(out[output], in[input], inputs[input].type.bytes());
    in[input] = out[output];
  }
  const Layouts layouts{std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
  const Memory scratch(aligned(kernel_query().scratch(call, device, layouts)));
  bind_kernel({call, layouts, 2}, device)->run({in.data(), out.data(), scratch.data()});
  return outputs;
}

void each_element(const Shape& shape, const Rect& rect, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t count = numel(rect.extent);
  for (int64_t part = 0; part < count; ++part) {
    int64_t rest = part, whole = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      whole += (rect.origin[d] + rest % rect.extent[d]) * stride;
      rest /= rect.extent[d];
      stride *= shape[d];
    }
    body(whole, part);
  }
}

Array cut(const Array& array, const Rect& rect) {
  Array part({array.type.dtype, rect.extent});
  each_element(array.type.shape, rect, [&](int64_t whole, int64_t at) { part.set(at, array.get(whole)); });
  return part;
}

double difference(const Array& a, const Array& b) {
  double worst = 0, largest = 1;
  for (int64_t i = 0; i < a.type.numel(); ++i) {
    largest = std::max(largest, std::abs(b.get(i)));
    const double apart = std::abs(a.get(i) - b.get(i));
    if (a.get(i) != b.get(i)) worst = std::max(worst, std::isnan(apart) ? 1e300 : apart);
  }
  return worst / largest;
}

}  // namespace calls
