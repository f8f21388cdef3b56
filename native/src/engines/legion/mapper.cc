#include "engines/legion/mapper.h"

#include <algorithm>

#include "engines/legion/host.h"

namespace ff::legion {
namespace {

using Legion::Mapping::MapperContext;
using Legion::Mapping::PhysicalInstance;

Legion::LayoutConstraintSet plain_bytes() {
  Legion::LayoutConstraintSet constraints;
  constraints.add_constraint(Legion::MemoryConstraint(Legion::Memory::SYSTEM_MEM))
      .add_constraint(Legion::FieldConstraint(std::vector<Legion::FieldID>{Host::kByte}, true))
      .add_constraint(Legion::OrderingConstraint({LEGION_DIM_X, LEGION_DIM_F}, true));
  return constraints;
}

}  // namespace

Mapper::Mapper(Legion::Mapping::MapperRuntime* runtime, Legion::Machine machine, Legion::Processor local,
               Legion::VariantID variant, Legion::ShardingID placement)
    : DefaultMapper(runtime, machine, local, "flexflow"), variant_(variant), placement_(placement) {
  Legion::Machine::ProcessorQuery processors(machine);
  processors.only_kind(Legion::Processor::LOC_PROC).local_address_space();
  processors_.assign(processors.begin(), processors.end());
  // Memory without capacity stands for what was attached.
  Legion::Machine::MemoryQuery memories(machine);
  memory_ = memories.only_kind(Legion::Memory::SYSTEM_MEM).local_address_space().has_capacity(1).first();
}

void Mapper::select_task_options(MapperContext, const Legion::Task& task, TaskOptions& options) {
  options.initial_proc = processors_[task.tag % processors_.size()];
  options.inline_task = false;
  options.stealable = false;
  options.map_locally = true;
  options.valid_instances = true;
  options.memoize = true;
}

void Mapper::select_sharding_functor(MapperContext, const Legion::Task&, const SelectShardingFunctorInput&,
                                     SelectShardingFunctorOutput& output) {
  output.chosen_functor = placement_;
}

void Mapper::map_task(MapperContext context, const Legion::Task& task, const MapTaskInput& input,
                      MapTaskOutput& output) {
  output.chosen_variant = variant_;
  output.target_procs = {task.target_proc};
  for (size_t r = 0; r < task.regions.size(); ++r) {
    const auto& instances = input.valid_instances[r];
    const auto here = std::find_if(instances.begin(), instances.end(), [&](const PhysicalInstance& instance) {
      return instance.get_location().address_space() == task.target_proc.address_space();
    });
    output.chosen_instances[r] = {here != instances.end() ? *here : nearby(context, task.regions[r].region)};
    // What was brought here is brought again the next time: its owner may have changed it between two runs.
    if (here == instances.end() && task.regions[r].privilege == LEGION_READ_ONLY)
      output.untracked_valid_regions.insert(r);
  }
}

PhysicalInstance Mapper::nearby(MapperContext context, Legion::LogicalRegion region) {
  static const Legion::LayoutConstraintSet constraints = plain_bytes();
  PhysicalInstance instance;
  bool created = false;
  if (!runtime->find_or_create_physical_instance(context, memory_, constraints, {region}, instance, created)) {
    // Counted before (Copies), so only when others use this memory, too: Legion cannot go on.
    std::cerr << "flexflow: Legion's memory of this process is too small for what other processes send; "
                 "start with a larger -ll:csize\n";
    std::abort();
  }
  return instance;
}

void Mapper::memoize_operation(MapperContext, const Legion::Mappable&, const MemoizeInput&, MemoizeOutput& output) {
  output.memoize = true;
}

// Also for a runtime that somebody else started with automatic tracing: beside our own traces it gives wrong numbers.
void Mapper::configure_context(MapperContext, const Legion::Task&, ContextConfigOutput& output) {
  output.auto_tracing_enabled = false;
}

}  // namespace ff::legion
