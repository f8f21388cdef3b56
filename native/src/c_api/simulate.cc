// Costs that are measured here, and simulations of a model's steps.
#include <chrono>
#include <cmath>

#include "c_api/model.h"
#include "c_api/objects.h"
#include "c_api/timing.h"
#include "lowering/lower.h"
#include "search/any_kernels.h"
#include "search/jobs.h"
#include "search/measured.h"
#include "search/roofline.h"
#include "search/simulator.h"

namespace ff::c_api {

struct Simulation {
  std::shared_ptr<const Plan> plan;
  std::vector<Link> links;
  Simulated result;
};

namespace {

CostTable& table() {
  static auto* costs = new CostTable;  // never destroyed, as the handles
  return *costs;
}

// What is measured once and has no call.
double known(const std::string& key, const std::function<double()>& measure) {
  if (const auto seconds = table().find(key)) return *seconds;
  const double seconds = measure();
  table().set(key, seconds);
  return seconds;
}

// The machine that the model runs on. Where devices share memory, nothing crosses links.
MachineModel own_machine(const Model& model) {
  Engine& engine = model.engine();
  MachineModel made;
  made.machine = engine.machine();
  made.overlap = false;
  const std::vector<Device>& devices = made.machine.devices;
  const std::string team = cat(devices.size(), " of ", devices[0].kind, " x", devices[0].threads);
  made.start = known("start of " + team, [&] { return time_start(engine); });
  const double launch = known("launch on " + team, [&] { return time_launch(engine); });
  made.rates.assign(devices.size(), {.flops = {}, .bandwidth = 0, .launch = launch});
  made.handoff = known("handoff between " + team, [&] { return time_handoff(engine); });
  made.cache = last_cache();
  if (devices.size() > 1) made.contention = known("contention of memory", time_contention);
  return made;
}

using Clock = std::chrono::steady_clock;

Measured measured(const MachineModel& machine, double slice_ms) {
  const auto until = Clock::now() + std::chrono::duration<double, std::milli>(slice_ms);
  const auto timer = [=](const OpCall& call, const Layouts& layouts, const std::string& device, int threads,
                         bool cold) -> std::optional<double> {
    if (slice_ms > 0 && Clock::now() >= until) return std::nullopt;
    return time_call(call, layouts, device, threads, cold);
  };
  return {machine.machine, table(), timer, machine.rates[0].launch};
}

std::shared_ptr<const Plan> plan_of(Model& model, int32_t sections) {
  if (model.processes() != nullptr && model.engine().machine().devices.back().node > 0)
    fail(ErrorKind::state, "a step of several processes is not simulated with measured costs; use one process");
  return model.plan(model.step_spec(sections, 0));
}

std::shared_ptr<Simulation> simulate_here(Model& model, int32_t sections) {
  const auto plan = plan_of(model, sections);
  const MachineModel machine = own_machine(model);
  return std::make_shared<Simulation>(
      Simulation{plan, machine.network.links(), simulate(*plan, machine, measured(machine, 0))});
}

// Of a machine that is not at hand, it is not known what its kernels do not take: they take all, as it comes.
std::shared_ptr<Simulation> simulate_elsewhere(Model& model, int32_t sections, const MachineModel& machine) {
  const StepSpec step = model.step_spec(sections, 0);
  const AnyKernels kernels;
  Graph graph = build_step(model.owner().graph, model.spec(), step, kernels);
  const auto plan =
      std::make_shared<const Plan>(lower(place(std::move(graph), model.spec().strategy, machine.machine),
                                         machine.machine, kernels, {.separate_sections = step.separate_sections}));
  return std::make_shared<Simulation>(
      Simulation{plan, machine.network.links(), simulate(*plan, machine, Roofline(machine.rates))});
}

void read_stays(const Simulation& simulation, ff_stay* stays) {
  const Simulated& result = simulation.result;
  const std::vector<Step>& steps = simulation.plan->steps;
  for (size_t s = 0; s < steps.size(); ++s)
    *stays++ = {result.beside[s] ? FF_LANE_MOVES : FF_LANE_CALLS,
                steps[s].device,
                0,
                result.steps[s].begin,
                result.steps[s].end,
                steps[s].call.op.c_str(),
                steps[s].call.name.c_str()};
  for (const Simulated::Transfer& transfer : result.transfers) {
    const OpCall& call = steps[static_cast<size_t>(transfer.step)].call;
    *stays++ = {FF_LANE_LINK, transfer.link,   transfer.bytes,   transfer.begin,
                transfer.end, call.op.c_str(), call.name.c_str()};
  }
}

}  // namespace
}  // namespace ff::c_api

using namespace ff;
using namespace ff::c_api;

extern "C" {

ff_status ff_costs_measure(ff_handle model, int32_t sections, double slice_ms, int64_t* left) {
  return guarded([&] {
    required(left, "left");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    const auto plan = plan_of(*object, sections);
    const MachineModel machine = own_machine(*object);
    const Measured costs = measured(machine, slice_ms);
    (void)jobs_of(*plan, machine, costs);
    *left = costs.unknown();
  });
}

ff_status ff_costs_text(const char** text) {
  return guarded([&] {
    required(text, "text");
    std::ostringstream out;
    out.precision(9);
    for (const auto& [key, seconds] : table().all()) out << seconds << "\t" << key << "\n";
    *text = lend(out.str());
  });
}

ff_status ff_costs_set(const char* key, double seconds) {
  return guarded([&] {
    const std::string name = &required(key, "key");
    if (!std::isfinite(seconds) || seconds < 0)
      bad_value("the cost of \"", name, "\" is ", seconds, " seconds; expected a number of at least 0");
    table().set(name, seconds);
  });
}

ff_status ff_simulate(ff_handle model, int32_t sections, ff_handle machine, ff_handle* simulation) {
  return guarded([&] {
    required(simulation, "simulation");
    const auto object = model_of(model);
    const std::lock_guard lock(object->owner().mutex);
    *simulation = keep(machine == 0 ? simulate_here(*object, sections)
                                    : simulate_elsewhere(*object, sections, *machine_of(machine)));
  });
}

ff_status ff_simulation_total(ff_handle simulation, ff_simulated* total) {
  return guarded([&] {
    required(total, "total");
    const auto object = simulation_of(simulation);
    const Simulated& result = object->result;
    *total = {.seconds = result.seconds,
              .moved = {},
              .devices = result.busy.size(),
              .links = object->links.size(),
              .stays = result.steps.size() + result.transfers.size()};
    std::copy(result.moved.begin(), result.moved.end(), total->moved);
  });
}

ff_status ff_simulation_read(ff_handle simulation, ff_simulated_device* devices, ff_simulated_link* links,
                             ff_stay* stays) {
  return guarded([&] {
    const auto object = simulation_of(simulation);
    const Simulated& result = object->result;
    required(devices, "devices");
    if (!object->links.empty()) required(links, "links");
    if (!result.steps.empty()) required(stays, "stays");
    for (size_t d = 0; d < result.busy.size(); ++d)
      devices[d] = {result.busy[d], result.exposed[d], static_cast<int64_t>(result.memory[d])};
    for (size_t l = 0; l < object->links.size(); ++l)
      links[l] = {object->links[l].from, object->links[l].to, result.link_busy[l]};
    read_stays(*object, stays);
  });
}

}  // extern "C"
