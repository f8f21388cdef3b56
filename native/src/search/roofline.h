// Costs of devices that are not at hand, from how fast they compute and how fast their memory is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "search/costs.h"

namespace ff {

class Roofline : public Costs {
 public:
  // What ops take of the time that the roofline gives them, by name of the op; "": all others.
  using Factors = std::map<std::string, double>;

  explicit Roofline(std::vector<Rates> rates, Factors factors = {});

  // launch + factor * max(operations / rate, bytes / bandwidth).
  double seconds(const OpCall& call, const Layouts& layouts, int device, int threads) const override;

  struct Sample {
    OpCall call;
    int device = 0;
    double seconds = 0;  // measured
  };
  // The factors with which half of an op's samples take longer than said here, half less. Calls that are over with
  // their launch say nothing.
  Factors fitted(const std::vector<Sample>& samples) const;

 private:
  double bound(const OpCall& call, int device) const;

  std::vector<Rates> rates_;
  Factors factors_;
};

// The bytes that a call reads and writes. Of a table that integers index it reads as many rows as there are integers.
double bytes_of(const OpCall& call);

}  // namespace ff
