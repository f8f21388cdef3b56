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
  std::map<int, int> readers;  // device -> its last step that reads
};

class Waits {
 public:
  explicit Waits(Plan& plan) : plan_(plan), known_(plan.machine.devices.size()) {}

  void run() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      Step& step = plan_.steps[s];
      if (moves_nothing(plan_, step)) continue;  // who reads there waits for those who wrote
      needed_.clear();
      for (const BufferId id : step.inputs) visit(id, s, false);
      for (const BufferId id : step.outputs)
        if (id >= 0) visit(id, s, true);
      for (const auto& [device, last] : needed_) {
        int& known = known_[step.device].try_emplace(device, -1).first->second;
        if (last <= known) continue;
        known = last;
        step.waits.push_back({device, last});
      }
    }
  }

 private:
  void visit(BufferId id, int s, bool writes) {
    const Buffer& root = plan_.buffers[plan_.root(id)];
    const bool arena = root.storage == Storage::temporary;
    Intervals<Uses>& uses = uses_[{arena, arena ? root.device : plan_.root(id)}];
    const Plan::Span span = plan_.span(id);
    const size_t begin = span.begin + (arena ? root.offset : 0), end = span.end + (arena ? root.offset : 0);
    const int device = plan_.steps[s].device;
    uses.visit(begin, end, [&](size_t, size_t, Uses& use) {
      if (use.writer >= 0) need(plan_.steps[use.writer].device, use.writer, device);
      if (writes)
        for (const auto& [reader, last] : use.readers) need(reader, last, device);
      else
        use.readers[device] = s;
    });
    if (writes) uses.assign(begin, end, {s, {}});
  }

  void need(int other, int step, int device) {
    if (other != device) needed_[other] = std::max(needed_.try_emplace(other, -1).first->second, step);
  }

  Plan& plan_;
  std::map<std::pair<bool, int>, Intervals<Uses>> uses_;  // of a device's arena, or of a buffer of its own
  std::vector<std::map<int, int>> known_;                 // by device: of every other, the last step waited for
  std::map<int, int> needed_;
};

}  // namespace

void add_waits(Plan& plan) {
  if (plan.machine.devices.size() > 1) Waits(plan).run();
}

}  // namespace ff
