// legion_host [FLAGS] SCRIPT [ARGUMENTS]: starts Legion with a processor that runs Python, and on it a script as
// Legion's first task. That is the start which Legion's own legion_python makes, for machines whose Legion comes
// without it.
#include <legion.h>
#include <realm/python/python_source.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#define FOR_PYTHON extern "C" __attribute__((visibility("default")))

namespace {

constexpr Legion::TaskID kScript = 1;
std::vector<char*> arguments;  // those that Legion left

// legion_top.py is in HOST_FOLDER, which the build names.
void extend_module_path() {
  std::string path = HOST_FOLDER;
  if (const char* others = std::getenv("PYTHONPATH")) path += std::string(":") + others;
  setenv("PYTHONPATH", path.c_str(), 1);
}

}  // namespace

FOR_PYTHON const char* host_argument(size_t i) { return i < arguments.size() ? arguments[i] : nullptr; }

FOR_PYTHON void* host_begin_task(const void* data, size_t size, realm_id_t processor) {
  Legion::Processor here;
  here.id = processor;
  const Legion::Task* task = nullptr;
  const std::vector<Legion::PhysicalRegion>* regions = nullptr;
  Legion::Context context = nullptr;
  Legion::Runtime* runtime = nullptr;
  Legion::Runtime::legion_task_preamble(data, size, here, task, regions, context, runtime);
  return context;
}

FOR_PYTHON void host_end_task(void* context, int status) {
  Legion::Runtime::set_return_code(status);
  Legion::Runtime::legion_task_postamble(static_cast<Legion::Context>(context));
}

int main(int argc, char** argv) {
  extend_module_path();
  std::vector<char*> given(argv, argv + argc);
  std::string networks[] = {"-ll:networks", "none"};  // else a Legion that has UCX looks for other processes
  if (std::none_of(given.begin(), given.end(), [&](const char* word) { return networks[0] == word; }))
    given.insert(given.begin() + 1, {networks[0].data(), networks[1].data()});
  given.push_back(nullptr);
  argc = static_cast<int>(given.size()) - 1;
  argv = given.data();
  Legion::Runtime::initialize(&argc, &argv, /*filter=*/true);
  arguments.assign(argv, argv + argc);

  Legion::TaskVariantRegistrar registrar(kScript, "script");
  registrar.add_constraint(Legion::ProcessorConstraint(Legion::Processor::PY_PROC));
  Realm::CodeDescriptor code(Realm::Type::from_cpp_type<Legion::Processor::TaskFuncPtr>());
  code.add_implementation(new Realm::PythonSourceImplementation("legion_top", "main"));
  Legion::Runtime::preregister_task_variant(registrar, code, nullptr, 0, "script");
  Legion::Runtime::set_top_level_task_id(kScript);
  return Legion::Runtime::start(argc, argv);
}
