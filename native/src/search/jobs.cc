#include "search/jobs.h"

#include <algorithm>
#include <map>

#include "base/intervals.h"
#include "graph/moves.h"

namespace ff {
namespace {

// What of the operands of each step lies in no cache any more. A cache holds what was touched last; a byte is gone once
// as many others were touched as there is room for. Steps repeat, so the second one is looked at.
class Caches {
 public:
  Caches(const Plan& plan, double size) : plan_(plan), size_(size) {}

  std::vector<double> cold_shares() {
    std::vector<double> shares(plan_.steps.size());
    double all = 0;
    for (const Buffer& buffer : plan_.buffers) all += static_cast<double>(buffer.alias < 0 ? buffer.bytes : 0);
    if (size_ <= 0 || all <= size_) return shares;
    for (int pass = 0; pass < 2; ++pass)
      for (size_t s = 0; s < plan_.steps.size(); ++s) shares[s] = visit(plan_.steps[s]);
    return shares;
  }

 private:
  double visit(const Step& step) {
    // All devices of one address space share the clock of their cache.
    const int space = plan_.machine.devices[step.device].space;
    double& clock = clocks_[space >= 0 ? -1 - space : step.device];
    double touched = 0, cold = 0;
    const auto touch = [&](const Plan::Span& span) {
      const Buffer& root = plan_.buffers[span.root];
      const bool arena = root.storage == Storage::temporary;
      const size_t offset = arena ? root.offset : 0;
      Intervals<double>& seen = seen_[{arena, arena ? root.device : span.root}];
      seen.visit(span.begin + offset, span.end + offset, [&](size_t begin, size_t end, double& when) {
        const auto bytes = static_cast<double>(end - begin);
        touched += bytes;
        if (clock - when >= size_) cold += bytes;
        when = clock + touched;
      });
    };
    for (size_t i = 0; i < step.inputs.size(); ++i) touch(read_of(plan_, step, i));
    for (const BufferId id : step.outputs)
      if (id >= 0) touch(plan_.span(id));
    clock += touched;
    return touched > 0 ? cold / touched : 0;
  }

  const Plan& plan_;
  double size_;
  std::map<int, double> clocks_;
  std::map<std::pair<bool, int>, Intervals<double>> seen_;  // of an arena or a buffer: the clock at the last touch
};

class Preparation {
 public:
  Preparation(const Plan& plan, const MachineModel& machine, const Costs& costs)
      : plan_(plan), machine_(machine), costs_(costs), cold_(Caches(plan, machine.cache).cold_shares()) {
    for (const Step& step : plan.steps)
      for (const BufferId id : step.outputs)
        if (id >= 0 && plan.buffers[plan.root(id)].storage == Storage::state) changed_.push_back(plan.root(id));
  }

  Job job(size_t s) const {
    const Step& step = plan_.steps[s];
    const bool kept = step.fresh_with >= 0 &&
                      std::find(changed_.begin(), changed_.end(), plan_.root(step.fresh_with)) == changed_.end();
    if (kept || moves_nothing(plan_, step)) return {};
    if (step.call.op == "move") return move(s);
    return {.work = seconds(s), .hunger = cold_[s], .flows = {}};
  }

 private:
  double seconds(size_t s) const {
    constexpr double kLeast = 0.02;  // a share of cold bytes that is worth another measurement
    const Step& step = plan_.steps[s];
    const double warm = costs_.seconds(step.call, step.layouts, step.device, step.threads);
    if (cold_[s] < kLeast) return warm;
    return warm + cold_[s] * (costs_.cold_seconds(step.call, step.layouts, step.device, step.threads) - warm);
  }

  Job move(size_t s) const {
    const Step& step = plan_.steps[s];
    const Moves moves(step.call);
    const bool copies = step.call.attrs.text("combiner") == "copy";
    const auto size = static_cast<int64_t>(size_of(step.call.outputs[0].dtype));
    Job job{.hunger = cold_[s], .flows = {}};
    int64_t all = 0, here = 0;
    for (const MovePiece& piece : moves.pieces()) {
      const int64_t bytes = volume(piece.to) * size;
      const int from = plan_.buffers[step.inputs[piece.input]].device;
      all += bytes;
      if (from != step.device) job.moved += bytes;
      if (machine_.machine.share_memory(from, step.device)) {
        here += bytes;
        continue;
      }
      auto flow = std::find_if(job.flows.begin(), job.flows.end(), [&](const Flow& f) { return f.from == from; });
      if (flow == job.flows.end()) flow = job.flows.insert(flow, Flow{from, 0});
      flow->bytes += bytes;
    }
    for (const Plan::Span& span : in_place(plan_, step)) here -= static_cast<int64_t>(span.end - span.begin);
    // Flows arrive where they belong; what is combined passes through the device once more.
    const int64_t worked = copies ? std::max<int64_t>(here, 0) : all;
    if (worked > 0) job.work = seconds(s) * static_cast<double>(worked) / static_cast<double>(all);
    job.kind = kind_of(step, moves);
    std::sort(job.flows.begin(), job.flows.end(), [&](const Flow& a, const Flow& b) {
      const auto n = static_cast<int>(plan_.machine.devices.size());
      return (a.from - step.device + n) % n < (b.from - step.device + n) % n;
    });
    return job;
  }

  static MoveKind kind_of(const Step& step, const Moves& moves) {
    if (step.call.attrs.text("combiner") != "copy") return MoveKind::reduction;
    if (moves.pieces().size() > 1) return MoveKind::combine;
    const bool as_it_is = !moves.pieces().empty() && step.call.inputs[moves.pieces()[0].input] == step.call.outputs[0];
    return as_it_is ? MoveKind::replicate : MoveKind::repartition;
  }

  const Plan& plan_;
  const MachineModel& machine_;
  const Costs& costs_;
  std::vector<double> cold_;       // by step
  std::vector<BufferId> changed_;  // states that the step writes
};

}  // namespace

std::vector<Job> jobs_of(const Plan& plan, const MachineModel& machine, const Costs& costs) {
  const Preparation preparation(plan, machine, costs);
  std::vector<Job> jobs;
  for (size_t s = 0; s < plan.steps.size(); ++s) jobs.push_back(preparation.job(s));
  return jobs;
}

}  // namespace ff
