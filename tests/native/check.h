// A test is a function; a check that fails says where, and the test goes on.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"

namespace check {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

inline int failures = 0;  // of the running test

template <class... T>
void expect(bool good, const char* file, int line, const char* text, const T&... details) {
  if (good) return;
  constexpr int kShown = 20;
  if (++failures <= kShown) std::cerr << file << ":" << line << ": " << text << "  " << ff::cat("", details...) << "\n";
}

// The message of what a call throws; "" when it throws nothing.
inline std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// How many of so many draws: a sanitizer makes everything some ten times slower.
constexpr int draws(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (count + 9) / 10;
#else
  return count;
#endif
}

}  // namespace check

#define TEST(name)                                                   \
  static void name();                                                \
  static const check::Registration name##_registration(#name, name); \
  static void name()
// CHECK(condition, further values to print)
#define CHECK(condition, ...) check::expect(static_cast<bool>(condition), __FILE__, __LINE__, #condition, ##__VA_ARGS__)
// The call throws, and its message has the text in it.
#define CHECK_THROWS(call, text)                                                                          \
  do {                                                                                                    \
    const std::string message = check::thrown([&] { call; });                                             \
    check::expect(!message.empty() && message.find(text) != std::string::npos, __FILE__, __LINE__, #call, \
                  "expected an error with \"", text, "\", got \"", message, "\"");                        \
  } while (0)
