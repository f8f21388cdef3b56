// A step in micro-batches on the stages of a pipeline, in the order 1F1B (Narayanan et al. 2021, "Efficient large-scale
// language model training on GPU clusters"): a stage goes forward with one micro-batch and backward with another in
// turn, so that it holds the activations of no more micro-batches than there are stages from it on.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "lowering/lower.h"

namespace ff {
namespace {

// When the stages go forward and backward with each micro-batch, if backward takes twice as long.
class Timetable {
 public:
  Timetable(int stages, int micros)
      : stages_(stages),
        micros_(micros),
        starts_{Table(stages, std::vector<int>(micros, kNever)), Table(stages, std::vector<int>(micros, kNever))},
        next_{std::vector<int>(stages, 0), std::vector<int>(stages, 0)},
        free_(stages, 0) {
    for (int left = 2 * stages * micros; left > 0; --left) take_next();
  }

  int start(bool backward, int stage, int micro) const { return starts_[backward][stage][micro]; }

 private:
  using Table = std::vector<std::vector<int>>;
  static constexpr int kNever = std::numeric_limits<int>::max() / 2;
  static constexpr int kTakes[2] = {1, 2};

  int end(bool backward, int stage, int micro) const { return starts_[backward][stage][micro] + kTakes[backward]; }

  // When a stage can do its next piece of work of one kind.
  int ready(bool backward, int stage) const {
    const int micro = next_[backward][stage];
    const bool full = !backward && next_[0][stage] - next_[1][stage] >= stages_ - stage;
    if (micro == micros_ || full) return kNever;
    int before = 0;  // the end of what it follows
    if (backward)
      before = stage + 1 < stages_ ? end(true, stage + 1, micro) : end(false, stage, micro);
    else if (stage > 0)
      before = end(false, stage - 1, micro);
    return std::max(before, free_[stage]);
  }

  void take_next() {
    int first = kNever, stage = 0;
    bool backward = false;
    for (int s = 0; s < stages_; ++s)
      for (const bool kind : {true, false})
        if (const int at = ready(kind, s); at < first) {
          first = at;
          stage = s;
          backward = kind;
        }
    FF_CHECK(first < kNever, "no stage of a pipeline can go on");
    const int micro = next_[backward][stage]++;
    starts_[backward][stage][micro] = first;
    free_[stage] = end(backward, stage, micro);
  }

  int stages_, micros_;
  Table starts_[2];           // forward and backward: by stage and micro-batch
  std::vector<int> next_[2];  // by stage: the next micro-batch
  std::vector<int> free_;     // by stage
};

class Pipelining {
 public:
  Pipelining(const FlatGraph& flat, const std::vector<NodeId>& order)
      : flat_(flat),
        graph_(flat.graph),
        order_(order),
        users_(graph_.users()),
        on_the_way_(graph_.size()),
        micro_(graph_.size(), -1),
        start_(graph_.size(), -1) {}

  std::vector<NodeId> run() {
    find_ways();
    int micros = 1;
    for (const NodeId id : order_) {
      find_micro(id);
      micros = std::max(micros, micro_[id] + 1);
    }
    const Timetable times(1 + *std::max_element(flat_.stages.begin(), flat_.stages.end()), micros);
    for (const NodeId id : order_) find_start(id, times);
    put_off_moves();
    std::vector<NodeId> order = order_;
    std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return start_[a] < start_[b]; });
    return order;
  }

 private:
  int stage(NodeId id) const { return flat_.stages[flat_.locals[id].device]; }

  // What gradients come from, not what is only read or kept in the end.
  void find_ways() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      on_the_way_[*id] =
          graph_.node(*id).section == Section::backward ||
          std::any_of(users_[*id].begin(), users_[*id].end(), [&](NodeId user) { return on_the_way_[user]; });
  }
  bool goes_forward(NodeId id) const { return graph_.node(id).section == Section::forward && on_the_way_[id]; }

  // The micro-batch that an op works on, or the last of those whose results it brings together: that must not be
  // needed to go forward.
  void find_micro(NodeId id) {
    const Node& node = graph_.node(id);
    int first = flat_.locals[id].micro;
    micro_[id] = first;
    for (const Value& input : node.inputs) {
      const int micro = micro_[input.node];
      if (micro < 0) continue;
      if (first < 0) first = micro;
      if (micro != first && goes_forward(id))
        bad_value(
            reader(id), " needs the whole batch, which the strategy cuts into micro-batches; of an operator over ",
            "the batch, such as batch_norm, the attribute groups can match them; else leave it without a pipeline");
      micro_[id] = std::max(micro_[id], micro);
    }
  }

  // Who asks for what is brought together, as it is called before it is split.
  std::string reader(NodeId id) const {
    while (graph_.node(id).op == "move")
      id = *std::find_if(users_[id].begin(), users_[id].end(), [&](NodeId user) { return on_the_way_[user]; });
    return graph_.node(id).name.substr(0, graph_.node(id).name.find('@'));
  }

  void find_start(NodeId id, const Timetable& times) {
    const Node& node = graph_.node(id);
    for (const Value& input : node.inputs) {
      start_[id] = std::max(start_[id], start_[input.node]);
      if (goes_forward(id) && micro_[input.node] >= 0 && stage(input.node) > stage(id))
        bad_value(node.name, " is in stage ", stage(id), " of the pipeline and reads ", graph_.node(input.node).name,
                  " of stage ", stage(input.node), "; expected the same or a later stage");
    }
    if (micro_[id] >= 0 && node.section != Section::update)
      start_[id] = std::max(start_[id], times.start(node.section == Section::backward, stage(id), micro_[id]));
  }

  // What is only fetched is fetched for its first reader.
  void put_off_moves() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      if (graph_.node(*id).op != "move" || users_[*id].empty()) continue;
      int first = std::numeric_limits<int>::max();
      for (const NodeId user : users_[*id]) first = std::min(first, start_[user]);
      start_[*id] = std::max(start_[*id], first);
    }
  }

  const FlatGraph& flat_;
  const Graph& graph_;
  const std::vector<NodeId>& order_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> on_the_way_;  // to a gradient
  std::vector<int> micro_;        // by node; -1: of no micro-batch
  std::vector<int> start_;        // by node, in units of the timetable
};

}  // namespace

std::vector<NodeId> in_micro_batches(const FlatGraph& flat, const std::vector<NodeId>& order) {
  return Pipelining(flat, order).run();
}

}  // namespace ff
