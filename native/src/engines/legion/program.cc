#include "engines/legion/program.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/intervals.h"
#include "engines/legion/host.h"
#include "engines/legion/peers.h"

namespace ff::legion {
namespace {

using Address =
    Legion::FieldAccessor<LEGION_READ_ONLY, char, 1, Legion::coord_t, Realm::AffineAccessor<char, 1, Legion::coord_t>>;

Ends ends(const Range& range) { return {range.lo[0], range.hi[0]}; }

// Distinct ranges, in layers that do not overlap within: Legion searches those fast.
std::vector<std::vector<Range>> layers(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return ends(a) < ends(b); });
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  std::vector<std::vector<Range>> layers;
  for (const Range& range : ranges) {
    const auto free = std::find_if(layers.begin(), layers.end(),
                                   [&](const std::vector<Range>& layer) { return layer.back().hi[0] < range.lo[0]; });
    if (free == layers.end())
      layers.push_back({range});
    else
      free->push_back(range);
  }
  return layers;
}

}  // namespace

Regions::Regions(const std::vector<Piece>& memories) {
  std::vector<Range> wholes;
  std::vector<int> used;  // memories, by color
  Legion::coord_t end = 0;
  for (size_t m = 0; m < memories.size(); ++m) {
    begins_.push_back(end);
    if (memories[m].ranges.empty()) continue;
    used.push_back(static_cast<int>(m));
    wholes.emplace_back(end, end + static_cast<Legion::coord_t>(memories[m].bytes) - 1);
    end = wholes.back().hi[0] + 1;
  }
  const Host& host = Host::get();
  const auto space = host.runtime()->create_index_space(host.context(), Range(0, end - 1));
  spaces_.push_back(space);
  region_ = host.runtime()->create_logical_region(host.context(), space, host.bytes());

  const std::vector<Legion::LogicalRegion> regions = divide(region_, wholes);
  attach(memories, used, regions);
  for (size_t u = 0; u < used.size(); ++u)
    for (std::vector<Range>& apart : layers(memories[used[u]].ranges)) {
      for (Range& range : apart) range = in_region(used[u], range);
      const std::vector<Legion::LogicalRegion> parts = divide(regions[u], apart);
      for (size_t r = 0; r < apart.size(); ++r) parts_[ends(apart[r])] = parts[r];
    }
}

// The parts of a region that are ranges, which do not overlap.
std::vector<Legion::LogicalRegion> Regions::divide(Legion::LogicalRegion whole, const std::vector<Range>& ranges) {
  Legion::Runtime* const runtime = Host::get().runtime();
  const Legion::Context context = Host::get().context();
  std::map<Legion::Point<1>, Legion::DomainT<1>> domains;
  for (const Range& range : ranges) domains[static_cast<Legion::coord_t>(domains.size())] = Legion::DomainT<1>(range);
  const auto colors = runtime->create_index_space(context, Range(0, static_cast<Legion::coord_t>(ranges.size()) - 1));
  spaces_.push_back(colors);
  const auto cut =
      runtime->create_partition_by_domain(context, Legion::IndexSpaceT<1>(whole.get_index_space()), domains,
                                          Legion::IndexSpaceT<1>(colors), false, LEGION_DISJOINT_INCOMPLETE_KIND);
  const Legion::LogicalPartition partition = runtime->get_logical_partition(context, whole, cut);
  std::vector<Legion::LogicalRegion> parts;
  for (size_t r = 0; r < ranges.size(); ++r)
    parts.push_back(runtime->get_logical_subregion_by_color(context, partition,
                                                            Legion::DomainPoint(static_cast<Legion::coord_t>(r))));
  return parts;
}

void Regions::attach(const std::vector<Piece>& memories, const std::vector<int>& used,
                     const std::vector<Legion::LogicalRegion>& regions) {
  std::deque<Realm::ExternalMemoryResource> resources;
  Legion::IndexAttachLauncher launcher(LEGION_EXTERNAL_INSTANCE, region_, false);
  launcher.initialize_constraints(true, true, {Host::kByte});
  launcher.privilege_fields.insert(Host::kByte);
  for (size_t u = 0; u < used.size(); ++u) {
    const Piece& memory = memories[used[u]];
    if (memory.data == nullptr) continue;
    resources.emplace_back(memory.data, memory.bytes);
    launcher.add_external_resource(regions[u], &resources.back());
  }
  attached_ = Host::get().runtime()->attach_external_resources(Host::get().context(), launcher);
}

Regions::~Regions() {
  Legion::Runtime* const runtime = Host::get().runtime();
  const Legion::Context context = Host::get().context();
  // Python deletes in each process when it likes; what is unordered happens once all have come to it, so none can wait.
  const bool unordered = Host::get().several();
  const Legion::Future end = runtime->detach_external_resources(context, attached_, false, unordered);
  if (!unordered) end.get_void_result(true);
  runtime->destroy_logical_region(context, region_, unordered);
  for (const Legion::IndexSpace space : spaces_) runtime->destroy_index_space(context, space, unordered);
}

Range Regions::in_region(int memory, const Range& range) const {
  return {range.lo + Legion::Point<1>(begins_[memory]), range.hi + Legion::Point<1>(begins_[memory])};
}

Legion::RegionRequirement Regions::use(int memory, const Range& range, bool writes) const {
  Legion::RegionRequirement use(parts_.at(ends(in_region(memory, range))),
                                writes ? LEGION_READ_WRITE : LEGION_READ_ONLY, LEGION_EXCLUSIVE, region_);
  use.add_field(Host::kByte);
  return use;
}

Program::Program(TaskProgram program, const Machine& machine)
    : program_(std::move(program)),
      gates_(add_gates(machine)),
      turns_(machine.devices.size()),
      launches_(program_.tasks.size()),
      last_(machine.devices.size(), -1),
      spread_(machine.devices.front().node != machine.devices.back().node) {
  for (size_t t = 0; t < launches_.size(); ++t) {
    launches_[t].program = this;
    launches_[t].self = &launches_[t];
    launches_[t].task = static_cast<int>(t);
    join_uses(launches_[t]);
    last_[program_.tasks[t].device] = static_cast<int>(t);
  }
  copies_ = std::make_unique<Copies>(copied(machine));
  if (spread_) Peers::get().begin();
  make_regions(machine);
  for (Launch& launch : launches_) make_launcher(launch, machine);
  trace_ = Host::get().runtime()->generate_dynamic_trace_id();
}

// What a process itself writes between two runs, no other may read before: a task that does nothing comes first on the
// device that has it, and all others wait for that. The number of such tasks.
int Program::add_gates(const Machine& machine) {
  const auto node = [&](int device) { return machine.devices[device].node; };
  std::vector<Intervals<bool>> written(program_.memories.size());  // in this run
  std::map<int, std::vector<TaskUse>> early;                       // by device
  for (const Task& task : program_.tasks)
    for (const TaskUse& use : task.uses) {
      const int owner = program_.memories[use.memory].device;
      written[use.memory].visit(use.begin, use.end, [&](size_t begin, size_t end, bool& known) {
        if (!known && node(task.device) != node(owner)) early[owner].push_back({use.memory, begin, end, true});
        known = true;
      });
    }
  std::vector<Task> gates;
  for (auto& [device, uses] : early) gates.push_back({device, std::move(uses)});
  program_.tasks.insert(program_.tasks.begin(), gates.begin(), gates.end());
  return static_cast<int>(gates.size());
}

// Legion takes no two overlapping regions of one task when it writes one of them.
void Program::join_uses(Launch& launch) {
  const std::vector<TaskUse>& uses = program_.tasks[launch.task].uses;
  std::vector<int> order(uses.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(uses[a].memory, uses[a].begin) < std::pair(uses[b].memory, uses[b].begin);
  });
  launch.piece_of.assign(uses.size(), -1);
  for (const int u : order) {
    const TaskUse& use = uses[u];
    if (use.begin >= use.end) continue;
    const Range range(static_cast<Legion::coord_t>(use.begin), static_cast<Legion::coord_t>(use.end) - 1);
    Piece* const last = launch.pieces.empty() ? nullptr : &launch.pieces.back();
    if (last != nullptr && last->memory == use.memory && last->range.hi[0] >= range.lo[0]) {
      last->range = last->range.union_bbox(range);
      last->writes = last->writes || use.writes;
    } else {
      launch.pieces.push_back({use.memory, range, use.writes});
    }
    launch.piece_of[u] = static_cast<int>(launch.pieces.size()) - 1;
  }
}

// By process, the bytes that its tasks use of other processes.
std::map<int, size_t> Program::copied(const Machine& machine) const {
  const auto node = [&](int device) { return machine.devices[device].node; };
  std::set<std::tuple<int, int, Ends>> pieces;
  std::map<int, size_t> bytes;
  for (const Launch& launch : launches_) {
    const int here = node(program_.tasks[launch.task].device);
    for (const Piece& piece : launch.pieces)
      if (node(program_.memories[piece.memory].device) != here &&
          pieces.emplace(here, piece.memory, ends(piece.range)).second)
        bytes[here] += piece.range.volume();
  }
  return bytes;
}

void Program::make_regions(const Machine& machine) {
  std::vector<Regions::Piece> pieces;
  for (const TaskMemory& memory : program_.memories) pieces.push_back({memory.data, memory.bytes, {}});
  for (const Launch& launch : launches_)
    for (const Piece& piece : launch.pieces) pieces[piece.memory].ranges.push_back(piece.range);
  for (size_t d = 0; d < turns_.size(); ++d)
    pieces.push_back({machine.is_here(static_cast<int>(d)) ? &turns_[d] : nullptr, 1, {Range(0, 0)}});
  regions_ = std::make_unique<Regions>(pieces);
}

void Program::make_launcher(Launch& launch, const Machine& machine) {
  const Host& host = Host::get();
  const int device = program_.tasks[launch.task].device;
  Legion::TaskLauncher& launcher = launch.launcher;
  launcher = Legion::TaskLauncher(host.task(), Legion::UntypedBuffer(), Legion::Predicate::TRUE_PRED, host.mapper(),
                                  static_cast<Legion::MappingTagID>(device));
  launcher.argument = Legion::UntypedBuffer(&launch.self, sizeof(launch.self));
  for (const Piece& piece : launch.pieces)
    launcher.add_region_requirement(regions_->use(piece.memory, piece.range, piece.writes));
  launcher.add_region_requirement(
      regions_->use(static_cast<int>(program_.memories.size()) + device, Range(0, 0), true));
  launcher.independent_requirements = true;
  launcher.elide_future_return = last_[device] != launch.task;
  launcher.point = Legion::DomainPoint(machine.devices[device].node);  // where it runs; see Placement
}

void Program::run() {
  if (launches_.empty()) return;
  if (spread_) Peers::get().begin();
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  const Legion::Context context = host.context();
  std::vector<Legion::Future> ends;
  // Legion keeps what it recorded as long as its context lives; what runs once is not worth that.
  const bool traced = std::exchange(ran_, true);
  if (traced) runtime->begin_trace(context, trace_);
  for (const Launch& launch : launches_) {
    // Under control replication Legion overlooks some orders between single tasks (seen with 25.12: wrong numbers, now
    // and then). Mapped one after another they are right; what was recorded runs as freely as before.
    if (spread_) runtime->issue_mapping_fence(context);
    Legion::Future end = runtime->execute_task(context, launch.launcher);
    if (!launch.launcher.elide_future_return) ends.push_back(std::move(end));
  }
  if (traced) runtime->end_trace(context, trace_);
  for (const Legion::Future& end : ends) end.get_void_result(true);
}

void Program::execute(const Launch& launch, const std::vector<Legion::PhysicalRegion>& regions) const {
  if (launch.task < gates_) return;
  const std::vector<TaskUse>& uses = program_.tasks[launch.task].uses;
  std::vector<char*> addresses(uses.size());
  for (size_t u = 0; u < uses.size(); ++u) {
    const int p = launch.piece_of[u];
    if (p < 0) {
      addresses[u] = static_cast<char*>(program_.memories[uses[u].memory].data);
      continue;
    }
    const Address access(regions[p], Host::kByte);
    const Legion::coord_t begin = launch.pieces[p].range.lo[0];
    addresses[u] = const_cast<char*>(access.ptr(regions_->begin(launch.pieces[p].memory) + begin)) - begin;
  }
  program_.body(launch.task - gates_, addresses);
}

LegionTasks::LegionTasks(TaskProgram program, const Machine& machine) {
  Host::get().call([&] { program_ = std::make_unique<Program>(std::move(program), machine); });
}

LegionTasks::~LegionTasks() {
  try {
    Host::get().call([this] { program_.reset(); });
  } catch (const Error&) {
    // What the runtime took with it must not be touched.
    (void)program_.release();
  }
}

void LegionTasks::run() {
  Host::get().call([this] { program_->run(); });
}

void run_task(const Legion::Task* task, const std::vector<Legion::PhysicalRegion>& regions, Legion::Context,
              Legion::Runtime*) {
  const auto* launch = *static_cast<const Program::Launch* const*>(task->args);
  launch->program->execute(*launch, regions);
}

}  // namespace ff::legion
