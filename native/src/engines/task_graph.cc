#include "engines/task_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/intervals.h"

namespace ff {
namespace {

struct Bytes {
  Area area;
  size_t begin, end;
};

Bytes bytes_of(const Plan& plan, const Plan::Span& span) {
  const Buffer& root = plan.buffers[span.root];
  if (root.storage != Storage::temporary) return {{false, span.root}, span.begin, span.end};
  return {{true, root.device}, root.offset + span.begin, root.offset + span.end};
}

int owner_of(const Plan& plan, const Area& area) { return area.arena ? area.id : plan.buffers[area.id].device; }

// use(bytes, writes, input) of all that a step touches, but what nobody writes and every process holds.
template <class F>
void each_use(const Plan& plan, const Step& step, F&& use) {
  if (moves_nothing(plan, step)) return;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (plan.buffers[plan.root(step.inputs[i])].storage != Storage::input)
      use(bytes_of(plan, read_of(plan, step, i)), false, static_cast<int>(i));
  for (const BufferId id : step.outputs)
    if (id >= 0) use(bytes_of(plan, plan.span(id)), true, -1);
}

// Who uses a byte, beside the device where it lies.
struct Users {
  std::set<int> devices;
  bool written = false;
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
    graph_.imports.resize(graph_.tasks.size());
    for (size_t t = 0; t < graph_.tasks.size(); ++t) {
      add_uses(t);
      add_imports(t);
    }
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
      each_use(plan_, plan_.steps[s], [&](const Bytes& bytes, bool writes, int) {
        areas_[bytes.area].visit(bytes.begin, bytes.end, [&](size_t, size_t, Users& users) {
          users.devices.insert({owner_of(plan_, bytes.area), plan_.steps[s].device});
          users.written |= writes;
        });
      });
  }

  int node(int device) const { return plan_.machine.devices[device].node; }

  // What nobody writes needs no order, but other processes need a copy.
  bool is_shared(const Users& users) const {
    const bool apart = std::any_of(users.devices.begin(), users.devices.end(),
                                   [&](int device) { return node(device) != node(*users.devices.begin()); });
    return users.devices.size() > 1 && (users.written || apart);
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
      each_use(plan_, plan_.steps[s], [&](const Bytes& bytes, bool writes, int) {
        areas_[bytes.area].visit(bytes.begin, bytes.end, [&](size_t begin, size_t end, const Users& users) {
          if (!is_shared(users)) return;
          used[bytes.area].visit(begin, end, [&](size_t, size_t, Access& access) {
            access = writes ? Access::writes : std::max(access, Access::reads);
          });
        });
      });
    for (auto& [area, accesses] : used) add_uses(task, memory_of(area), accesses);
  }

  void add_uses(size_t task, int memory, Intervals<Access>& accesses) {
    std::vector<TaskUse>& uses = graph_.tasks[task].uses;
    accesses.visit(0, SIZE_MAX, [&](size_t begin, size_t end, Access access) {
      if (access == Access::none) return;
      const bool writes = access == Access::writes;
      TaskUse* const last = uses.empty() ? nullptr : &uses.back();
      if (last != nullptr && last->memory == memory && last->end == begin && last->writes == writes)
        last->end = end;
      else
        uses.push_back({memory, begin, end, writes});
    });
  }

  void add_imports(size_t task) {
    for (const int s : graph_.steps[task])
      each_use(plan_, plan_.steps[s], [&](const Bytes& bytes, bool, int input) {
        if (node(owner_of(plan_, bytes.area)) != node(plan_.steps[s].device) && bytes.begin < bytes.end)
          add_import(task, s, input, bytes);
      });
  }

  void add_import(size_t task, int s, int input, const Bytes& bytes) {
    const Step& step = plan_.steps[s];
    FF_CHECK(input >= 0, step.call.name, " writes into the memory of another process");
    const int memory = memory_of(bytes.area);
    const std::vector<TaskUse>& uses = graph_.tasks[task].uses;
    const auto use = std::find_if(uses.begin(), uses.end(), [&](const TaskUse& use) {
      return use.memory == memory && use.begin <= bytes.begin && bytes.end <= use.end;
    });
    FF_CHECK(use != uses.end(), step.call.name, " reads in pieces what another process has");
    const size_t offset = bytes_of(plan_, plan_.span(step.inputs[input])).begin;
    graph_.imports[task].push_back({s, input, static_cast<int>(use - uses.begin()), offset});
  }

  const Plan& plan_;
  std::vector<int> steps_;
  std::map<Area, Intervals<Users>> areas_;
  TaskGraph graph_;
};

}  // namespace

TaskGraph tasks_of(const Plan& plan, unsigned sections) { return Division(plan, sections).run(); }

}  // namespace ff
