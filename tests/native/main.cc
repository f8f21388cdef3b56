// usage: native_tests [PART_OF_NAME]    exit status 1 when a test fails
#include <chrono>
#include <cstring>

#include "check.h"

int main(int argc, char** argv) {
  int failed = 0, passed = 0;
  for (const check::Test& test : check::tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    check::failures = 0;
    const auto start = std::chrono::steady_clock::now();
    const std::string error = check::thrown(test.run);
    if (!error.empty()) std::cerr << test.name << " threw: " << error << "\n";
    const bool good = error.empty() && check::failures == 0;
    ++(good ? passed : failed);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::cout << (good ? "passed " : "FAILED ") << test.name << " (" << took.count() << " s)\n";
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed == 0 && passed > 0 ? 0 : 1;
}
