// A machine as the search sees it: how fast its devices compute, and how data gets from one to another. It may be the
// one at hand or one that only a file tells of.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/machine.h"
#include "graph/tensor.h"

namespace ff {

// Of a device, for a roofline (Williams, Waterman and Patterson, 2009).
struct Rates {
  std::map<DType, double> flops;  // per second, by the type that is computed in; float32 is always there
  double bandwidth = 0;           // of its memory, bytes per second
  double launch = 0;              // seconds of a call beyond its work

  // A type that has no rate of its own is computed as float32.
  double flops_in(DType dtype) const {
    const auto it = flops.find(dtype);
    return it != flops.end() ? it->second : flops.at(DType::float32);
  }
};

// One direction of a connection. Ends are devices or, after them, switches.
struct Link {
  int from = 0, to = 0;
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes per second
};

class Network {
 public:
  Network();
  // Throws an Error that names the link when an end is not there or a number makes no sense.
  Network(int devices, int switches, std::vector<Link> links);

  const std::vector<Link>& links() const { return links_; }
  int devices() const { return devices_; }
  // The links of the fastest way for a megabyte, by number; none from a device to itself. Throws an Error when there is
  // no way. Of equally fast ways, those with the fewest links are shared out among the devices that data comes from.
  // Ways are found when first asked for and kept, also by copies of the network; may be asked by several threads.
  const std::vector<int>& route(int from, int to) const;
  double latency(int from, int to) const;    // of all links of the way
  double bandwidth(int from, int to) const;  // of its narrowest link; infinite from a device to itself

 private:
  struct Way;
  struct Ways;
  const Way& way(int from, int to) const;

  int devices_ = 0;
  std::vector<Link> links_;
  std::shared_ptr<Ways> ways_;
};

struct MachineModel {
  std::string name;
  Machine machine;
  std::vector<Rates> rates;  // by device
  Network network;
  // A device moves data while it computes, as GPUs do; otherwise moves take turns with its calls.
  bool overlap = true;

  // What a file does not tell, but the machine at hand:
  double start = 0;    // seconds of a step beyond what its devices do
  double handoff = 0;  // seconds until a device goes on that waited for a step of another
  // Of the last cache, which devices of one address space share; what does not fit comes from memory. 0: of no account.
  double cache = 0;
  // How much longer a call takes that lives on memory alone, for each device beside it that does so too.
  double contention = 0;
};

// Throws an Error that names the device when a number makes no sense, or when its parts are of other sizes than the
// machine.
void check(const MachineModel& model);

}  // namespace ff
