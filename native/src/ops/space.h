// The iteration space of an operator in one line, and the sharding rules that follow from it.
//
//   "b* i, o i, o -> b* o"
//
// names the index that each dimension of each operand runs over: inputs and weights left of the arrow, outputs
// right of it. `b*` stands for any number of dimensions (b0, b1, ...). Splitting an index shards every operand
// that carries it and copies the others; an index that no output carries is combined away, and splitting it leaves
// partial results in the outputs, to be put together by the combiner.
#pragma once

#include <string>
#include <vector>

#include "graph/call.h"

namespace ff {

enum class Combiner : uint8_t { sum, max, min, prod, any };
const char* name_of(Combiner combiner);

// Which tensor of a call: input k or output k.
struct Operand {
  bool output = false;
  int index = 0;
};

struct Space {
  struct Axis {
    std::string letter;
    bool variadic = false;
    bool operator==(const Axis&) const = default;
  };
  using Axes = std::vector<Axis>;

  std::vector<Axes> inputs;  // an operand beyond the list (an optional bias left out) does not occur
  std::vector<Axes> outputs;
  Combiner combiner = Combiner::sum;
  bool repeat_last_input = false;  // "x*... -> x*": every input is like the last one named
  std::string line;

  static Space parse(const std::string& line, Combiner combiner);

  const Axes& axes(Operand operand) const;
  // Every index with its extent, in the order of first appearance; throws when two operands disagree on an extent.
  Box indices(const OpCall& call) const;
  // The rectangle of an operand that a box needs or makes.
  Rect region(const OpCall& call, const Box& box, Operand operand) const;
  // Does an output carry the index (or is it combined away)?
  bool combined(const std::string& index) const;
};

}  // namespace ff
