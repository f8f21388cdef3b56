#include "parallel/parts.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ff {
namespace {

// An op has a call for each part: more are surely a mistake, which would take hours and all memory.
constexpr size_t kMostParts = size_t{1} << 16;

Box first_half(Box box, size_t index) {
  box[index].extent = (box[index].global + 1) / 2;
  return box;
}

// A range of [0, from) as one of [0, to): ranges that tile the one tile the other.
Range scaled(int64_t origin, int64_t extent, int64_t from, int64_t to) {
  if (from == to) return {origin, extent};
  const int64_t begin = origin * to / from;
  return {begin, (origin + extent) * to / from - begin};
}

bool same_box(const Box& a, const Box& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const IndexRange& x, const IndexRange& y) {
    return x.origin == y.origin && x.extent == y.extent;
  });
}

bool apart(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].origin + a[i].extent <= b[i].origin || b[i].origin + b[i].extent <= a[i].origin) return true;
  return false;
}

double volume(const Box& box) {
  double product = 1;
  for (const IndexRange& range : box) product *= static_cast<double>(range.extent);
  return product;
}

std::vector<int64_t> whole_axes(const OpDef& def, const OpCall& call) {
  if (def.whole_axis.empty()) return {};
  std::vector<int64_t> axes;
  if (def.find_attr(def.whole_axis)->type == AttrType::integers)
    axes = call.attrs.ints(def.whole_axis);
  else
    axes = {call.attrs.integer(def.whole_axis)};
  for (int64_t& axis : axes) axis = normal_axis(axis, call.inputs[0].rank(), call.name);
  return axes;
}

// Each box once; nothing where two of them overlap without being equal.
std::vector<Box> distinct(const std::vector<Box>& boxes) {
  std::vector<Box> found;
  for (const Box& box : boxes) {
    if (std::any_of(found.begin(), found.end(), [&](const Box& other) { return same_box(other, box); })) continue;
    if (!std::all_of(found.begin(), found.end(), [&](const Box& other) { return apart(other, box); })) return {};
    found.push_back(box);
  }
  return found;
}

void add_once(Parts& parts, Part part) {
  const bool there = std::any_of(parts.begin(), parts.end(), [&](const Part& other) {
    return other.device == part.device && same_box(other.box, part.box);
  });
  if (!there) parts.push_back(std::move(part));
}

}  // namespace

bool Part::empty() const {
  return std::any_of(box.begin(), box.end(),
                     [](const IndexRange& range) { return range.extent == 0 && range.global > 0; });
}

Splitting::Splitting(const OpDef& def, OpCall call) : def_(def), call_(std::move(call)) {
  call_.box = iteration_space(def_, call_);
}

std::string Splitting::obstacle(size_t index) const {
  if (!def_.unsplittable_reason.empty()) return def_.unsplittable_reason;
  for (const auto& [name, reason] : def_.whole_indices)
    if (call_.box[index].name == name) return reason;
  const auto activation = call_.attrs.has("activation") ? call_.attrs.text("activation") : "none";
  if (activation != "none" && call_.box[index].global > 1 && combined(index))
    return cat("its sum is not complete before the ", activation);
  const std::vector<int64_t> axes = whole_axes(def_, call_);
  const int dim = axes.empty() ? -1 : dim_of(index, {false, 0});
  if (std::find(axes.begin(), axes.end(), dim) != axes.end()) return cat("its kernel needs axis ", dim, " whole");
  return "";
}

int Splitting::dim_of(size_t index, Operand operand) const {
  const TensorType& type = operand.output ? call_.outputs[operand.index] : call_.inputs[operand.index];
  if (type.dtype == DType::opaque || call_.box[index].global < 2) return -1;
  const Rect part = region(first_half(call_.box, index), operand);
  int found = -1;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (part.extent[d] == type.shape[d]) continue;
    if (found >= 0) return -2;
    found = static_cast<int>(d);
  }
  return found;
}

bool Splitting::combined(size_t index) const {
  for (size_t k = 0; k < call_.outputs.size(); ++k)
    if (dim_of(index, {true, static_cast<int>(k)}) != -1) return false;
  return true;
}

Box Splitting::projected(Box box, int output) const {
  for (size_t i = 0; i < box.size(); ++i)
    if (!combined(i) && dim_of(i, {true, output}) == -1) box[i] = call_.box[i];
  return box;
}

Parts Splitting::cut(const Placement& placement) const {
  Parts parts = whole(placement.start);
  for (const Split& split : placement.splits) {
    const auto it = std::find_if(call_.box.begin(), call_.box.end(),
                                 [&](const IndexRange& range) { return range.name == split.index; });
    if (it == call_.box.end()) {
      std::vector<std::string> names;
      for (const IndexRange& range : call_.box) names.push_back(range.name);
      bad_value(call_.name, ": ", call_.op, " has no index \"", split.index, "\" to split; it has ",
                names.empty() ? "none" : join(names));
    }
    const auto index = static_cast<size_t>(it - call_.box.begin());
    if (split.degree < 1) bad_value(call_.name, ": index \"", split.index, "\" has degree ", split.degree);
    if (parts.size() * static_cast<size_t>(split.degree) > kMostParts)
      bad_value(call_.name, ": index \"", split.index, "\" in ", split.degree, " parts makes ",
                parts.size() * static_cast<size_t>(split.degree), " parts; expected at most ", kMostParts);
    if (const std::string reason = obstacle(index); split.degree > 1 && !reason.empty())
      bad_value(call_.name, ": ", call_.op, " cannot be split along \"", split.index, "\": ", reason);
    Parts next;
    for (const Part& part : parts)
      for (int p = 0; p < split.degree; ++p) {
        // Of what is left of the index: it may be split before, along another dimension of the machine view.
        const Range range = part_of(part.box[index].extent, p, split.degree);
        next.push_back(part);
        next.back().box[index].origin += range.origin;
        next.back().box[index].extent = range.extent;
        next.back().device += p * split.stride;
        if (split.stride == 0 && split.degree > 1) next.back().micro = std::max(0, part.micro) * split.degree + p;
      }
    parts = std::move(next);
  }
  return parts;
}

std::optional<Parts> Splitting::follow(Operand operand, const std::vector<Shard>& shards) const {
  const TensorType& type = operand.output ? call_.outputs[operand.index] : call_.inputs[operand.index];
  std::vector<int> dims;
  for (size_t i = 0; i < call_.box.size(); ++i) dims.push_back(obstacle(i).empty() ? dim_of(i, operand) : -1);
  Parts parts;
  for (const Shard& shard : shards) {
    Part part{call_.box, shard.device, -1};
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) continue;
      const auto d = static_cast<size_t>(dims[i]);
      const Range range = scaled(shard.rect.origin[d], shard.rect.extent[d], type.shape[d], part.box[i].global);
      part.box[i].origin = range.origin;
      part.box[i].extent = range.extent;
    }
    add_once(parts, std::move(part));
  }
  if (!tile(parts)) return std::nullopt;
  return parts;
}

std::optional<Parts> Splitting::follow(const Parts& other) const {
  Parts mine;
  for (const Part& part : other) {
    Part made{call_.box, part.device, part.micro};
    for (const IndexRange& range : part.box) {
      const auto it =
          std::find_if(made.box.begin(), made.box.end(), [&](const IndexRange& own) { return own.name == range.name; });
      if (it == made.box.end()) {
        if (!range.whole()) return std::nullopt;
        continue;
      }
      if (range.whole()) continue;
      if (!obstacle(static_cast<size_t>(it - made.box.begin())).empty()) return std::nullopt;
      const Range own = scaled(range.origin, range.extent, range.global, it->global);
      it->origin = own.origin;
      it->extent = own.extent;
    }
    mine.push_back(std::move(made));
  }
  if (!tile(mine)) return std::nullopt;
  return mine;
}

// Boxes are equal or apart, also as far as each output can tell, and together they are the whole space.
bool Splitting::tile(const Parts& parts) const {
  std::vector<Box> boxes;
  for (const Part& part : parts)
    if (!part.empty()) boxes.push_back(part.box);
  const std::vector<Box> apart = distinct(boxes);
  double sum = 0;
  for (const Box& box : apart) sum += volume(box);
  if (apart.empty() != boxes.empty() || sum != volume(call_.box)) return false;
  for (size_t k = 0; k < call_.outputs.size(); ++k) {
    std::vector<Box> projections;
    for (const Box& box : apart) projections.push_back(projected(box, static_cast<int>(k)));
    if (!projections.empty() && distinct(projections).empty()) return false;
  }
  return true;
}

const char* name_of(IndexKind kind) {
  constexpr const char* kNames[] = {"sample", "attribute", "parameter", "reduction"};
  return kNames[static_cast<size_t>(kind)];
}

IndexKind kind_of(const Splitting& splitting, size_t index, const Graph& graph, const std::vector<Value>& inputs) {
  for (size_t k = 0; k < inputs.size(); ++k)
    if (graph.node(inputs[k].node).op == "weight" && splitting.dim_of(index, {false, static_cast<int>(k)}) != -1)
      return splitting.combined(index) ? IndexKind::reduction : IndexKind::parameter;
  if (splitting.combined(index)) return IndexKind::reduction;
  return splitting.dim_of(index, {true, 0}) == 0 ? IndexKind::sample : IndexKind::attribute;
}

std::vector<Shard> shards_of(const Splitting& splitting, const Parts& parts, Operand operand) {
  std::vector<Shard> shards;
  for (const Part& part : parts) {
    Shard shard{splitting.region(part.box, operand), part.device};
    if (std::find(shards.begin(), shards.end(), shard) == shards.end()) shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace ff
