// Where tasks run and where their memory is: a task on its device, its memory where it was attached.
#pragma once

#include <legion.h>
#include <mappers/default_mapper.h>

#include <vector>

namespace ff::legion {

// Under control replication each process launches all tasks, and one runs in the process whose number is its point.
class Placement : public Legion::ShardingFunctor {
 public:
  Legion::ShardID shard(const Legion::DomainPoint& point, const Legion::Domain&, size_t) override {
    return static_cast<Legion::ShardID>(point[0]);
  }
};

class Mapper : public Legion::Mapping::DefaultMapper {
 public:
  Mapper(Legion::Mapping::MapperRuntime* runtime, Legion::Machine machine, Legion::Processor local,
         Legion::VariantID variant, Legion::ShardingID placement);

  void select_task_options(Legion::Mapping::MapperContext context, const Legion::Task& task,
                           TaskOptions& options) override;
  void select_sharding_functor(Legion::Mapping::MapperContext context, const Legion::Task& task,
                               const SelectShardingFunctorInput& input, SelectShardingFunctorOutput& output) override;
  void map_task(Legion::Mapping::MapperContext context, const Legion::Task& task, const MapTaskInput& input,
                MapTaskOutput& output) override;
  void memoize_operation(Legion::Mapping::MapperContext context, const Legion::Mappable& operation,
                         const MemoizeInput& input, MemoizeOutput& output) override;
  void configure_context(Legion::Mapping::MapperContext context, const Legion::Task& task,
                         ContextConfigOutput& output) override;

 private:
  Legion::Mapping::PhysicalInstance nearby(Legion::Mapping::MapperContext context, Legion::LogicalRegion region);

  Legion::VariantID variant_;
  Legion::ShardingID placement_;
  std::vector<Legion::Processor> processors_;  // of this process, for its devices in turn
  Legion::Memory memory_;                      // of this process, for what is brought here
};

}  // namespace ff::legion
