#include "ops/space.h"

#include <algorithm>

#include "base/error.h"

namespace ff {
namespace {

Space::Axes parse_axes(std::istringstream in) {
  Space::Axes axes;
  for (std::string token; in >> token;) {
    const bool variadic = token.back() == '*';
    if (variadic) token.pop_back();
    axes.push_back({token, variadic});
  }
  return axes;
}

std::vector<Space::Axes> parse_side(const std::string& text) {
  std::vector<Space::Axes> side;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) side.push_back(parse_axes(std::istringstream(part)));
  return side;
}

const TensorType& type_of(const OpCall& call, Operand operand) {
  return operand.output ? call.outputs[operand.index] : call.inputs[operand.index];
}

// The names of the indices that the dimensions of one operand run over.
std::vector<std::string> index_names(const Space::Axes& axes, size_t rank, const OpCall& call) {
  const size_t variadic = std::count_if(axes.begin(), axes.end(), [](const auto& axis) { return axis.variadic; });
  FF_CHECK(variadic <= 1, call.op);
  FF_CHECK(variadic == 1 ? rank + 1 >= axes.size() : rank == axes.size(), call.op, ": an operand of rank ", rank,
           " does not fit its ", axes.size(), " indices");
  std::vector<std::string> names;
  for (const Space::Axis& axis : axes) {
    const size_t count = axis.variadic ? rank + 1 - axes.size() : 1;
    for (size_t k = 0; k < count; ++k) names.push_back(axis.variadic ? cat(axis.letter, k) : axis.letter);
  }
  return names;
}

}  // namespace

const char* name_of(Combiner combiner) {
  constexpr const char* kNames[] = {"sum", "max", "min", "prod", "any"};
  return kNames[static_cast<size_t>(combiner)];
}

Space Space::parse(const std::string& line, Combiner combiner) {
  const size_t arrow = line.find("->");
  FF_CHECK(arrow != std::string::npos, "iteration space without an arrow: ", line);
  std::string left = line.substr(0, arrow);
  Space space;
  if (const size_t dots = left.find("..."); dots != std::string::npos) {
    space.repeat_last_input = true;
    left.erase(dots, 3);
  }
  space.inputs = parse_side(left);
  space.outputs = parse_side(line.substr(arrow + 2));
  space.combiner = combiner;
  space.line = line;
  return space;
}

const Space::Axes& Space::axes(Operand operand) const {
  const std::vector<Axes>& side = operand.output ? outputs : inputs;
  size_t index = operand.index;
  if (!operand.output && repeat_last_input) index = std::min(index, side.size() - 1);
  FF_CHECK(index < side.size(), "operand ", operand.index, " is not in the iteration space ", line);
  return side[index];
}

Box Space::indices(const OpCall& call) const {
  Box box;
  const auto visit = [&](Operand operand) {
    const TensorType& type = type_of(call, operand);
    const std::vector<std::string> names = index_names(axes(operand), type.rank(), call);
    for (size_t d = 0; d < names.size(); ++d) {
      const int64_t extent = type.shape[d];
      const auto it = std::find_if(box.begin(), box.end(), [&](const IndexRange& r) { return r.name == names[d]; });
      if (it == box.end())
        box.push_back({names[d], 0, extent, extent});
      else
        FF_CHECK(it->extent == extent, call.op, ": index ", names[d], " has extents ", it->extent, " and ", extent);
    }
  };
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (call.outputs[i].dtype != DType::opaque) visit({true, static_cast<int>(i)});
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].dtype != DType::opaque) visit({false, static_cast<int>(i)});
  return box;
}

Rect Space::region(const OpCall& call, const Box& box, Operand operand) const {
  Rect rect;
  const TensorType& type = type_of(call, operand);
  for (const std::string& name : index_names(axes(operand), type.rank(), call)) {
    const auto it = std::find_if(box.begin(), box.end(), [&](const IndexRange& r) { return r.name == name; });
    FF_CHECK(it != box.end(), call.op, ": no index ", name);
    rect.origin.push_back(it->origin);
    rect.extent.push_back(it->extent);
  }
  return rect;
}

bool Space::combined(const std::string& index) const {
  for (const Axes& output : outputs)
    for (const Axis& axis : output)
      if (axis.variadic ? index.rfind(axis.letter, 0) == 0 : index == axis.letter) return false;
  return true;
}

}  // namespace ff
