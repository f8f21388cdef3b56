// Moves within one memory. Where a rectangle is a run of bytes at both ends, the two ends become the same memory, and
// the move only gives it another name: a shard of a batch, the sum that devices made in slices, a weight that they
// updated in slices.
#include <algorithm>

#include "graph/moves.h"
#include "lowering/lower.h"
#include "ops/op.h"

namespace ff {
namespace {

bool copies(const Step& step) { return step.call.op == "move" && step.call.attrs.text("combiner") == "copy"; }

// A rectangle of a move in bytes of its input and of its output.
struct Run {
  BufferId input;
  size_t from, to, bytes;
};

// The rectangles of a move that are runs at both ends; the others are empty.
std::vector<std::optional<Run>> runs_of(const Plan& plan, const Step& step) {
  std::vector<std::optional<Run>> runs;
  const Moves moves(step.call);
  const size_t size = size_of(step.call.outputs[0].dtype);
  for (const MovePiece& piece : moves.pieces()) {
    const auto from = run_in(piece.from, step.call.inputs[piece.input].shape);
    const auto to = run_in(piece.to, step.call.outputs[0].shape);
    const BufferId input = step.inputs[piece.input];
    if (from && to && plan.buffers[input].layout.dense())
      runs.push_back(Run{input, static_cast<size_t>(*from) * size, static_cast<size_t>(*to) * size,
                         static_cast<size_t>(volume(piece.to)) * size});
    else
      runs.push_back(std::nullopt);
  }
  return runs;
}

class Sharing {
 public:
  explicit Sharing(Plan& plan) : plan_(plan), uses_(plan.buffers.size()), members_(plan.buffers.size()) {
    for (BufferId id = 0; id < static_cast<BufferId>(plan.buffers.size()); ++id) members_[plan.root(id)].push_back(id);
    for (int s = 0; s < static_cast<int>(plan.steps.size()); ++s) {
      for (const BufferId id : plan.steps[s].inputs) uses_[id].push_back({s, false});
      for (const BufferId id : plan.steps[s].outputs)
        if (id >= 0) uses_[id].push_back({s, true});
    }
  }

  void run() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      if (!copies(step) || step.outputs[0] < 0 || !plan_.buffers[step.outputs[0]].layout.dense()) continue;
      const std::vector<std::optional<Run>> runs = runs_of(plan_, step);
      if (runs.empty() || see_there(s, runs)) continue;
      for (const std::optional<Run>& run : runs)
        if (run) make_there(s, *run);
    }
  }

 private:
  struct Use {
    int step;
    bool writes;
  };
  using Span = Plan::Span;

  // All that a move reads lies in one memory as the output wants it: the output is a part of that memory.
  bool see_there(int s, const std::vector<std::optional<Run>>& runs) {
    const BufferId made = plan_.steps[s].outputs[0];
    if (!is_free(made) || !runs[0]) return false;
    const BufferId root = plan_.root(runs[0]->input);
    const size_t begin = plan_.span(runs[0]->input).begin + runs[0]->from - runs[0]->to;
    const Span there{root, begin, begin + plan_.buffers[made].bytes};
    const bool in_order = std::all_of(runs.begin(), runs.end(), [&](const std::optional<Run>& run) {
      return run && plan_.root(run->input) == root && plan_.span(run->input).begin + run->from == begin + run->to;
    });
    if (!in_order || root == made || there.end > plan_.buffers[root].bytes || !one_memory(root, made)) return false;
    const int last = last_use(made);
    for (const BufferId other : members_[root])
      for (const Use& use : uses_[other])
        if (use.writes && use.step > s && use.step <= last && plan_.span(other).meets(there)) return false;
    rebase(made, there);
    return true;
  }

  // An input that the move would copy as a whole is made in the output's memory at once.
  void make_there(int s, const Run& run) {
    const BufferId made = plan_.steps[s].outputs[0], root = plan_.root(made);
    if (!is_free(run.input) || run.bytes != plan_.buffers[run.input].bytes || run.input == root ||
        !one_memory(root, run.input))
      return;
    const size_t begin = plan_.span(made).begin + run.to;
    const Span there{root, begin, begin + run.bytes};
    const int first = uses_[run.input].front().step, last = last_use(run.input);
    if (plan_.buffers[root].storage != Storage::temporary && plan_.steps[first].section != plan_.steps[s].section)
      return;
    for (const BufferId other : members_[root]) {
      if (!plan_.span(other).meets(there)) continue;
      for (const Use& use : uses_[other]) {
        if (use.step < first || use.step > last || (use.writes && puts_there(use.step, run.input, there))) continue;
        if (use.writes || (use.step <= s && !taken_over(use.step, other, run.input, there))) return;
      }
    }
    rebase(run.input, there);
  }

  // Does a move put a whole input just there?
  bool puts_there(int s, BufferId input, const Span& there) const {
    const Step& step = plan_.steps[s];
    if (!copies(step)) return false;
    const size_t begin = plan_.span(step.outputs[0]).begin;
    const auto runs = runs_of(plan_, step);
    return std::any_of(runs.begin(), runs.end(), [&](const std::optional<Run>& run) {
      return run && run->input == input && begin + run->to == there.begin && begin + run->to + run->bytes == there.end;
    });
  }

  // Does a step that makes a buffer work in place on another one, which lies just there?
  bool taken_over(int s, BufferId read, BufferId made, const Span& there) const {
    const Step& step = plan_.steps[s];
    if (plan_.span(read) != there) return false;
    const auto& pairs = op_def(step.call.op).inplace_pairs;
    return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return static_cast<size_t>(pair.first) < step.outputs.size() &&
             static_cast<size_t>(pair.second) < step.inputs.size() && step.outputs[pair.first] == made &&
             step.inputs[pair.second] == read;
    });
  }

  // Nothing but this plan's steps knows where it lies.
  bool is_free(BufferId id) const {
    const Buffer& buffer = plan_.buffers[id];
    return buffer.alias < 0 && buffer.storage == Storage::temporary && buffer.layout.dense() && buffer.bytes > 0;
  }

  bool one_memory(BufferId a, BufferId b) const {
    return plan_.machine.share_memory(plan_.buffers[a].device, plan_.buffers[b].device);
  }

  int last_use(BufferId root) const {
    int last = -1;
    for (const BufferId id : members_[root])
      if (!uses_[id].empty()) last = std::max(last, uses_[id].back().step);
    return last;
  }

  void rebase(BufferId id, const Span& there) {
    for (const BufferId member : members_[id]) {
      Buffer& buffer = plan_.buffers[member];
      buffer.offset = there.begin + (buffer.alias >= 0 ? buffer.offset : 0);
      buffer.alias = there.root;
      members_[there.root].push_back(member);
    }
    members_[id].clear();
  }

  Plan& plan_;
  std::vector<std::vector<Use>> uses_;          // by buffer
  std::vector<std::vector<BufferId>> members_;  // by root: itself and its aliases
};

}  // namespace

void share_moves(Plan& plan) {
  if (plan.machine.devices.size() > 1) Sharing(plan).run();
}

std::vector<Plan::Span> in_place(const Plan& plan, const Step& step) {
  std::vector<Plan::Span> spans;
  if (!copies(step)) return spans;
  const Plan::Span made = plan.span(step.outputs[0]);
  for (const std::optional<Run>& run : runs_of(plan, step)) {
    if (!run || plan.root(run->input) != made.root) continue;
    const size_t begin = made.begin + run->to;
    if (plan.span(run->input).begin + run->from == begin) spans.push_back({made.root, begin, begin + run->bytes});
  }
  return spans;
}

Plan::Span read_of(const Plan& plan, const Step& step, size_t input) {
  const Plan::Span span = plan.span(step.inputs[input]);
  if (step.call.op != "move" || !plan.buffers[step.inputs[input]].layout.dense()) return span;
  const Shape& shape = step.call.inputs[input].shape;
  const size_t size = size_of(step.call.inputs[input].dtype);
  Plan::Span read{span.root, span.end, span.begin};
  const Moves moves(step.call);
  for (const MovePiece& piece : moves.pieces()) {
    if (piece.input != static_cast<int>(input) || volume(piece.from) == 0) continue;
    size_t first = 0, last = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      first += static_cast<size_t>(piece.from.origin[d]) * stride;
      last += static_cast<size_t>(piece.from.origin[d] + piece.from.extent[d] - 1) * stride;
      stride *= static_cast<size_t>(shape[d]);
    }
    read.begin = std::min(read.begin, span.begin + first * size);
    read.end = std::max(read.end, span.begin + (last + 1) * size);
  }
  return read;
}

bool moves_nothing(const Plan& plan, const Step& step) {
  if (!copies(step)) return false;
  size_t bytes = 0;
  for (const Plan::Span& span : in_place(plan, step)) bytes += span.end - span.begin;
  return bytes == plan.buffers[step.outputs[0]].bytes;
}

}  // namespace ff
