// A program that starts Legion itself, and then computes with flexflow, which must join.
//
// usage: joined implicit|task [FLAGS OF LEGION]      exit status 1 when numbers differ
//   implicit: the main thread becomes a task, as Legate does it;  task: all happens in a task on a processor of Legion
#include <legion.h>

#include <cstring>
#include <iostream>

#include "../programs.h"
#include "engines/plugins.h"

namespace {

constexpr int kRounds = 60;
int faults = 0;

enum { kMain = 1, kCount = 2 };

void count(const Legion::Task* task, const std::vector<Legion::PhysicalRegion>& regions, Legion::Context,
           Legion::Runtime*) {
  const Legion::FieldAccessor<LEGION_READ_WRITE, int64_t, 1> cells(regions[0], 0);
  for (int i = 0; i < 10; ++i) cells[i] = cells[i] + *static_cast<const int64_t*>(task->args);
}

// Tasks of the program's own, which Legion may trace by itself.
class Own {
 public:
  Own(Legion::Runtime* runtime, Legion::Context context) : runtime_(runtime), context_(context) {
    const auto fields = runtime->create_field_space(context);
    runtime->create_field_allocator(context, fields).allocate_field(sizeof(int64_t), 0);
    region_ =
        runtime->create_logical_region(context, runtime->create_index_space(context, Legion::Rect<1>(0, 9)), fields);
    runtime->fill_field<int64_t>(context, region_, region_, 0, 0);
  }
  void add(int64_t n) {
    Legion::TaskLauncher launcher(kCount, Legion::UntypedBuffer(&n, sizeof n));
    launcher.add_region_requirement(Legion::RegionRequirement(region_, READ_WRITE, EXCLUSIVE, region_));
    launcher.add_field(0, 0);
    runtime_->execute_task(context_, launcher);
    sum_ += n;
  }
  bool good() const {
    Legion::InlineLauncher launcher(Legion::RegionRequirement(region_, READ_ONLY, EXCLUSIVE, region_));
    launcher.add_field(0);
    const Legion::PhysicalRegion mapped = runtime_->map_region(context_, launcher);
    const bool good = Legion::FieldAccessor<LEGION_READ_ONLY, int64_t, 1>(mapped, 0)[9] == sum_;
    runtime_->unmap_region(context_, mapped);
    return good;
  }

 private:
  Legion::Runtime* runtime_;
  Legion::Context context_;
  Legion::LogicalRegion region_;
  int64_t sum_ = 0;
};

void compute(Legion::Runtime* runtime, Legion::Context context) {
  if (!ff::runtime_is_up()) std::cerr << "the runtime was not seen\n", ++faults;
  ff::EngineConfig config;
  config.devices = 2;
  const auto joined = ff::open_runtime("legion", config);
  std::cout << joined->description();
  if (joined->description().find("joined") == std::string::npos) ++faults;
  programs::Drawn drawn(7, 2, 25), other(8, 2, 25);
  auto expected = drawn.bytes(), expected_other = other.bytes();
  const auto loaded = joined->load(drawn.program()), loaded_other = joined->load(other.program());
  Own own(runtime, context);
  for (int round = 0; round < kRounds; ++round) {
    loaded->run();
    drawn.run_in_order(expected);
    for (int64_t n = 0; n < 6; ++n) own.add(n);
    if (round % 2 == 0) loaded_other->run();
    if (round % 2 == 0) other.run_in_order(expected_other);
    if (drawn.bytes() == expected && other.bytes() == expected_other && (round % 7 != 0 || own.good())) continue;
    std::cerr << "round " << round << " differs\n";
    ++faults;
  }
  if (!own.good()) ++faults;
}

void main_task(const Legion::Task*, const std::vector<Legion::PhysicalRegion>&, Legion::Context context,
               Legion::Runtime* runtime) {
  compute(runtime, context);
}

void run_beside_main_thread(int argc, char** argv) {
  Legion::Runtime::start(argc, argv, true);
  Legion::Runtime* const runtime = Legion::Runtime::get_runtime();
  const Legion::Context context = runtime->begin_implicit_task(kMain, 0, Legion::Processor::LOC_PROC, "main");
  compute(runtime, context);
  ff::close_runtimes();
  runtime->finish_implicit_task(context);
  Legion::Runtime::wait_for_shutdown();
}

template <void (*body)(const Legion::Task*, const std::vector<Legion::PhysicalRegion>&, Legion::Context,
                       Legion::Runtime*)>
void preregister(Legion::TaskID id, const char* name, bool leaf) {
  Legion::TaskVariantRegistrar registrar(id, name);
  registrar.add_constraint(Legion::ProcessorConstraint(Legion::Processor::LOC_PROC));
  registrar.set_leaf(leaf);
  Legion::Runtime::preregister_task_variant<body>(registrar, name);
}

}  // namespace

int main(int argc, char** argv) {
  const bool implicit = argc > 1 && std::strcmp(argv[1], "implicit") == 0;
  preregister<count>(kCount, "count", true);
  if (implicit) {
    run_beside_main_thread(argc, argv);
  } else {
    preregister<main_task>(kMain, "main", false);
    Legion::Runtime::set_top_level_task_id(kMain);
    Legion::Runtime::start(argc, argv);
  }
  std::cout << (faults == 0 ? "joined ok\n" : "FAILED\n");
  return faults == 0 ? 0 : 1;
}
