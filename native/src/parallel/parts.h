// How a node is split: into boxes that tile its iteration space, each on one device, or on several that hold copies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/rect.h"
#include "ops/op.h"

namespace ff {

// One index of an op in `degree` parts, the next part `stride` devices further; one dimension of a machine view.
struct Split {
  std::string index;
  int degree = 1;
  int stride = 1;
  // Of the output: what tells the index in the ops of an expansion, where it may have another name.
  int dim = -1;
  int64_t extent = 0;
  bool operator==(const Split&) const = default;
};

// All splits of one op: degrees and machine view. The first part lies on device `start`.
struct Placement {
  std::string op;  // what is split; its expansion only follows
  int start = 0;
  std::vector<Split> splits;
  bool operator==(const Placement&) const = default;
};

struct Part {
  Box box;
  int device = 0;
  int micro = -1;  // which of the parts that lie on one device, one after another; -1: there is one

  // No work: a batch may have fewer rows than there are devices.
  bool empty() const;
};
using Parts = std::vector<Part>;

// An operator call with its whole iteration space, and what splitting an index of it does.
class Splitting {
 public:
  Splitting(const OpDef& def, OpCall call);

  const OpDef& def() const { return def_; }
  const OpCall& call() const { return call_; }
  const Box& box() const { return call_.box; }
  Rect region(const Box& box, Operand operand) const { return operand_region(def_, call_, box, operand); }

  // Why an index cannot be split; empty when it can.
  std::string obstacle(size_t index) const;
  // The dimension of an operand that an index cuts, -1 when it leaves the operand whole, -2 when it cuts several.
  int dim_of(size_t index, Operand operand) const;
  // No output has the index: its parts make partial results.
  bool combined(size_t index) const;
  // A box without the indices that make no difference to an output: they are neither its dimensions nor summed in it.
  Box projected(Box box, int output) const;
  Combiner combiner() const { return def_.iteration ? def_.iteration->combiner : Combiner::sum; }

  Parts whole(int device) const { return {{call_.box, device, -1}}; }
  // Throws an Error that names the op when it has no such index or cannot be split along it.
  Parts cut(const Placement& placement) const;
  // Boxes that need little of an operand but what the shards have; nothing where no such boxes tile the space.
  std::optional<Parts> follow(Operand operand, const std::vector<Shard>& shards) const;
  // The boxes of another op, index by index of the same name; nothing where an index that it splits is not there.
  std::optional<Parts> follow(const Parts& other) const;

 private:
  bool tile(const Parts& parts) const;

  const OpDef& def_;
  OpCall call_;
};

// What splitting an index splits: the samples of a batch, what weights are shared out by, what is summed over, or
// something else. Of an index that can be split.
enum class IndexKind : uint8_t { sample, attribute, parameter, reduction };
const char* name_of(IndexKind kind);
// graph: where the inputs of the call come from.
IndexKind kind_of(const Splitting& splitting, size_t index, const Graph& graph, const std::vector<Value>& inputs);

// The rectangles of an operand that parts need or make, each once.
std::vector<Shard> shards_of(const Splitting& splitting, const Parts& parts, Operand operand);

}  // namespace ff
