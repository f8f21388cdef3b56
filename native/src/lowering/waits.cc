// What keeps the queues of the devices in step. A device runs its steps in order, so it is enough to say which step of
// each other device must have ended: the one that wrote what is read, and those that still read what is overwritten.
#include <algorithm>
#include <map>

#include "base/intervals.h"
#include "lowering/lower.h"

namespace ff {
namespace {

// The last uses of some bytes.
struct Uses {
  int writer = -1;             // a step; -1: from before
  std::map<int, int> readers;  // queue -> its last step that reads
};

class Waits {
 public:
  Waits(const Plan& plan, const std::vector<int>& queues) : plan_(plan), queues_(queues) {}

  std::vector<std::vector<Wait>> run() {
    std::vector<std::vector<Wait>> waits(plan_.steps.size());
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      if (moves_nothing(plan_, step)) continue;  // who reads there waits for those who wrote
      needed_.clear();
      for (const BufferId id : step.inputs) visit(id, s, false);
      for (const BufferId id : step.outputs)
        if (id >= 0) visit(id, s, true);
      for (const auto& [queue, last] : needed_) {
        int& known = known_.try_emplace({queues_[s], queue}, -1).first->second;
        if (last <= known) continue;
        known = last;
        waits[s].push_back({queue, last});
      }
    }
    return waits;
  }

 private:
  void visit(BufferId id, int s, bool writes) {
    const Buffer& root = plan_.buffers[plan_.root(id)];
    const bool arena = root.storage == Storage::temporary;
    Intervals<Uses>& uses = uses_[{arena, arena ? root.device : plan_.root(id)}];
    const Plan::Span span = plan_.span(id);
    const size_t begin = span.begin + (arena ? root.offset : 0), end = span.end + (arena ? root.offset : 0);
    const int queue = queues_[s];
    uses.visit(begin, end, [&](size_t, size_t, Uses& use) {
      if (use.writer >= 0) need(queues_[use.writer], use.writer, queue);
      if (writes)
        for (const auto& [reader, last] : use.readers) need(reader, last, queue);
      else
        use.readers[queue] = s;
    });
    if (writes) uses.assign(begin, end, {s, {}});
  }

  void need(int other, int step, int queue) {
    if (other != queue) needed_[other] = std::max(needed_.try_emplace(other, -1).first->second, step);
  }

  const Plan& plan_;
  const std::vector<int>& queues_;                        // by step
  std::map<std::pair<bool, int>, Intervals<Uses>> uses_;  // of a device's arena, or of a buffer of its own
  std::map<std::pair<int, int>, int> known_;              // by queue and other queue: the last step waited for
  std::map<int, int> needed_;
};

}  // namespace

std::vector<std::vector<Wait>> waits_between(const Plan& plan, const std::vector<int>& queues) {
  return Waits(plan, queues).run();
}

void add_waits(Plan& plan) {
  if (plan.machine.devices.size() < 2) return;
  std::vector<int> devices;
  for (const Step& step : plan.steps) devices.push_back(step.device);
  std::vector<std::vector<Wait>> waits = waits_between(plan, devices);
  for (size_t s = 0; s < plan.steps.size(); ++s) plan.steps[s].waits = std::move(waits[s]);
}

}  // namespace ff
