#include "search/candidates.h"

#include <algorithm>
#include <set>

namespace ff {
namespace {

bool is_source(const Node& node) { return node.op == "weight" || node.op == "constant" || node.op == "input"; }

double bytes_of(const TensorType& type) {
  return type.dtype == DType::opaque ? 0.0 : static_cast<double>(type.bytes());
}

// The largest part of a call when indices are split so: those of the same name, or else of the same extent.
OpCall part_of_call(const Splitting& splitting, const Splitting& op, const Placement& placement) {
  OpCall call = splitting.call();
  std::set<size_t> taken;
  for (const Split& split : placement.splits) {
    const auto named = [&](const Box& box) {
      return static_cast<size_t>(
          std::find_if(box.begin(), box.end(), [&](const IndexRange& range) { return range.name == split.index; }) -
          box.begin());
    };
    size_t i = named(call.box);
    if (const size_t own = named(op.box()); i == call.box.size() && own < op.box().size())
      for (i = 0; i < call.box.size(); ++i)
        if (call.box[i].global == op.box()[own].global && taken.count(i) == 0) break;
    if (i == call.box.size() || !splitting.obstacle(i).empty()) continue;
    taken.insert(i);
    call.box[i].extent = part_of(call.box[i].extent, 0, split.degree).extent;
  }
  for (size_t k = 0; k < call.inputs.size(); ++k)
    if (call.inputs[k].dtype != DType::opaque)
      call.inputs[k].shape = splitting.region(call.box, {false, static_cast<int>(k)}).extent;
  for (size_t k = 0; k < call.outputs.size(); ++k)
    if (call.outputs[k].dtype != DType::opaque)
      call.outputs[k].shape = splitting.region(call.box, {true, static_cast<int>(k)}).extent;
  return call;
}

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = n; d >= 1; --d)
    if (n % d == 0) all.push_back(d);
  return all;
}

// Large degrees must divide, small ones may leave parts that are a little smaller.
bool splits_well(int64_t extent, int degree) {
  return extent % degree == 0 ? extent >= degree : degree <= 8 && extent >= 2 * degree;
}

}  // namespace

CandidateMaker::CandidateMaker(const Graph& user, const Graph& step, const MachineModel& machine, const Costs& costs,
                               const Transfers& transfers, const CandidateLimits& limits)
    : user_(user), step_(step), machine_(machine), costs_(costs), transfers_(transfers), limits_(limits) {
  make_groups();
  make_classes();
}

void CandidateMaker::make_groups() {
  splittings_.resize(user_.size());
  groups_.resize(user_.size());
  std::map<NodeId, NodeId> reader;  // of a weight: the first op that reads it
  std::set<NodeId> used;
  for (const NodeId id : step_.order())
    if (step_.node(id).origin >= 0) used.insert(step_.node(id).origin);
  for (const NodeId id : user_.order()) {
    const Node& node = user_.node(id);
    if (is_source(node) || used.count(id) == 0) continue;
    ops_.push_back(id);
    splittings_[id].emplace(op_def(node.op), user_.call(id));
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (const NodeId weight = node.inputs[k].node;
          user_.node(weight).op == "weight" && reader.try_emplace(weight, id).second)
        groups_[id].weights.emplace_back(weight, static_cast<int>(k));
  }
  step_splittings_.resize(step_.size());
  for (const NodeId id : step_.order()) {
    const Node& node = step_.node(id);
    if (is_source(node)) continue;
    step_splittings_[id].emplace(op_def(node.op), step_.call(id));
    if (node.section == Section::update) {
      if (node.inputs.empty() || step_.node(node.inputs[0].node).op != "weight") continue;
      trains_ = true;
      if (const auto it = reader.find(step_.node(node.inputs[0].node).origin); it != reader.end())
        groups_[it->second].updates.push_back(id);
    } else if (node.origin >= 0 && splittings_[node.origin]) {
      groups_[node.origin].calls.push_back(id);
    }
  }
}

std::string CandidateMaker::description(NodeId op) const {
  std::string text;
  const auto add = [&](const Splitting& splitting) {
    const OpCall& call = splitting.call();
    text += call.op + "(";
    for (const TensorType& type : call.inputs) text += to_string(type) + " ";
    text += ") ";
    for (const TensorType& type : call.outputs) text += to_string(type) + " ";
    for (const auto& [name, value] : call.attrs)
      if (name != "stream" && name != "seed") text += to_string(Attrs{{name, value}}) + " ";
    text += "\n";
  };
  add(*splittings_[op]);
  for (const NodeId call : groups_[op].calls) add(*step_splittings_[call]);
  for (const NodeId update : groups_[op].updates) add(*step_splittings_[update]);
  return text;
}

void CandidateMaker::make_classes() {
  classes_.assign(user_.size(), -1);
  std::map<std::string, int> known;
  for (const NodeId op : ops_)
    classes_[op] = known.try_emplace(description(op), static_cast<int>(known.size())).first->second;
}

std::vector<Placement> CandidateMaker::placements(NodeId op) const {
  const Splitting& splitting = *splittings_[op];
  const Box& box = splitting.box();
  const auto n = static_cast<int>(machine_.machine.devices.size());
  // Samples outermost, sums innermost: those who speak most are nearest.
  std::vector<std::pair<int, size_t>> indices;
  for (size_t i = 0; i < box.size(); ++i) {
    if (box[i].global < 2 || !splitting.obstacle(i).empty()) continue;
    const IndexKind kind = kind_of(splitting, i, user_, user_.node(op).inputs);
    const bool allowed[] = {limits_.sample, limits_.attribute, limits_.parameter, limits_.reduction};
    if (allowed[static_cast<size_t>(kind)]) indices.emplace_back(static_cast<int>(kind), i);
  }
  std::sort(indices.begin(), indices.end());
  std::vector<Placement> all;
  std::vector<Split> splits;
  const auto place = [&](int used) {
    std::vector<Split> strided = splits;
    int stride = 1;
    for (size_t s = strided.size(); s-- > 0; stride *= strided[s].degree) strided[s].stride = stride;
    for (int start = 0; start < n; start += used) {
      all.push_back({user_.node(op).op, start, strided});
      if (n > 16) break;
    }
  };
  const auto extend = [&](auto&& self, size_t from, int used, int rest) -> void {
    if (rest == 1) return place(used);
    if (splits.size() == 3 || all.size() > 4 * limits_.most) return;
    for (size_t i = from; i < indices.size(); ++i)
      for (const int degree : divisors(rest)) {
        const IndexRange& range = box[indices[i].second];
        if (degree == 1 || !splits_well(range.global, degree)) continue;
        splits.push_back({range.name, degree, 1});
        self(self, i + 1, used, rest / degree);
        splits.pop_back();
      }
  };
  for (const int used : divisors(n)) {
    if (n > 16 && used != 1 && used < n && !all.empty()) continue;
    extend(extend, 0, used, used);
  }
  return all;
}

double CandidateMaker::seconds(const OpCall& call, int device) const {
  const Layouts dense{std::vector<Layout>(call.inputs.size()), std::vector<Layout>(call.outputs.size())};
  return costs_.seconds(call, dense, device, machine_.machine.devices[device].threads);
}

Candidate CandidateMaker::priced(NodeId op, Placement placement) const {
  const Splitting& splitting = *splittings_[op];
  const Group& group = groups_[op];
  Candidate candidate;
  for (const NodeId call : group.calls) {
    const OpCall part = part_of_call(*step_splittings_[call], splitting, placement);
    candidate.compute += seconds(part, placement.start);
    if (step_.node(call).section != Section::forward) continue;
    for (const TensorType& output : part.outputs) candidate.memory += bytes_of(output);
  }
  std::map<NodeId, Shape> parts;  // of weights
  for (const auto& [weight, operand] : group.weights) {
    const TensorType& type = user_.node(weight).outputs[0];
    const Sharding lies = sharding_of(splitting, placement, {false, operand});
    const double bytes = bytes_of({type.dtype, parts[weight] = part_shape(lies, type.shape)});
    candidate.memory += bytes;
    if (!trains_ || !user_.node(weight).trainable) continue;
    candidate.memory += bytes;
    candidate.sync += transfers_.all_reduce(bytes, dual(lies));
  }
  for (const NodeId update : group.updates) {
    OpCall call = step_splittings_[update]->call();
    const Shape whole = call.inputs[0].shape;
    for (auto* types : {&call.inputs, &call.outputs})
      for (TensorType& type : *types)
        if (type.shape == whole) type.shape = parts.at(step_.node(step_.node(update).inputs[0].node).origin);
    for (size_t k = 4; k < call.inputs.size(); ++k) candidate.memory += bytes_of(call.inputs[k]);
    candidate.compute += seconds(call, placement.start);
  }
  candidate.placement = std::move(placement);
  return candidate;
}

Candidates CandidateMaker::candidates(NodeId op, const std::vector<Placement>& seeds) const {
  std::vector<Placement> wanted = seeds;
  for (Placement& placement : placements(op))
    if (std::find(wanted.begin(), wanted.end(), placement) == wanted.end()) wanted.push_back(std::move(placement));
  Candidates all;
  for (Placement& placement : wanted) all.push_back(priced(op, std::move(placement)));
  if (all.size() > limits_.most) {
    const auto dear = [](const Candidate& a, const Candidate& b) { return a.compute + a.sync < b.compute + b.sync; };
    std::stable_sort(all.begin() + static_cast<int64_t>(seeds.size()), all.end(), dear);
    all.resize(std::max(limits_.most, seeds.size()));
  }
  return all;
}

}  // namespace ff
