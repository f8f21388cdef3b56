#include "search/roofline.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"

namespace ff {
namespace {

// The type that a call computes in: of its first output that is a number.
DType computed_in(const OpCall& call) {
  for (const auto* types : {&call.outputs, &call.inputs})
    for (const TensorType& type : *types)
      if (is_float(type.dtype)) return type.dtype;
  return DType::float32;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double bytes_of(const OpCall& call) {
  int64_t rows = 0;
  if (op_def(call.op).domain)
    for (const TensorType& type : call.inputs)
      if (!is_float(type.dtype)) rows = std::max(rows, type.numel());
  double bytes = 0;
  for (const TensorType& type : call.inputs) {
    const bool table = rows > 0 && is_float(type.dtype) && type.rank() > 0;
    const auto row = table ? static_cast<double>(rows * type.dim(-1)) * static_cast<double>(size_of(type.dtype)) : 0;
    bytes += table ? std::min(static_cast<double>(type.bytes()), row) : static_cast<double>(type.bytes());
  }
  for (const TensorType& type : call.outputs) bytes += static_cast<double>(type.bytes());
  return bytes;
}

Roofline::Roofline(std::vector<Rates> rates, Factors factors) : rates_(std::move(rates)), factors_(std::move(factors)) {
  for (const auto& [op, factor] : factors_)
    if (!(factor > 0)) bad_value("the factor of \"", op, "\" is ", factor, "; expected a number above 0");
}

double Roofline::bound(const OpCall& call, int device) const {
  const Rates& rates = rates_.at(static_cast<size_t>(device));
  return std::max(op_def(call.op).flops(call) / rates.flops_in(computed_in(call)), bytes_of(call) / rates.bandwidth);
}

double Roofline::seconds(const OpCall& call, const Layouts&, int device, int) const {
  auto factor = factors_.find(call.op);
  if (factor == factors_.end()) factor = factors_.find("");
  return rates_[device].launch + (factor == factors_.end() ? 1 : factor->second) * bound(call, device);
}

Roofline::Factors Roofline::fitted(const std::vector<Sample>& samples) const {
  std::map<std::string, std::vector<double>> ratios;
  for (const Sample& sample : samples) {
    const double work = sample.seconds - rates_.at(static_cast<size_t>(sample.device)).launch;
    const double least = bound(sample.call, sample.device);
    if (work <= 0 || least <= 0) continue;
    ratios[sample.call.op].push_back(work / least);
    ratios[""].push_back(work / least);
  }
  Factors factors;
  for (auto& [op, values] : ratios) factors[op] = median(std::move(values));
  return factors;
}

}  // namespace ff
