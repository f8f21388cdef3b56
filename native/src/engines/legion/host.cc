#include "engines/legion/host.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "engines/legion/flags.h"
#include "engines/legion/legate.h"
#include "engines/legion/mapper.h"
#include "engines/legion/network.h"
#include "engines/legion/peers.h"
#include "engines/legion/program.h"

namespace ff::legion {
namespace {

constexpr const char* kLibrary = "flexflow";
constexpr const char* kCoreMap = "REALM_SYNTHETIC_CORE_MAP";

void register_all(Legion::Machine machine, Legion::Runtime* runtime, const std::set<Legion::Processor>& processors) {
  Legion::TaskVariantRegistrar registrar(runtime->generate_library_task_ids(kLibrary, 2), "flexflow");
  registrar.add_constraint(Legion::ProcessorConstraint(Legion::Processor::LOC_PROC));
  registrar.set_leaf(true);
  registrar.global_registration = false;  // every process of the program comes here by itself
  const Legion::VariantID variant = runtime->register_task_variant<run_task>(registrar);
  const Legion::MapperID mapper = runtime->generate_library_mapper_ids(kLibrary, 1);
  const Legion::ShardingID placement = runtime->generate_library_sharding_ids(kLibrary, 1);
  runtime->register_sharding_functor(placement, new Placement, true);
  for (const Legion::Processor processor : processors)
    runtime->add_mapper(mapper, new Mapper(runtime->get_mapper_runtime(), machine, processor, variant, placement),
                        processor);
}

}  // namespace

Host& Host::get() {
  static Host* const host = new Host;
  return *host;
}

void Host::open(const EngineConfig& config) {
  const std::lock_guard lock(mutex_);
  if (process_ != 0) {
    expect_alive();
    if (started_ && !config.flags.empty() && config.flags != flags_)
      fail(ErrorKind::state, "the Legion runtime of this process was started with the flags \"", join(flags_, " "),
           "\"; flags \"", join(config.flags, " "), "\" come too late: set them before the first use, or restart");
    return;
  }
  const bool ours = !Legion::Runtime::has_runtime();
  if (ours) start(command_line(config));
  started_ = ours;  // now that nothing was wrong with the flags
  flags_ = config.flags;
  runtime_ = Legion::Runtime::get_runtime();
  owner_ = std::make_unique<Owner>();
  process_ = getpid();
  owner_->call([this] { begin(); });
  leave_with_caller();
  if (several()) Peers::get().watch();
  on_exit([](int status, void*) { get().close_with(status); }, nullptr);
}

void Host::start(const std::vector<std::string>& line) {
  // With cores that are made up Realm pins no thread; the threads that a kernel starts would inherit the pin. Programs
  // that this one starts have cores of their own.
  const bool ours = std::getenv(kCoreMap) == nullptr;
  set_up_network();
  if (ours) setenv(kCoreMap, "d=1,c=64,h=1,f=1", 1);
  std::vector<char*> words;
  for (const std::string& word : line) words.push_back(const_cast<char*>(word.c_str()));
  int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  char** arguments = words.data();
  Legion::Runtime::initialize(&count, &arguments, true);
  Legion::Runtime::start(count, arguments, true);
  if (ours) unsetenv(kCoreMap);
}

void Host::begin() {
  Legion::Runtime::perform_registration_callback(register_all, false);
  task_ = runtime_->generate_library_task_ids(kLibrary, 2);
  mapper_ = runtime_->generate_library_mapper_ids(kLibrary, 1);
  context_ = runtime_->begin_implicit_task(task_ + 1, mapper_, Legion::Processor::LOC_PROC, "flexflow", several());
  bytes_ = runtime_->create_field_space(context_);
  runtime_->create_field_allocator(context_, bytes_).allocate_field(1, kByte);
}

// Under a launcher of Legion's own the script is a task, and the runtime ends when this task and ours have ended;
// Legate waits likewise.
void Host::leave_with_caller() {
  if (started_ || before_legate_ends([this] { close(); }) || !Legion::Runtime::has_context() ||
      !Legion::Processor::get_executing_processor().exists())
    return;
  if (runtime_->get_local_task(Legion::Runtime::get_context())->get_depth() > 0) return;
  const Realm::Event end = Legion::Processor::get_current_finish_event();
  std::thread([this, end] {
    end.external_wait();
    close();
  }).detach();
}

bool Host::several() const { return Legion::Machine::get_machine().get_address_space_count() > 1; }

bool Host::alive() const { return process_ == getpid() && !ended_; }

void Host::expect_alive() const {
  if (process_ != getpid())
    fail(ErrorKind::state, "this process was forked from one whose Legion runtime was running, and has none; start it ",
         "anew (multiprocessing: method \"spawn\")");
  if (ended_) fail(ErrorKind::state, "the Legion runtime of this process has ended, and Legion cannot start twice");
}

void Host::call(const std::function<void()>& job) {
  expect_alive();
  owner_->call(job);
}

void Host::close() {
  if (alive() && !(started_ && several())) end();
}

void Host::close_with(int status) {
  // The other processes are not at their end, and would have to be for an orderly one.
  if (status != 0 && alive() && several()) {
    std::fflush(nullptr);
    _exit(status);
  }
  end();
}

void Host::end() {
  if (process_ != getpid() || ended_.exchange(true)) return;
  Peers::get().end();
  owner_->end([this] { runtime_->finish_implicit_task(context_); });
  if (started_) Legion::Runtime::wait_for_shutdown();
}

}  // namespace ff::legion
