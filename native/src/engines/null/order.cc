#include "engines/null/order.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/intervals.h"

namespace ff {
namespace {

// By device, the last of its steps that has ended for sure (Mattern 1989, "Virtual time and global states of
// distributed systems").
using Clock = std::vector<int>;

struct Uses {
  int writer = -1;
  std::vector<int> readers;  // since
};

class Order {
 public:
  explicit Order(const Plan& plan)
      : plan_(plan), devices_(plan.machine.devices.size(), Clock(plan.machine.devices.size(), -1)) {}

  void run() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      Clock& clock = devices_[step.device];
      for (const Wait& wait : step.waits) {
        FF_CHECK(wait.step < s && plan_.steps[wait.step].device == wait.device, step.call.name, " waits for step ",
                 wait.step, " of device ", wait.device, ", which is not before it there");
        for (size_t d = 0; d < clock.size(); ++d) clock[d] = std::max(clock[d], ends_[wait.step][d]);
      }
      if (!moves_nothing(plan_, step)) {
        for (const BufferId id : step.inputs) use(id, s, false);
        for (const BufferId id : step.outputs)
          if (id >= 0) use(id, s, true);
      }
      clock[step.device] = s;
      ends_.push_back(clock);
    }
  }

 private:
  void use(BufferId id, int s, bool writes) {
    const Plan::Span span = plan_.span(id);
    const Buffer& root = plan_.buffers[span.root];
    const bool arena = root.storage == Storage::temporary;
    const size_t shift = arena ? root.offset : 0;
    Intervals<Uses>& memory = memories_[{arena, arena ? root.device : span.root}];
    memory.visit(span.begin + shift, span.end + shift, [&](size_t, size_t, Uses& uses) {
      expect_before(uses.writer, s, id);
      if (!writes) return uses.readers.push_back(s);
      for (const int reader : uses.readers) expect_before(reader, s, id);
    });
    if (writes) memory.assign(span.begin + shift, span.end + shift, {s, {}});
  }

  void expect_before(int earlier, int s, BufferId id) const {
    if (earlier < 0) return;
    const Step &first = plan_.steps[earlier], &second = plan_.steps[s];
    FF_CHECK(first.device == second.device || devices_[second.device][first.device] >= earlier, second.call.name,
             " on device ", second.device, " does not wait for ", first.call.name, " on device ", first.device,
             ", which uses the memory of ", plan_.buffers[id].name);
  }

  const Plan& plan_;
  std::vector<Clock> devices_;                                // by device, before its next step
  std::vector<Clock> ends_;                                   // by step
  std::map<std::pair<bool, int>, Intervals<Uses>> memories_;  // arenas of devices, and buffers that lie apart
};

}  // namespace

void check_order(const Plan& plan) {
  if (plan.machine.devices.size() > 1) Order(plan).run();
}

}  // namespace ff
