// Legion's own memory, for what a process brings from others. Legion ends the process when there is too little, so what
// programs need is counted before.
#pragma once

#include <cstddef>
#include <map>

namespace ff::legion {

// What one program needs, for as long as it lives. Made and destroyed on the thread that calls Legion.
class Copies {
 public:
  // bytes: by process. Throws an Error that names the flag when they are more than Legion has left there.
  explicit Copies(std::map<int, size_t> bytes);
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies();

 private:
  std::map<int, size_t> bytes_;
};

}  // namespace ff::legion
