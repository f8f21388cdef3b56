#include "engines/legion/program.h"

#include <unistd.h>
#include <algorithm>
#include <deque>
#include <numeric>

#include "base/error.h"
#include "engines/legion/host.h"

namespace ff::legion {
namespace {

using Address =
    Legion::FieldAccessor<LEGION_READ_ONLY, char, 1, Legion::coord_t, Realm::AffineAccessor<char, 1, Legion::coord_t>>;

Legion::LogicalRegion part(const Legion::LogicalPartition& partition, size_t color) {
  return Host::get().runtime()->get_logical_subregion_by_color(
      partition, Legion::DomainPoint(static_cast<Legion::coord_t>(color)));
}

bool before(const Range& a, const Range& b) { return std::pair(a.lo[0], a.hi[0]) < std::pair(b.lo[0], b.hi[0]); }

}  // namespace

Regions::Regions(std::vector<Piece> memories) : memories_(std::move(memories)), parts_(memories_.size()) {
  Legion::coord_t end = 0;
  for (Piece& memory : memories_) {
    std::sort(memory.ranges.begin(), memory.ranges.end(), before);
    memory.ranges.erase(std::unique(memory.ranges.begin(), memory.ranges.end()), memory.ranges.end());
    begins_.push_back(end);
    if (!memory.ranges.empty()) end += static_cast<Legion::coord_t>(memory.bytes);
  }
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  const Legion::Context context = host.context();
  const auto space = runtime->create_index_space(context, Range(0, end - 1));
  region_ = runtime->create_logical_region(context, space, host.bytes());

  std::map<Legion::Point<1>, Legion::DomainT<1>> domains;
  for (size_t m = 0; m < memories_.size(); ++m)
    if (!memories_[m].ranges.empty())
      domains[static_cast<Legion::coord_t>(m)] =
          Legion::DomainT<1>(in_region(m, Range(0, static_cast<Legion::coord_t>(memories_[m].bytes) - 1)));
  const auto colors = runtime->create_index_space(context, Range(0, static_cast<Legion::coord_t>(parts_.size()) - 1));
  const auto partition =
      runtime->create_partition_by_domain(context, Legion::IndexSpaceT<1>(space), domains,
                                          Legion::IndexSpaceT<1>(colors), false, LEGION_DISJOINT_COMPLETE_KIND);
  const Legion::LogicalPartition by_memory = runtime->get_logical_partition(context, region_, partition);
  attach(by_memory);
  for (size_t m = 0; m < memories_.size(); ++m)
    if (!memories_[m].ranges.empty()) divide(m, part(by_memory, m));
}

void Regions::attach(const Legion::LogicalPartition& by_memory) {
  std::deque<Realm::ExternalMemoryResource> resources;
  Legion::IndexAttachLauncher launcher(LEGION_EXTERNAL_INSTANCE, region_, false);
  launcher.initialize_constraints(true, true, {Host::kByte});
  launcher.privilege_fields.insert(Host::kByte);
  for (size_t m = 0; m < memories_.size(); ++m) {
    if (memories_[m].data == nullptr || memories_[m].ranges.empty()) continue;
    resources.emplace_back(memories_[m].data, memories_[m].bytes);
    launcher.add_external_resource(part(by_memory, m), &resources.back());
  }
  attached_ = Host::get().runtime()->attach_external_resources(Host::get().context(), launcher);
}

void Regions::divide(int memory, Legion::LogicalRegion whole) {
  Legion::Runtime* const runtime = Host::get().runtime();
  const Legion::Context context = Host::get().context();
  const std::vector<Range>& ranges = memories_[memory].ranges;
  std::map<Legion::Point<1>, Legion::DomainT<1>> domains;
  bool disjoint = true;
  for (size_t r = 0; r < ranges.size(); ++r) {
    domains[static_cast<Legion::coord_t>(r)] = Legion::DomainT<1>(in_region(memory, ranges[r]));
    disjoint = disjoint && (r == 0 || ranges[r - 1].hi[0] < ranges[r].lo[0]);
  }
  const auto colors = runtime->create_index_space(context, Range(0, static_cast<Legion::coord_t>(ranges.size()) - 1));
  const auto parts = runtime->create_partition_by_domain(
      context, Legion::IndexSpaceT<1>(whole.get_index_space()), domains, Legion::IndexSpaceT<1>(colors), false,
      disjoint ? LEGION_DISJOINT_INCOMPLETE_KIND : LEGION_ALIASED_INCOMPLETE_KIND);
  parts_[memory] = runtime->get_logical_partition(context, whole, parts);
}

void Regions::destroy() {
  Legion::Runtime* const runtime = Host::get().runtime();
  const Legion::Context context = Host::get().context();
  if (getenv("LEAK")) return;
  if (getenv("ORDERED")) {
    runtime->detach_external_resources(context, attached_, false, false).get_void_result(true);
    runtime->destroy_logical_region(context, region_);
    runtime->destroy_index_space(context, region_.get_index_space());
    return;
  }
  runtime->detach_external_resources(context, attached_, false, true);
  runtime->destroy_logical_region(context, region_, true);
  runtime->destroy_index_space(context, region_.get_index_space(), true);
}

Range Regions::in_region(int memory, const Range& range) const {
  return {range.lo + Legion::Point<1>(begins_[memory]), range.hi + Legion::Point<1>(begins_[memory])};
}

Legion::RegionRequirement Regions::use(int memory, const Range& range, bool writes) const {
  const std::vector<Range>& ranges = memories_[memory].ranges;
  const auto at = std::lower_bound(ranges.begin(), ranges.end(), range, before) - ranges.begin();
  Legion::RegionRequirement use(part(parts_[memory], at), writes ? LEGION_READ_WRITE : LEGION_READ_ONLY,
                                LEGION_EXCLUSIVE, region_);
  use.add_field(Host::kByte);
  return use;
}

LegionTasks::LegionTasks(TaskProgram program, const Machine& machine)
    : program_(std::move(program)),
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
  Host::get().call([&] {
    make_regions(machine);
    for (Launch& launch : launches_) make_launcher(launch, machine);
    trace_ = Host::get().runtime()->generate_dynamic_trace_id();
  });
}

LegionTasks::~LegionTasks() {
  if (!Host::get().alive()) return;
  try {
    Host::get().call([this] { regions_->destroy(); });
  } catch (const Error&) {  // the runtime ended in between
  }
}

void LegionTasks::run() {
  if (launches_.empty()) return;
  Host::get().call([this] { launch_all(); });
}

// Legion takes no two overlapping regions of one task when it writes one of them.
void LegionTasks::join_uses(Launch& launch) {
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

void LegionTasks::make_regions(const Machine& machine) {
  std::vector<Regions::Piece> pieces;
  for (const TaskMemory& memory : program_.memories) pieces.push_back({memory.data, memory.bytes, {}});
  for (const Launch& launch : launches_)
    for (const Piece& piece : launch.pieces) pieces[piece.memory].ranges.push_back(piece.range);
  for (size_t d = 0; d < turns_.size(); ++d)
    pieces.push_back({machine.is_here(static_cast<int>(d)) ? &turns_[d] : nullptr, 1, {Range(0, 0)}});
  regions_ = std::make_unique<Regions>(std::move(pieces));
}

void LegionTasks::make_launcher(Launch& launch, const Machine& machine) {
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

void LegionTasks::launch_all() {
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  const Legion::Context context = host.context();
  std::vector<Legion::Future> ends;
  static const bool traces = getenv("NOTRACE") == nullptr;
  if (traces) runtime->begin_trace(context, trace_);
  for (const Launch& launch : launches_) {
    // Under control replication Legion overlooks some orders between single tasks (seen with 25.12: wrong numbers, now
    // and then). Mapped one after another they are right; what was recorded runs as freely as before.
    if (spread_ && !getenv("NOFENCE")) runtime->issue_mapping_fence(context);
    Legion::Future end = runtime->execute_task(context, launch.launcher);
    if (!launch.launcher.elide_future_return) ends.push_back(std::move(end));
  }
  if (traces) runtime->end_trace(context, trace_);
  for (const Legion::Future& end : ends) end.get_void_result(true);
}

void LegionTasks::execute(const Launch& launch, const std::vector<Legion::PhysicalRegion>& regions) const {
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
  static const int jitter = getenv("JITTER") ? atoi(getenv("JITTER")) : 0;
  if (jitter) usleep(rand() % jitter);
  program_.body(launch.task, addresses);
  if (jitter) usleep(rand() % jitter);
}

void run_task(const Legion::Task* task, const std::vector<Legion::PhysicalRegion>& regions, Legion::Context,
              Legion::Runtime*) {
  const auto* launch = *static_cast<const LegionTasks::Launch* const*>(task->args);
  launch->program->execute(*launch, regions);
}

}  // namespace ff::legion
