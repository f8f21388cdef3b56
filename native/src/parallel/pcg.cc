#include "parallel/pcg.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"

namespace ff {
namespace {

class Placing {
 public:
  Placing(Pcg& pcg, const Strategy& strategy, const Machine& machine, bool lenient)
      : pcg_(pcg), strategy_(strategy), machine_(machine), lenient_(lenient) {
    const size_t n = pcg.graph.size();
    pcg.parts.resize(n);
    pcg.pieces.resize(n);
    splittings_.resize(n);
  }

  void run() {
    std::vector<NodeId> order = pcg_.graph.order();
    // Forward before backward, which is split as forward is.
    std::stable_sort(order.begin(), order.end(),
                     [&](NodeId a, NodeId b) { return pcg_.graph.node(a).section < pcg_.graph.node(b).section; });
    for (const NodeId id : order) {
      const Node& node = pcg_.graph.node(id);
      if (node.op == "weight" || node.op == "constant") continue;
      const Splitting& splitting = splittings_[id].emplace(op_def(node.op), pcg_.graph.call(id));
      if (node.op == "input") {
        pcg_.parts[id] = splitting.whole(0);
        pcg_.pieces[id] = shards_of(splitting, pcg_.parts[id], {true, 0});
        continue;
      }
      pcg_.parts[id] = parts_for(id, splitting);
      if (node.origin >= 0 && node.section == Section::forward) remember_forward(id);
      settle_states(id, splitting);
    }
  }

 private:
  // The first op of an expansion stands for all, but one that reads no data, as a sum of two biases, tells nothing of
  // where the others are.
  void remember_forward(NodeId id) {
    const auto reads_data = [&](NodeId reader) {
      const std::vector<Value>& inputs = pcg_.graph.node(reader).inputs;
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](const Value& input) { return pcg_.graph.node(input.node).op != "weight"; });
    };
    const auto [it, first] = forward_of_.emplace(pcg_.graph.node(id).origin, id);
    if (!first && !reads_data(it->second) && reads_data(id)) it->second = id;
  }

  Parts parts_for(NodeId id, const Splitting& splitting) const {
    const Node& node = pcg_.graph.node(id);
    // Where the original itself is needed no more, the copy is placed like any other op.
    if (node.again >= 0 && !pcg_.parts[node.again].empty()) return pcg_.parts[node.again];
    if (const std::optional<Placement> placement = said(id, splitting)) {
      try {
        return splitting.cut(*placement);
      } catch (const Error&) {
        if (!lenient_) throw;
      }
    }
    // A workspace is read beside the part that made it.
    for (const Value& input : node.inputs)
      if (pcg_.graph.type(input).dtype == DType::opaque)
        if (std::optional<Parts> parts = splitting.follow(pcg_.parts[input.node])) return std::move(*parts);
    std::vector<Parts> candidates;
    const auto add = [&](std::optional<Parts> parts) {
      if (parts) candidates.push_back(std::move(*parts));
    };
    const auto forward = forward_of_.find(node.origin);
    if (forward != forward_of_.end()) add(splitting.follow(pcg_.parts[forward->second]));
    // An update is made where its weight lies.
    const size_t followed =
        node.section == Section::update ? std::min<size_t>(1, node.inputs.size()) : node.inputs.size();
    for (size_t k = 0; k < followed; ++k)
      if (const std::vector<Shard> shards = shards_of_value(node.inputs[k]); !shards.empty()) {
        const bool update = node.section == Section::update && pcg_.graph.node(node.inputs[k].node).op == "weight";
        add(splitting.follow({false, static_cast<int>(k)}, update ? updated(node.inputs[k].node, shards) : shards));
      }
    if (candidates.empty()) return splitting.whole(home_of(node));
    if (!strategy_.stages.empty())
      keep_to_pipeline(candidates, node.section, forward == forward_of_.end() ? -1 : forward->second);
    const auto dearer = [&](const Parts& a, const Parts& b) { return cost(id, splitting, a) < cost(id, splitting, b); };
    return *std::min_element(candidates.begin(), candidates.end(), dearer);
  }

  // A gradient stays in the stage of its op, others go to the latest that they read from, and who can work on
  // micro-batches does, though it reads its weights again for each.
  void keep_to_pipeline(std::vector<Parts>& candidates, Section section, NodeId forward) const {
    const auto stage = [&](const Part& part) {
      return static_cast<size_t>(part.device) < strategy_.stages.size() ? strategy_.stages[part.device] : 0;
    };
    const auto on_one_device = [](const Parts& parts) {
      std::map<int, int> count;
      int most = 0;
      for (const Part& part : parts) most = std::max(most, ++count[part.device]);
      return most;
    };
    const auto keep = [&](auto&& good) {
      if (std::any_of(candidates.begin(), candidates.end(), good)) std::erase_if(candidates, std::not_fn(good));
    };
    int home = 0, most = 0;
    for (const Parts& parts : candidates) home = std::max(home, stage(parts.front()));
    if (forward >= 0 && section != Section::forward && !pcg_.parts[forward].empty())
      home = stage(pcg_.parts[forward].front());
    // As parts lie in another stage, so they can in this one.
    const auto per_stage =
        static_cast<int>(std::count(strategy_.stages.begin(), strategy_.stages.end(), strategy_.stages[0]));
    for (Parts& parts : candidates)
      for (Part& part : parts) part.device += (home - stage(part)) * per_stage;
    for (const Parts& parts : candidates) most = std::max(most, on_one_device(parts));
    keep([&](const Parts& parts) { return on_one_device(parts) == most; });
  }

  // What the strategy says about this very op. An op of its expansion takes the splits of the indices that it has too,
  // by their names, unless it lacks some and another op of the expansion tells more; its gradient only follows.
  std::optional<Placement> said(NodeId id, const Splitting& splitting) const {
    const Node& node = pcg_.graph.node(id);
    const auto it = strategy_.ops.find(node.origin);
    if (it == strategy_.ops.end() || node.section != Section::forward) return std::nullopt;
    if (it->second.op == node.op)
      return forward_of_.count(node.origin) == 0 ? std::optional(without_lost(it->second, splitting)) : std::nullopt;
    Placement shared = it->second;
    shared.splits.clear();
    for (Split split : it->second.splits) {
      const int index = index_for(split, splitting);
      if (index < 0) continue;
      split.index = splitting.box()[index].name;
      shared.splits.push_back(std::move(split));
    }
    const bool lacks = shared.splits.size() < it->second.splits.size();
    if (lacks && (shared.splits.empty() || is_inside(node))) return std::nullopt;
    return shared;
  }

  // At another batch size an op may lack an index that it has in the user's graph, as groups of a batch of one row.
  static Placement without_lost(Placement placement, const Splitting& splitting) {
    std::erase_if(placement.splits, [&](const Split& split) {
      const Box& box = splitting.box();
      return split.extent > 0 &&
             std::none_of(box.begin(), box.end(), [&](const IndexRange& range) { return range.name == split.index; });
    });
    return placement;
  }

  // The index of that name, or, where the op that was split calls it otherwise, that of the same dimension.
  static int index_for(const Split& split, const Splitting& splitting) {
    const Box& box = splitting.box();
    for (size_t i = 0; i < box.size(); ++i)
      if (box[i].name == split.index) return static_cast<int>(i);
    for (size_t i = 0; i < box.size() && split.dim >= 0 && !splitting.call().inputs.empty(); ++i)
      if (splitting.dim_of(i, {false, 0}) == split.dim && box[i].global == split.extent &&
          splitting.obstacle(i).empty())
        return static_cast<int>(i);
    return -1;
  }

  // Whether it reads what another op of the same expansion makes.
  bool is_inside(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Value& input) { return pcg_.graph.node(input.node).origin == node.origin; });
  }

  // What each device that holds a weight updates of it: each of the copies, or a slice of them, if that is to be shared
  // out or there is only one copy in a memory. A device of such a memory updates what has no slice for each.
  std::vector<Shard> updated(NodeId weight, const std::vector<Shard>& shards) const {
    const bool shared = strategy_.shared_updates.count(pcg_.graph.node(weight).origin) != 0;
    std::vector<Shard> mine;
    for (const Shard& shard : shards) {
      int copies = 0, place = 0;
      bool first = true;  // of its memory
      for (const Shard& other : shards) {
        const bool one_memory = machine_.share_memory(other.device, shard.device);
        if (other.rect != shard.rect || !(shared || one_memory)) continue;
        if (&other == &shard) place = copies;
        first = first && (&other >= &shard || !one_memory);
        ++copies;
      }
      Shard slice = shard;
      const size_t dim = slicing_dim(shard.rect, static_cast<size_t>(copies));
      const bool small =
          volume(shard.rect) * static_cast<int64_t>(size_of(pcg_.graph.type({weight, 0}).dtype)) <= kSmallSum;
      if (copies > 1 && dim < shard.rect.extent.size() && shard.rect.extent[dim] >= copies && (shared || !small)) {
        const Range range = part_of(shard.rect.extent[dim], place, copies);
        slice.rect.origin[dim] += range.origin;
        slice.rect.extent[dim] = range.extent;
      } else if (!first) {
        continue;
      }
      mine.push_back(std::move(slice));
    }
    return mine;
  }

  // For who has nothing to follow, as a step of an expansion that reads weights alone.
  int home_of(const Node& node) const {
    for (const Value& input : node.inputs)
      if (const std::vector<Shard> shards = shards_of_value(input); !shards.empty()) return shards.front().device;
    const auto said = strategy_.ops.find(node.origin);
    return said != strategy_.ops.end() ? said->second.start : 0;
  }

  std::vector<Shard> shards_of_value(Value value) const {
    if (pcg_.graph.type(value).dtype == DType::opaque) return {};
    if (!pcg_.pieces[value.node].empty()) return pcg_.pieces[value.node];
    if (pcg_.parts[value.node].empty()) return {};
    return shards_of(*splittings_[value.node], pcg_.parts[value.node], {true, value.index});
  }

  bool partial(Value value) const {
    const Parts& parts = pcg_.parts[value.node];
    if (parts.size() < 2 || !pcg_.pieces[value.node].empty()) return false;
    const Splitting& splitting = *splittings_[value.node];
    for (size_t i = 0; i < splitting.box().size(); ++i)
      if (!parts[0].box[i].whole() && splitting.combined(i)) return true;
    return false;
  }

  // Bytes that parts must fetch, and bytes that the busiest device touches.
  double cost(NodeId id, const Splitting& splitting, const Parts& parts) const {
    const Node& node = pcg_.graph.node(id);
    std::map<int, double> touched;
    double fetched = 0;
    for (const Part& part : parts) {
      if (part.empty()) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (splitting.call().inputs[k].dtype == DType::opaque) continue;
        const Rect rect = splitting.region(part.box, {false, static_cast<int>(k)});
        const double bytes =
            static_cast<double>(volume(rect) * static_cast<int64_t>(size_of(splitting.call().inputs[k].dtype)));
        touched[part.device] += bytes;
        const std::vector<Shard> shards = shards_of_value(node.inputs[k]);
        const bool here = std::any_of(shards.begin(), shards.end(), [&](const Shard& shard) {
          return shard.device == part.device && contains(shard.rect, rect);
        });
        if (!shards.empty() && (!here || partial(node.inputs[k]))) fetched += bytes;
      }
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (node.outputs[k].dtype != DType::opaque)
          touched[part.device] += static_cast<double>(volume(splitting.region(part.box, {true, static_cast<int>(k)})) *
                                                      static_cast<int64_t>(size_of(node.outputs[k].dtype)));
    }
    double busiest = 0;
    for (const auto& [device, bytes] : touched) busiest = std::max(busiest, bytes);
    return fetched + busiest;
  }

  // States lie where the first op that reads them wants them: whatever the batch, so also where it has no work.
  void settle_states(NodeId id, const Splitting& splitting) {
    const Node& node = pcg_.graph.node(id);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const NodeId state = node.inputs[k].node;
      if (pcg_.graph.node(state).op != "weight" || !pcg_.pieces[state].empty()) continue;
      std::vector<Shard> pieces = shards_of(splitting, pcg_.parts[id], {false, static_cast<int>(k)});
      if (pcg_.graph.type({state, 0}).numel() > 0)
        std::erase_if(pieces, [](const Shard& piece) { return volume(piece.rect) == 0; });
      pcg_.pieces[state] = std::move(pieces);
    }
  }

  Pcg& pcg_;
  const Strategy& strategy_;
  const Machine& machine_;
  const bool lenient_;
  std::vector<std::optional<Splitting>> splittings_;
  std::map<NodeId, NodeId> forward_of_;  // node of the user's graph -> the first node here that computes it
};

}  // namespace

Pcg place(Graph graph, const Strategy& strategy, const Machine& machine, bool lenient) {
  Pcg pcg;
  pcg.graph = std::move(graph);
  pcg.stages = strategy.stages;
  Placing(pcg, strategy, machine, lenient).run();
  // A state that no op reads is a result, or is only written: it lies whole on the first device.
  for (const NodeId id : pcg.graph.order())
    if (pcg.graph.node(id).op == "weight" && pcg.pieces[id].empty())
      pcg.pieces[id] = {{whole_of(pcg.graph.node(id).outputs[0].shape), 0}};
  return pcg;
}

void check(const Pcg& pcg, const Machine& machine) {
  for (const NodeId id : pcg.graph.order())
    for (const Part& part : pcg.parts[id])
      if (part.device < 0 || static_cast<size_t>(part.device) >= machine.devices.size())
        bad_value(pcg.graph.node(id).name, ": placed on device ", part.device, "; the machine has ",
                  machine.devices.size());
      else if (!pcg.stages.empty() && static_cast<size_t>(part.device) >= pcg.stages.size())
        bad_value(pcg.graph.node(id).name, ": placed on device ", part.device, "; the pipeline has ",
                  pcg.stages.size());
}

}  // namespace ff
