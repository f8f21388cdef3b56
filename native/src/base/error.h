// Errors and checks. A user's mistake throws ff::Error with a kind that Python turns into an exception class;
// FF_CHECK guards what cannot happen and prints the values.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ff {

enum class ErrorKind { value, type, state, memory, internal };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// All arguments, printed one after the other.
template <class... T>
std::string cat(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "a, b, c"
template <class Range>
std::string join(const Range& items, const std::string& separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return out.str();
}

template <class... T>
[[noreturn]] void fail(ErrorKind kind, const T&... parts) {
  throw Error(kind, cat(parts...));
}

template <class... T>
[[noreturn]] void bad_value(const T&... parts) {
  throw Error(ErrorKind::value, cat(parts...));
}

}  // namespace ff

#define FF_CHECK(condition, ...)                                                                                \
  do {                                                                                                          \
    if (!(condition))                                                                                           \
      ::ff::fail(::ff::ErrorKind::internal, "internal check failed: " #condition " (", __FILE__, ":", __LINE__, \
                 ") ", ##__VA_ARGS__);                                                                          \
  } while (0)
