// The ids of an embedding call, seen as bags: one id per bag, or the last dimension of the ids where rows are summed.
#pragma once

#include <string>

#include "base/error.h"
#include "graph/call.h"
#include "kernels/box.h"

namespace ff {

struct Bags {
  int64_t count, size;
  double scale;         // of each row: 1, or 1 / size of a mean
  int64_t first_entry;  // the part of the table that the call holds
  int64_t entries;

  Bags(const OpCall& call, const TensorType& table) {
    const TensorType& ids = call.inputs[0];
    const std::string& aggr = call.attrs.text("aggr");
    size = aggr == "none" ? 1 : ids.dim(-1);
    count = numel(aggr == "none" ? ids.shape : Shape(ids.shape.begin(), ids.shape.end() - 1));
    int64_t whole = size;
    for (const IndexRange& range : call.box)
      if (range.name == "k") whole = range.global;
    scale = aggr == "avg" && whole > 0 ? 1.0 / static_cast<double>(whole) : 1.0;
    first_entry = origin_of(call, "v");
    entries = table.dim(0);
  }
  bool holds(int64_t id) const { return id >= first_entry && id < first_entry + entries; }
};

// Throws unless every id is a row of the (whole) table.
template <class Id>
void check_ids(const OpCall& call, const Id* ids) {
  const int64_t entries = call.attrs.integer("num_entries");
  for (int64_t i = 0; i < call.inputs[0].numel(); ++i)
    if (ids[i] < 0 || ids[i] >= entries)
      bad_value(call.name, ": id ", ids[i], " at position ", i,
                " is out of range; expected 0 <= id < num_entries = ", entries);
}

}  // namespace ff
