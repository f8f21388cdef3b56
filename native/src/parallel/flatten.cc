#include "parallel/flatten.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/moves.h"

namespace ff {
namespace {

// Part of a tensor in the flat graph. Of a partial tensor: what it adds to the rectangle, and which of the boxes that
// are summed made it.
struct Made {
  Shard shard;
  Value value;
  size_t term = 0;
};

// A tensor of the graph, as it lies about.
struct Tensor {
  std::vector<Made> made;    // by the parts of its node
  std::vector<Made> summed;  // of a partial tensor: finished rectangles
  std::vector<Made> fetched;
  bool partial = false;
  Combiner combiner = Combiner::sum;
};

class Flattening {
 public:
  Flattening(const Pcg& pcg, const Machine& machine)
      : pcg_(pcg), machine_(machine), tensors_(pcg.graph.size()), splittings_(pcg.graph.size()) {
    for (const NodeId id : pcg.graph.order()) {
      tensors_[id].resize(pcg.graph.node(id).outputs.size());
      splittings_[id].emplace(op_def(pcg.graph.node(id).op), pcg.graph.call(id));
    }
    find_demands();
  }

  FlatGraph run() {
    flat_.stages = pcg_.stages;
    for (const NodeId id : pcg_.graph.order()) {
      const Node& node = pcg_.graph.node(id);
      if (node.op == "constant") continue;  // made where it is wanted
      if (pcg_.pieces[id].empty())
        add_calls(id);
      else
        add_pieces(id);
    }
    for (const auto& [name, value] : pcg_.graph.outputs)
      flat_.graph.outputs.emplace_back(name, fetch(value, whole(value), 0, pcg_.graph.node(value.node).section));
    for (const Assignment& assignment : pcg_.graph.assignments)
      for (const Made& piece : tensors_[assignment.state][0].made)
        flat_.graph.assignments.push_back(
            {piece.value.node, fetch(assignment.value, piece.shard.rect, piece.shard.device,
                                     pcg_.graph.node(assignment.value.node).section)});
    return std::move(flat_);
  }

 private:
  Rect whole(Value value) const { return whole_of(pcg_.graph.type(value).shape); }
  Tensor& tensor(Value value) { return tensors_[value.node][value.index]; }

  // ---- who wants what: a sum that many devices want is made in slices, one by each of them ----
  void find_demands() {
    demands_.resize(pcg_.graph.size());
    for (const NodeId id : pcg_.graph.order()) demands_[id].resize(pcg_.graph.node(id).outputs.size());
    const auto want = [&](Value value, Shard shard) {
      auto& all = demands_[value.node][value.index];
      if (std::find(all.begin(), all.end(), shard) == all.end()) all.push_back(std::move(shard));
    };
    for (const NodeId id : pcg_.graph.order()) {
      const Node& node = pcg_.graph.node(id);
      for (size_t k = 0; k < node.inputs.size(); ++k)
        for (const Part& part : pcg_.parts[id])
          if (!part.empty() && pcg_.graph.type(node.inputs[k]).dtype != DType::opaque)
            want(node.inputs[k], {splittings_[id]->region(part.box, {false, static_cast<int>(k)}), part.device});
    }
    for (const Assignment& assignment : pcg_.graph.assignments)
      for (const Shard& piece : pcg_.pieces[assignment.state]) want(assignment.value, piece);
    for (const auto& [name, value] : pcg_.graph.outputs) want(value, {whole(value), 0});
  }

  // ---- nodes ----
  static Local on(int device, Box box = {}, int micro = -1) {
    Local local;
    local.device = device;
    local.micro = micro;
    local.box = std::move(box);
    return local;
  }

  NodeId add(Node node, Local local, bool alone) {
    if (!alone) node.name += cat("@", local.device);
    if (local.micro >= 0) node.name += cat("#", local.micro);
    const NodeId id = flat_.graph.add(std::move(node));
    flat_.locals.resize(static_cast<size_t>(id) + 1);
    flat_.locals[id] = std::move(local);
    return id;
  }

  // Devices of one memory have one copy between them.
  std::vector<Shard> pieces_of(NodeId id) const {
    std::vector<Shard> pieces;
    for (const Shard& piece : pcg_.pieces[id])
      if (std::none_of(pieces.begin(), pieces.end(), [&](const Shard& other) { return at_hand(other, piece); }))
        pieces.push_back(piece);
    return pieces;
  }

  void add_pieces(NodeId id) {
    const Node& node = pcg_.graph.node(id);
    const std::vector<Shard> pieces = pieces_of(id);
    for (const Shard& piece : pieces) {
      Node part = node;
      part.outputs[0].shape = piece.rect.extent;
      const NodeId made = add(
          std::move(part),
          {.device = piece.device, .box = {}, .state = node.name, .piece = piece.rect, .whole = node.outputs[0].shape},
          pieces.size() == 1);
      tensors_[id][0].made.push_back({piece, {made, 0}});
    }
  }

  void add_calls(NodeId id) {
    const Node& node = pcg_.graph.node(id);
    const Splitting& splitting = *splittings_[id];
    const Parts& parts = pcg_.parts[id];
    std::vector<Box> terms;                                        // distinct boxes ...
    std::vector<std::vector<Box>> of_output(node.outputs.size());  // ... as far as an output can tell them apart
    for (size_t p = 0; p < parts.size(); ++p) {
      const Part& part = parts[p];
      if (part.empty()) continue;
      Node call = node;
      for (size_t k = 0; k < node.inputs.size(); ++k) call.inputs[k] = operand(id, p, static_cast<int>(k));
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (node.outputs[k].dtype != DType::opaque)
          call.outputs[k].shape = splitting.region(part.box, {true, static_cast<int>(k)}).extent;
      const NodeId made = add(std::move(call), on(part.device, part.box, part.micro), parts.size() == 1);
      if (term_of(terms, part.box) == terms.size()) terms.push_back(part.box);
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        const Box projection = splitting.projected(part.box, static_cast<int>(k));
        const size_t term = term_of(of_output[k], projection);
        if (term == of_output[k].size()) of_output[k].push_back(projection);
        const Rect rect =
            node.outputs[k].dtype == DType::opaque ? Rect{} : splitting.region(part.box, {true, static_cast<int>(k)});
        tensors_[id][k].made.push_back({{rect, part.device}, {made, static_cast<int32_t>(k)}, term});
      }
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      Tensor& tensor = tensors_[id][k];
      tensor.combiner = splitting.combiner();
      tensor.partial = terms.size() > 1 && is_partial(splitting, terms);
      if (tensor.partial && node.outputs[k].dtype != DType::opaque) accumulate({id, static_cast<int32_t>(k)}, tensor);
    }
  }

  // Terms that the same devices make of a rectangle, as of a gradient from one micro-batch after another, are combined
  // there as they come.
  void accumulate(Value value, Tensor& tensor) {
    std::map<size_t, std::set<int>> makers;  // by term
    for (const Made& made : tensor.made)
      if (volume(made.shard.rect) != 0) makers[made.term].insert(made.shard.device);
    std::vector<Made> made;
    std::set<std::pair<size_t, int>> seen;  // an output may not tell parts apart
    for (const Made& next : tensor.made) {
      const bool empty = volume(next.shard.rect) == 0;  // a part that has no share in this output, as of experts
      if (!empty && !seen.insert({next.term, next.shard.device}).second) continue;
      const auto sum = std::find_if(made.begin(), made.end(), [&](const Made& before) {
        return before.shard == next.shard && makers[before.term] == makers[next.term];
      });
      if (sum == made.end() || empty) {
        made.push_back(next);
        continue;
      }
      Moves moves(next.shard.rect, name_of(tensor.combiner));
      for (const int input : {0, 1}) moves.add(input, next.shard.rect, next.shard.rect);
      sum->value = add_move("reduction", value, {sum->value, next.value}, moves, next.shard,
                            pcg_.graph.node(value.node).section);
    }
    tensor.made = std::move(made);
    const auto& first = tensor.made.front();
    tensor.partial = std::any_of(tensor.made.begin(), tensor.made.end(),
                                 [&](const Made& other) { return other.term != first.term; });
  }

  // Where a box stands in a list, or would.
  static size_t term_of(const std::vector<Box>& terms, const Box& box) {
    const auto same = [&](const Box& other) {
      return std::equal(box.begin(), box.end(), other.begin(), [](const IndexRange& a, const IndexRange& b) {
        return a.origin == b.origin && a.extent == b.extent;
      });
    };
    return static_cast<size_t>(std::find_if(terms.begin(), terms.end(), same) - terms.begin());
  }

  static bool is_partial(const Splitting& splitting, const std::vector<Box>& terms) {
    for (size_t i = 0; i < terms[0].size(); ++i)
      if (!terms[0][i].whole() && splitting.combined(i)) return true;
    return false;
  }

  Value operand(NodeId id, size_t part, int k) {
    const Value value = pcg_.graph.node(id).inputs[k];
    const Parts& parts = pcg_.parts[id];
    if (pcg_.graph.type(value).dtype != DType::opaque)
      return fetch(value, splittings_[id]->region(parts[part].box, {false, k}), parts[part].device,
                   pcg_.graph.node(id).section);
    // A workspace belongs to the part that made it.
    const auto& made = tensor(value).made;
    size_t nth = 0;
    for (size_t p = 0; p < part; ++p) nth += parts[p].empty() ? 0 : 1;
    FF_CHECK(nth < made.size() && made[nth].shard.device == parts[part].device, pcg_.graph.node(id).name,
             " is split unlike ", pcg_.graph.node(value.node).name, ", whose workspace it reads");
    return made[nth].value;
  }

  // ---- moves ----
  // The rectangle of a tensor on a device.
  Value fetch(Value value, const Rect& rect, int device, Section asking) {
    if (pcg_.graph.node(value.node).op == "constant") return constant(value, rect, device, asking);
    Tensor& tensor = this->tensor(value);
    if (tensor.partial) sum_in_slices(value, tensor);
    const Shard wanted{rect, device};
    const std::vector<Made>& finished = tensor.partial ? tensor.summed : tensor.made;
    for (const Made& made : finished)
      if (made.shard == wanted) return made.value;
    for (const Made& made : finished)
      if (at_hand(made.shard, wanted)) return made.value;
    for (const Made& made : tensor.fetched)
      if (made.shard == wanted) return made.value;
    const bool state = pcg_.graph.node(value.node).op == "weight";
    const Section section = state ? asking : pcg_.graph.node(value.node).section;
    const bool covered = !tensor.partial || covers(tensor.summed, rect);
    const Value got = covered ? gather(value, finished, wanted, section) : sum(value, tensor, wanted, section);
    tensor.fetched.push_back({wanted, got});
    return got;
  }

  Value constant(Value value, const Rect& rect, int device, Section section) {
    Tensor& tensor = this->tensor(value);
    for (const Made& made : tensor.fetched)
      if (made.shard.device == device && made.shard.rect.extent == rect.extent) return made.value;
    Node node = pcg_.graph.node(value.node);
    node.outputs[0].shape = rect.extent;
    node.section = section;
    const NodeId made = add(std::move(node), on(device), tensor.fetched.empty());
    tensor.fetched.push_back({{rect, device}, {made, 0}});
    return {made, 0};
  }

  // Is this the rectangle that is wanted, where the device can read it?
  bool at_hand(const Shard& shard, const Shard& wanted) const {
    return shard.rect == wanted.rect && machine_.share_memory(shard.device, wanted.device);
  }

  static bool covers(const std::vector<Made>& made, const Rect& rect) {
    std::vector<Rect> missing = {rect};
    for (const Made& one : made) {
      std::vector<Rect> left;
      for (const Rect& hole : missing)
        for (Rect& rest : ff::difference(hole, one.shard.rect)) left.push_back(std::move(rest));
      missing = std::move(left);
    }
    return missing.empty();
  }

  // A partial tensor that several devices want whole or in the same rectangle: each sums a slice, and who wants more
  // gathers the slices.
  void sum_in_slices(Value value, Tensor& tensor) {
    if (!tensor.summed.empty()) return;
    std::vector<std::pair<Rect, std::vector<int>>> wanted;
    for (const Shard& shard : demands_[value.node][value.index]) {
      auto it = std::find_if(wanted.begin(), wanted.end(), [&](const auto& w) { return w.first == shard.rect; });
      if (it == wanted.end()) it = wanted.insert(wanted.end(), {shard.rect, {}});
      it->second.push_back(shard.device);
    }
    const TensorType& type = pcg_.graph.type(value);
    for (const auto& [rect, devices] : wanted) {
      const bool small = volume(rect) * static_cast<int64_t>(size_of(type.dtype)) <= kSmallSum;
      if (devices.size() < 2 || small || rect.extent.empty()) continue;
      const size_t dim = slicing_dim(rect, devices.size());
      for (size_t d = 0; d < devices.size(); ++d) {
        const Range range = part_of(rect.extent[dim], static_cast<int>(d), static_cast<int>(devices.size()));
        if (range.extent == 0) continue;
        Shard slice{rect, devices[d]};
        slice.rect.origin[dim] += range.origin;
        slice.rect.extent[dim] = range.extent;
        tensor.summed.push_back({slice, sum(value, tensor, slice, pcg_.graph.node(value.node).section)});
      }
    }
  }

  // From what covers the rectangle, first what is on the device itself.
  Value gather(Value value, const std::vector<Made>& from, const Shard& wanted, Section section) {
    Moves moves(wanted.rect);
    std::vector<Value> inputs;
    std::vector<Rect> missing = {wanted.rect};
    for (const bool here : {true, false})
      for (const Made& made : from) {
        if ((made.shard.device == wanted.device) != here) continue;
        std::vector<Rect> left;
        bool used = false;
        for (const Rect& hole : missing) {
          if (const std::optional<Rect> common = intersection(hole, made.shard.rect)) {
            moves.add(static_cast<int>(inputs.size()), made.shard.rect, *common);
            used = true;
          }
          for (Rect& rest : ff::difference(hole, made.shard.rect)) left.push_back(std::move(rest));
        }
        missing = std::move(left);
        if (used) inputs.push_back(made.value);
      }
    FF_CHECK(missing.empty() || volume(wanted.rect) == 0, pcg_.graph.name(value), ": nobody makes ",
             to_string(missing.front()));
    const bool all = inputs.size() == 1 && moves.pieces().size() == 1 &&
                     moves.pieces()[0].from.extent == flat_.graph.type(inputs[0]).shape;
    const char* kind = inputs.size() > 1 ? "combine" : all ? "replicate" : "repartition";
    return add_move(kind, value, std::move(inputs), moves, wanted, section);
  }

  // The sum (or other combination) of all terms, each from the copy that is nearest.
  Value sum(Value value, const Tensor& tensor, const Shard& wanted, Section section) {
    std::map<size_t, const Made*> nearest;
    for (const Made& made : tensor.made) {
      if (volume(made.shard.rect) == 0) continue;  // a part that has no share in this output
      const Made*& chosen = nearest[made.term];
      if (chosen == nullptr || made.shard.device == wanted.device) chosen = &made;
    }
    Moves moves(wanted.rect, name_of(tensor.combiner));
    std::vector<Value> inputs;
    for (const auto& [term, made] : nearest)
      if (const std::optional<Rect> common = intersection(wanted.rect, made->shard.rect)) {
        moves.add(static_cast<int>(inputs.size()), made->shard.rect, *common);
        inputs.push_back(made->value);
      }
    return add_move("reduction", value, std::move(inputs), moves, wanted, section);
  }

  Value add_move(const std::string& kind, Value value, std::vector<Value> inputs, const Moves& moves,
                 const Shard& wanted, Section section) {
    const TensorType& type = pcg_.graph.type(value);
    Node node{.name = cat(kind, "/", pcg_.graph.name(value)),
              .op = "move",
              .attrs = moves.attrs(),
              .inputs = std::move(inputs),
              .outputs = {{type.dtype, wanted.rect.extent}},
              .origin = pcg_.graph.node(value.node).origin,
              .section = section};
    return {add(std::move(node), on(wanted.device), false), 0};
  }

  const Pcg& pcg_;
  const Machine& machine_;
  FlatGraph flat_;
  std::vector<std::vector<Tensor>> tensors_;  // by node and output
  std::vector<std::optional<Splitting>> splittings_;
  std::vector<std::vector<std::vector<Shard>>> demands_;
};

}  // namespace

FlatGraph flatten(const Pcg& pcg, const Machine& machine) { return Flattening(pcg, machine).run(); }

}  // namespace ff
