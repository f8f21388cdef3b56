// Costs that are measured on the device at hand, each once.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "search/costs.h"

namespace ff {

// What was measured, by what a cost depends on. May be used by several threads.
class CostTable {
 public:
  std::optional<double> find(const std::string& key) const;
  void set(const std::string& key, double seconds);
  std::map<std::string, double> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> seconds_;
};

// All that the time of a call depends on, and nothing else: op, shapes, types, layouts, attributes, the share of each
// index that the call covers, threads, kind of device. Names and the streams of random numbers are left out.
std::string cost_key(const OpCall& call, const Layouts& layouts, const std::string& device, int threads, bool cold);

class Measured : public Costs {
 public:
  // Seconds of a call; nothing: there is no time to measure it. Whoever composes the library knows kernels, and gives
  // it.
  using Timer = std::function<std::optional<double>(const OpCall& call, const Layouts& layouts,
                                                    const std::string& device, int threads, bool cold)>;

  // launch: seconds that an engine adds to each call.
  Measured(Machine machine, CostTable& table, Timer timer, double launch = 0)
      : machine_(std::move(machine)), table_(table), timer_(std::move(timer)), launch_(launch) {}

  double seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const override {
    return launch_ + find(call, layouts, device, threads, false);
  }
  double cold_seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const override {
    return launch_ + find(call, layouts, device, threads, true);
  }
  // How often it was asked for a cost that it does not know; it counted it as 0.
  int64_t unknown() const { return unknown_; }

 private:
  double find(const OpCall& call, const Layouts& layouts, int device, int threads, bool cold) const;

  Machine machine_;
  CostTable& table_;
  Timer timer_;
  double launch_;
  mutable std::atomic<int64_t> unknown_{0};
};

}  // namespace ff
