// The physical layout of a buffer. No description: dense row-major, the only layout that moves, reads and writes
// touch. Anything else belongs to the kernels that made it; the rest of the system compares names and counts bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ff {

class LayoutInfo {
 public:
  LayoutInfo(std::string name, size_t bytes) : name(std::move(name)), bytes(bytes) {}
  virtual ~LayoutInfo() = default;

  const std::string name;  // equal names are equal layouts of one tensor type
  const size_t bytes;
};

class Layout {
 public:
  Layout() = default;
  explicit Layout(std::shared_ptr<const LayoutInfo> info) : info_(std::move(info)) {}

  bool dense() const { return info_ == nullptr; }
  const LayoutInfo* info() const { return info_.get(); }
  std::string name() const { return dense() ? "dense" : info_->name; }
  bool operator==(const Layout& other) const { return name() == other.name(); }

 private:
  std::shared_ptr<const LayoutInfo> info_;
};

}  // namespace ff
