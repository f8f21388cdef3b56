// One call of an operator as kernels, costs and sharding rules see it: names and numbers, no graph around it.
#pragma once

#include <string>
#include <vector>

#include "graph/attrs.h"
#include "graph/tensor.h"

namespace ff {

// One index of an operator's loop nest and the part of it that a call covers. Unsplit: origin 0, extent = global.
struct IndexRange {
  std::string name;
  int64_t origin = 0;
  int64_t extent = 0;
  int64_t global = 0;

  bool whole() const { return extent == global; }
};

// The part of the iteration space that a call covers, one range per index in the order of the op's definition.
using Box = std::vector<IndexRange>;

// A rectangle of a tensor.
struct Rect {
  std::vector<int64_t> origin, extent;
  bool operator==(const Rect&) const = default;
};

struct OpCall {
  std::string op;
  std::string name;  // the node's, for messages
  Attrs attrs;
  std::vector<TensorType> inputs;   // local shapes
  std::vector<TensorType> outputs;  // local shapes
  Box box;
};

std::string to_string(const OpCall& call);

}  // namespace ff
