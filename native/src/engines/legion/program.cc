#include "engines/legion/program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "engines/legion/host.h"

namespace ff::legion {
namespace {

using Address =
    Legion::FieldAccessor<LEGION_READ_ONLY, char, 1, Legion::coord_t, Realm::AffineAccessor<char, 1, Legion::coord_t>>;

std::pair<Legion::coord_t, Legion::coord_t> ends(const Range& range) { return {range.lo[0], range.hi[0]}; }

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

Region::Region(void* data, size_t bytes, const std::vector<Range>& ranges) {
  if (ranges.empty()) return;
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  const Legion::Context context = host.context();
  const auto space = runtime->create_index_space(context, Range(0, static_cast<Legion::coord_t>(bytes) - 1));
  spaces_.push_back(space);
  region_ = runtime->create_logical_region(context, space, host.bytes());
  for (const std::vector<Range>& apart : layers(ranges)) add_parts(apart);

  const Realm::ExternalMemoryResource memory(data, bytes);
  Legion::AttachLauncher attach(LEGION_EXTERNAL_INSTANCE, region_, region_, false, false);
  attach.initialize_constraints(true, true, {Host::kByte});
  attach.privilege_fields.insert(Host::kByte);
  attach.external_resource = &memory;
  attached_ = runtime->attach_external_resource(context, attach);
}

void Region::add_parts(const std::vector<Range>& apart) {
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  std::map<Legion::Point<1>, Legion::DomainT<1>> domains;
  for (const Range& range : apart) domains[static_cast<Legion::coord_t>(domains.size())] = Legion::DomainT<1>(range);
  const auto colors =
      runtime->create_index_space(host.context(), Range(0, static_cast<Legion::coord_t>(apart.size()) - 1));
  spaces_.push_back(colors);
  const auto cut =
      runtime->create_partition_by_domain(host.context(), Legion::IndexSpaceT<1>(region_.get_index_space()), domains,
                                          Legion::IndexSpaceT<1>(colors), false, LEGION_DISJOINT_INCOMPLETE_KIND);
  const auto parts = runtime->get_logical_partition(host.context(), region_, cut);
  for (size_t r = 0; r < apart.size(); ++r)
    parts_[ends(apart[r])] = runtime->get_logical_subregion_by_color(
        host.context(), parts, Legion::DomainPoint(static_cast<Legion::coord_t>(r)));
}

void Region::destroy() {
  if (parts_.empty()) return;
  const Host& host = Host::get();
  host.runtime()->detach_external_resource(host.context(), attached_).get_void_result(true);
  host.runtime()->destroy_logical_region(host.context(), region_);
  for (const Legion::IndexSpace space : spaces_) host.runtime()->destroy_index_space(host.context(), space);
}

Legion::RegionRequirement Region::use(const Range& range, bool writes) const {
  Legion::RegionRequirement use(parts_.at(ends(range)), writes ? LEGION_READ_WRITE : LEGION_READ_ONLY, LEGION_EXCLUSIVE,
                                region_);
  use.add_field(Host::kByte);
  return use;
}

Program::Program(TaskProgram program) : program_(std::move(program)), launches_(program_.tasks.size()) {
  for (size_t t = 0; t < launches_.size(); ++t) {
    launches_[t].program = this;
    launches_[t].self = &launches_[t];
    launches_[t].task = static_cast<int>(t);
    join_uses(launches_[t]);
    const auto device = static_cast<size_t>(program_.tasks[t].device);
    if (last_.size() <= device) last_.resize(device + 1, -1);
    last_[device] = static_cast<int>(t);
  }
  turns_.resize(last_.size());
  make_regions();
  for (Launch& launch : launches_) make_launcher(launch);
  trace_ = Host::get().runtime()->generate_dynamic_trace_id();
}

Program::~Program() {
  for (Region& region : regions_) region.destroy();
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

void Program::make_regions() {
  std::vector<std::vector<Range>> ranges(program_.memories.size());
  for (const Launch& launch : launches_)
    for (const Piece& piece : launch.pieces) ranges[piece.memory].push_back(piece.range);
  for (size_t m = 0; m < ranges.size(); ++m) {
    const TaskMemory& memory = program_.memories[m];
    FF_CHECK(memory.data != nullptr || ranges[m].empty(), "memory ", memory.name, " is of another process");
    regions_.emplace_back(memory.data, memory.bytes, ranges[m]);
  }
  for (char& turn : turns_) regions_.emplace_back(&turn, 1, std::vector<Range>{Range(0, 0)});
}

void Program::make_launcher(Launch& launch) {
  const Host& host = Host::get();
  const int device = program_.tasks[launch.task].device;
  Legion::TaskLauncher& launcher = launch.launcher;
  launcher = Legion::TaskLauncher(host.task(), Legion::UntypedBuffer(), Legion::Predicate::TRUE_PRED, host.mapper(),
                                  static_cast<Legion::MappingTagID>(device));
  launcher.argument = Legion::UntypedBuffer(&launch.self, sizeof(launch.self));
  for (const Piece& piece : launch.pieces)
    launcher.add_region_requirement(regions_[piece.memory].use(piece.range, piece.writes));
  launcher.add_region_requirement(regions_[program_.memories.size() + device].use(Range(0, 0), true));
  launcher.independent_requirements = true;
  launcher.elide_future_return = last_[device] != launch.task;
  launcher.point = Legion::DomainPoint(device);
}

void Program::run() {
  if (launches_.empty()) return;
  const Host& host = Host::get();
  Legion::Runtime* const runtime = host.runtime();
  const Legion::Context context = host.context();
  std::vector<Legion::Future> ends;
  // Legion keeps what it recorded as long as its context lives; what runs once is not worth that.
  const bool traced = std::exchange(ran_, true);
  if (traced) runtime->begin_trace(context, trace_);
  for (const Launch& launch : launches_) {
    Legion::Future end = runtime->execute_task(context, launch.launcher);
    if (!launch.launcher.elide_future_return) ends.push_back(std::move(end));
  }
  if (traced) runtime->end_trace(context, trace_);
  for (const Legion::Future& end : ends) end.get_void_result(true);
}

void Program::execute(const Launch& launch, const std::vector<Legion::PhysicalRegion>& regions) const {
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
    addresses[u] = const_cast<char*>(access.ptr(begin)) - begin;
  }
  program_.body(launch.task, addresses);
}

LegionTasks::LegionTasks(TaskProgram program) {
  Host::get().call([&] { program_ = std::make_unique<Program>(std::move(program)); });
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
