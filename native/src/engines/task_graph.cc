#include "engines/task_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/intervals.h"

namespace ff {
namespace {

struct Bytes {
  Area area;
  size_t begin, end;
};

Bytes bytes_of(const Plan& plan, BufferId id) {
  const Plan::Span span = plan.span(id);
  const Buffer& root = plan.buffers[span.root];
  if (root.storage != Storage::temporary) return {{false, span.root}, span.begin, span.end};
  return {{true, root.device}, root.offset + span.begin, root.offset + span.end};
}

// use(bytes, writes) of all that a step touches.
template <class F>
void each_use(const Plan& plan, const Step& step, F&& use) {
  if (moves_nothing(plan, step)) return;
  for (const BufferId id : step.inputs) use(bytes_of(plan, id), false);
  for (const BufferId id : step.outputs)
    if (id >= 0) use(bytes_of(plan, id), true);
}

// Who uses a byte.
struct Users {
  std::set<int> devices;
  bool written = false;
  bool shared(const Machine& machine) const {
    if (devices.size() < 2) return false;
    // What nobody writes needs no order, but far devices need a copy.
    return written || !machine.share_memory(*devices.begin(), *devices.rbegin());
  }
};

// How a task uses a byte.
enum class Access : uint8_t { none, reads, writes };

class Division {
 public:
  Division(const Plan& plan, unsigned sections) : plan_(plan) {
    for (int s = 0; s < static_cast<int>(plan.steps.size()); ++s)
      if (BoundPlan::runs(plan.steps[s], sections)) steps_.push_back(s);
  }

  TaskGraph run() {
    cut();
    find_users();
    for (size_t t = 0; t < graph_.tasks.size(); ++t) add_uses(t);
    return std::move(graph_);
  }

 private:
  // A step that waits begins a task, and one that is waited for ends one; so the order of first steps is an order in
  // which tasks could run one after another.
  void cut() {
    const std::set<int> chosen(steps_.begin(), steps_.end());
    std::set<int> awaited;
    for (const int s : steps_)
      for (const Wait& wait : plan_.steps[s].waits)
        if (chosen.count(wait.step) != 0) awaited.insert(wait.step);
    std::vector<int> open(plan_.machine.devices.size(), -1);  // by device: its task that may grow
    for (const int s : steps_) {
      const Step& step = plan_.steps[s];
      const bool waits = std::any_of(step.waits.begin(), step.waits.end(),
                                     [&](const Wait& wait) { return chosen.count(wait.step) != 0; });
      int& task = open[step.device];
      if (task < 0 || waits) {
        task = static_cast<int>(graph_.tasks.size());
        graph_.tasks.push_back({step.device, {}});
        graph_.steps.emplace_back();
      }
      graph_.steps[task].push_back(s);
      if (awaited.count(s) != 0) task = -1;
    }
  }

  void find_users() {
    for (const int s : steps_)
      each_use(plan_, plan_.steps[s], [&](const Bytes& bytes, bool writes) {
        areas_[bytes.area].visit(bytes.begin, bytes.end, [&](size_t, size_t, Users& users) {
          users.devices.insert(plan_.steps[s].device);
          users.written |= writes;
        });
      });
  }

  int memory_of(const Area& area) {
    const auto it = std::find(graph_.areas.begin(), graph_.areas.end(), area);
    if (it != graph_.areas.end()) return static_cast<int>(it - graph_.areas.begin());
    graph_.areas.push_back(area);
    return static_cast<int>(graph_.areas.size()) - 1;
  }

  void add_uses(size_t task) {
    std::map<Area, Intervals<Access>> used;
    for (const int s : graph_.steps[task])
      each_use(plan_, plan_.steps[s], [&](const Bytes& bytes, bool writes) {
        areas_[bytes.area].visit(bytes.begin, bytes.end, [&](size_t begin, size_t end, const Users& users) {
          if (!users.shared(plan_.machine)) return;
          used[bytes.area].visit(begin, end, [&](size_t, size_t, Access& access) {
            access = writes ? Access::writes : std::max(access, Access::reads);
          });
        });
      });
    for (auto& [area, accesses] : used) {
      const int memory = memory_of(area);
      std::vector<TaskUse>& uses = graph_.tasks[task].uses;
      accesses.visit(0, SIZE_MAX, [&](size_t begin, size_t end, Access access) {
        if (access == Access::none) return;
        const bool writes = access == Access::writes;
        const bool goes_on =
            !uses.empty() && uses.back().memory == memory && uses.back().end == begin && uses.back().writes == writes;
        if (goes_on)
          uses.back().end = end;
        else
          uses.push_back({memory, begin, end, writes});
      });
    }
  }

  const Plan& plan_;
  std::vector<int> steps_;
  std::map<Area, Intervals<Users>> areas_;
  TaskGraph graph_;
};

}  // namespace

TaskGraph tasks_of(const Plan& plan, unsigned sections) { return Division(plan, sections).run(); }

}  // namespace ff
