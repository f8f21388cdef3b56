#include "search/simulator.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "lowering/lower.h"

namespace ff {
namespace {

// Links that serve transfers in turn.
class Links {
 public:
  Links(const Network& network, std::vector<Simulated::Transfer>& log)
      : network_(network), free_(network.links().size()), log_(log) {}

  // A transfer that is ready at some time reserves its way; when its last byte is there.
  double send(int from, int to, int64_t bytes, int step, double ready) {
    double head = ready, tail = ready;
    for (const int l : network_.route(from, to)) {
      const Link& link = network_.links()[static_cast<size_t>(l)];
      const double begin = std::max(head, free_[l]);
      const double served = begin + static_cast<double>(bytes) / link.bandwidth;
      free_[l] = served;
      tail = std::max(served, tail) + link.latency;
      head = begin + link.latency;
      log_.push_back({l, step, bytes, begin, served});
    }
    return tail;
  }

 private:
  const Network& network_;
  std::vector<double> free_;  // by link
  std::vector<Simulated::Transfer>& log_;
};

// Calls that run at one time on devices of one memory. Those that live on memory slow each other down.
class Box {
 public:
  explicit Box(double contention) : contention_(contention) {}

  struct Running {
    double left = 0, hunger = 0;
    uint64_t version = 0;
  };

  void advance(double now) {
    for (auto& [step, running] : running_) running.left -= (now - then_) / slowdown(running);
    then_ = now;
  }
  void enter(int step, double work, double hunger) {
    running_[step] = {work, hunger, 0};
    hunger_ += hunger;
  }
  void leave(int step) {
    hunger_ -= running_.at(step).hunger;
    running_.erase(step);
    if (running_.empty()) hunger_ = 0;
  }
  double slowdown(const Running& running) const {
    return 1 + contention_ * running.hunger * std::max(0.0, hunger_ - running.hunger);
  }
  std::map<int, Running>& running() { return running_; }

 private:
  double contention_;
  double then_ = 0, hunger_ = 0;
  std::map<int, Running> running_;  // by step
};

class Simulation {
 public:
  Simulation(const Plan& plan, const MachineModel& machine, const Costs& costs)
      : plan_(plan),
        machine_(machine),
        jobs_(jobs_of(plan, machine, costs)),
        links_(machine.network, result_.transfers),
        steps_(plan.steps.size()) {
    result_.steps.resize(plan.steps.size());
    make_queues();
  }

  Simulated run() {
    for (size_t q = 0; q < queues_.size(); ++q) advance(static_cast<int>(q), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.kind == Kind::send)
        send(event);
      else if (event.kind == Kind::work)
        work(event.step, event.time);
      else if (event.version == steps_[event.step].version)
        end(event.step, event.time);
    }
    for (size_t q = 0; q < queues_.size(); ++q)
      FF_CHECK(next_[q] == queues_[q].size(), "step ", queues_[q][next_[q]], " waits for ever");
    sum_up();
    return std::move(result_);
  }

 private:
  enum class Kind { end, work, send };  // at one time, in this order
  struct Event {
    double time;
    Kind kind;
    int round;  // of a transfer among those of its step
    int step;
    uint64_t version = 0;
    bool operator>(const Event& other) const {
      return std::tie(time, kind, round, step) > std::tie(other.time, other.kind, other.round, other.step);
    }
  };
  struct State {
    std::vector<int> followers;  // that wait for it, on other queues
    int waits = 0;               // that have not ended
    size_t flows = 0;            // that have not come
    double ready = 0;            // when what came so far was there
    uint64_t version = 0;
  };

  bool beside(int step) const { return machine_.overlap && plan_.steps[step].call.op == "move"; }

  void make_queues() {
    const size_t devices = plan_.machine.devices.size();
    queues_.resize(devices * (machine_.overlap ? 2 : 1));
    next_.resize(queues_.size());
    for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
      queue_of_.push_back(plan_.steps[s].device + static_cast<int>(beside(s) ? devices : 0));
      queues_[queue_of_[s]].push_back(s);
    }
    const auto waits = machine_.overlap ? waits_between(plan_, queue_of_) : std::vector<std::vector<Wait>>{};
    for (int s = 0; s < static_cast<int>(steps_.size()); ++s)
      for (const Wait& wait : machine_.overlap ? waits[s] : plan_.steps[s].waits) {
        steps_[wait.step].followers.push_back(s);
        ++steps_[s].waits;
      }
    for (const Device& device : plan_.machine.devices) {
      const int box = device.space >= 0 ? device.space : -1 - static_cast<int>(box_of_.size());
      box_of_.push_back(box);
      boxes_.try_emplace(box, machine_.contention);
    }
  }

  // Begin the next step of a queue if nothing keeps it.
  void advance(int queue, double now) {
    if (next_[queue] == queues_[queue].size()) return;
    const int step = queues_[queue][next_[queue]];
    State& state = steps_[step];
    if (state.waits > 0 || state.version > 0) return;
    state.version = 1;
    const double begin = std::max(now, state.ready);
    result_.steps[step].begin = begin;
    state.ready = begin;
    state.flows = jobs_[step].flows.size();
    for (size_t round = 0; round < state.flows; ++round)
      events_.push({begin, Kind::send, static_cast<int>(round), step});
    if (state.flows == 0) events_.push({begin, Kind::work, 0, step});
  }

  void send(const Event& event) {
    State& state = steps_[event.step];
    const Flow& flow = jobs_[event.step].flows[event.round];
    const double there = links_.send(flow.from, plan_.steps[event.step].device, flow.bytes, event.step, event.time);
    state.ready = std::max(state.ready, there);
    if (--state.flows == 0) events_.push({state.ready, Kind::work, 0, event.step});
  }

  void work(int step, double now) {
    const Job& job = jobs_[step];
    if (machine_.contention == 0 || job.hunger == 0) {
      events_.push({now + job.work, Kind::end, 0, step, steps_[step].version});
      return;
    }
    Box& box = boxes_.at(box_of_[plan_.steps[step].device]);
    box.advance(now);
    box.enter(step, job.work, job.hunger);
    foresee(box, now);
  }

  // The ends of all that runs in a box, as it looks now.
  void foresee(Box& box, double now) {
    for (auto& [step, running] : box.running())
      events_.push(
          {now + std::max(0.0, running.left) * box.slowdown(running), Kind::end, 0, step, ++steps_[step].version});
  }

  void end(int step, double now) {
    result_.steps[step].end = now;
    if (Box& box = boxes_.at(box_of_[plan_.steps[step].device]); box.running().count(step) > 0) {
      box.advance(now);
      box.leave(step);
      foresee(box, now);
    }
    for (const int follower : steps_[step].followers) {
      const bool far = plan_.steps[follower].device != plan_.steps[step].device;
      steps_[follower].ready = std::max(steps_[follower].ready, now + (far ? machine_.handoff : 0));
      if (--steps_[follower].waits > 0) continue;
      const int queue = queue_of_[follower];
      if (queues_[queue][next_[queue]] == follower) advance(queue, std::max(now, ended_[queue]));
    }
    const int queue = queue_of_[step];
    ended_[queue] = now;
    ++next_[queue];
    advance(queue, now);
  }

  void sum_up();

  const Plan& plan_;
  const MachineModel& machine_;
  Simulated result_;
  std::vector<Job> jobs_;
  Links links_;
  std::vector<State> steps_;  // by step
  std::vector<int> queue_of_;
  std::vector<std::vector<int>> queues_;
  std::vector<size_t> next_;     // by queue
  std::map<int, double> ended_;  // by queue: its last step
  std::vector<int> box_of_;      // by device
  std::map<int, Box> boxes_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// The seconds of stays in which there is none of the others; both in the order of their begin, and none meets another
// of its own kind.
double apart(const std::vector<Simulated::Stay>& stays, const std::vector<Simulated::Stay>& others) {
  double seconds = 0;
  size_t first = 0;
  for (const Simulated::Stay& stay : stays) {
    seconds += stay.end - stay.begin;
    while (first < others.size() && others[first].end <= stay.begin) ++first;
    for (size_t o = first; o < others.size() && others[o].begin < stay.end; ++o)
      seconds -= std::min(stay.end, others[o].end) - std::max(stay.begin, others[o].begin);
  }
  return seconds;
}

void Simulation::sum_up() {
  const size_t devices = plan_.machine.devices.size();
  std::vector<std::vector<Simulated::Stay>> calls(devices), moves(devices);
  result_.busy.resize(devices);
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = plan_.steps[s];
    const Simulated::Stay& stay = result_.steps[s];
    result_.beside.push_back(beside(static_cast<int>(s)));
    (step.call.op == "move" ? moves : calls)[step.device].push_back(stay);
    if (!beside(static_cast<int>(s))) result_.busy[step.device] += stay.end - stay.begin;
    result_.moved[static_cast<size_t>(jobs_[s].kind)] += jobs_[s].moved;
    result_.seconds = std::max(result_.seconds, stay.end);
  }
  for (size_t d = 0; d < devices; ++d) {
    result_.exposed.push_back(apart(moves[d], calls[d]));
    result_.memory.push_back(bytes_needed(plan_, static_cast<int>(d)));
  }
  result_.link_busy.resize(machine_.network.links().size());
  for (const Simulated::Transfer& transfer : result_.transfers)
    result_.link_busy[transfer.link] += transfer.end - transfer.begin;
  std::stable_sort(result_.transfers.begin(), result_.transfers.end(),
                   [](const Simulated::Transfer& a, const Simulated::Transfer& b) { return a.begin < b.begin; });
  result_.seconds += machine_.start;
}

}  // namespace

Simulated simulate(const Plan& plan, const MachineModel& machine, const Costs& costs) {
  FF_CHECK(plan.machine.devices.size() == machine.machine.devices.size(), "a plan for ", plan.machine.devices.size(),
           " devices on a machine of ", machine.machine.devices.size());
  return Simulation(plan, machine, costs).run();
}

}  // namespace ff
