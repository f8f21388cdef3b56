// Random programs of tasks over bytes, and what they compute when they run one after another.
#pragma once

#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "engines/tasks.h"

namespace programs {

// Memory of a program and the program; what is drawn follows from the seed.
class Drawn {
 public:
  Drawn(unsigned seed, int devices, int tasks) : random_(seed) {
    const int memories = draw(1, 6);
    for (int m = 0; m < memories; ++m) {
      bytes_.emplace_back(static_cast<size_t>(draw(1, 600)));
      for (char& byte : bytes_.back()) byte = static_cast<char>(draw(0, 255));
    }
    for (size_t m = 0; m < bytes_.size(); ++m)
      program_.memories.push_back(
          {"memory " + std::to_string(m), draw(0, devices - 1), bytes_[m].data(), bytes_[m].size()});
    for (int t = 0; t < tasks; ++t) program_.tasks.push_back(draw_task(devices));
    program_.body = [tasks = program_.tasks](int task, const std::vector<char*>& addresses) {
      compute(tasks[task], task, addresses);
    };
  }

  const ff::TaskProgram& program() const { return program_; }
  std::vector<std::vector<char>>& bytes() { return bytes_; }

  // The program on a copy of memory, task after task.
  void run_in_order(std::vector<std::vector<char>>& bytes) const {
    for (size_t t = 0; t < program_.tasks.size(); ++t) {
      std::vector<char*> addresses;
      for (const ff::TaskUse& use : program_.tasks[t].uses) addresses.push_back(bytes[use.memory].data());
      program_.body(static_cast<int>(t), addresses);
    }
  }

 private:
  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  ff::Task draw_task(int devices) {
    ff::Task task{draw(0, devices - 1), {}};
    for (int uses = draw(0, 5); uses > 0; --uses) {
      const int memory = draw(0, static_cast<int>(bytes_.size()) - 1), size = static_cast<int>(bytes_[memory].size());
      const int begin = draw(0, size - 1);
      const int end = draw(0, 9) == 0 ? begin : draw(0, 3) == 0 ? size : draw(begin, std::min(size, begin + 40));
      task.uses.push_back({memory, static_cast<size_t>(begin), static_cast<size_t>(end), draw(0, 1) == 1});
    }
    return task;
  }

  static void compute(const ff::Task& task, int number, const std::vector<char*>& addresses) {
    unsigned sum = static_cast<unsigned>(number);
    for (size_t u = 0; u < addresses.size(); ++u)
      for (size_t b = task.uses[u].begin; b < task.uses[u].end; ++b)
        sum = sum * 31 + static_cast<unsigned char>(addresses[u][b]);
    for (size_t u = 0; u < addresses.size(); ++u)
      for (size_t b = task.uses[u].begin; task.uses[u].writes && b < task.uses[u].end; ++b)
        addresses[u][b] = static_cast<char>(static_cast<unsigned char>(addresses[u][b]) * 3 + (sum = sum * 17 + 5));
  }

  std::mt19937 random_;
  std::vector<std::vector<char>> bytes_;
  ff::TaskProgram program_;
};

}  // namespace programs
