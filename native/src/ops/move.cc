// What crosses from one sharding to another: the op that lowering puts on edges whose two ends disagree.
#include "graph/moves.h"
#include "ops/rules.h"

namespace ff {
namespace {

OpDef move() {
  OpDef op("move");
  op.describe("Rectangles of the inputs, copied into the output or combined there.");
  op.inputs(1, -1).unsplittable("it is made for one device").no_gradient();
  op.attr("pieces", std::vector<int64_t>{}, "for each rectangle: input, origin in it, origin in the output, extent");
  op.attr("combiner", std::string("copy"), "what happens to rectangles that meet",
          {"copy", "sum", "max", "min", "prod", "any"});
  op.shape = like_first;
  op.flops = flops_per_element(1);
  op.internal = true;
  return op;
}
REGISTER_OP(move);

}  // namespace
}  // namespace ff
