// The master problem of cutting planes (Kelley, 1960).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "search/elimination.h"

namespace ff {
namespace {

// The dual linear program, over shares of the cuts that sum to one: the least mean of at_zero with no mean slope above
// zero. By the simplex method on a tableau of a row per multiplier, one for the sum of shares, and one for the costs.
class Tableau {
 public:
  explicit Tableau(const std::vector<Cut>& cuts) : cuts_(cuts.size()), multipliers_(cuts[0].slopes.size()) {
    const size_t width = cuts_ + multipliers_ + 1;
    rows_.assign(multipliers_ + 2, std::vector<double>(width, 0.0));
    for (size_t m = 0; m < multipliers_; ++m) {
      for (size_t c = 0; c < cuts_; ++c) rows_[m][c] = cuts[c].slopes[m];
      rows_[m][cuts_ + m] = 1;  // slack
    }
    for (size_t c = 0; c < cuts_; ++c) rows_[multipliers_][c] = 1;
    rows_[multipliers_].back() = 1;
    for (size_t c = 0; c < cuts_; ++c) costs()[c] = cuts[c].at_zero;
    pivot(multipliers_, 0);
  }

  Cut run() {
    constexpr int kPivots = 1000;
    for (int i = 0; i < kPivots && step(); ++i) {
    }
    Cut place{-costs().back(), {}};
    for (size_t m = 0; m < multipliers_; ++m) place.slopes.push_back(std::max(0.0, costs()[cuts_ + m]));
    return place;
  }

 private:
  std::vector<double>& costs() { return rows_.back(); }

  bool step() {
    const auto entering = std::min_element(costs().begin(), costs().end() - 1);
    if (*entering >= -1e-12 * std::abs(costs().back())) return false;
    const size_t column = static_cast<size_t>(entering - costs().begin());
    size_t leaving = rows_.size();
    double least = 0;
    for (size_t row = 0; row <= multipliers_; ++row) {
      if (rows_[row][column] <= 1e-12) continue;
      const double ratio = rows_[row].back() / rows_[row][column];
      if (leaving == rows_.size() || ratio < least) {
        leaving = row;
        least = ratio;
      }
    }
    if (leaving == rows_.size()) return false;
    pivot(leaving, column);
    return true;
  }

  void pivot(size_t row, size_t column) {
    const double by = rows_[row][column];
    for (double& value : rows_[row]) value /= by;
    for (size_t other = 0; other < rows_.size(); ++other) {
      const double factor = rows_[other][column];
      if (other == row || factor == 0) continue;
      for (size_t c = 0; c < rows_[other].size(); ++c) rows_[other][c] -= factor * rows_[row][c];
    }
  }

  const size_t cuts_, multipliers_;
  std::vector<std::vector<double>> rows_;
};

}  // namespace

Cut highest_place(const std::vector<Cut>& cuts) { return Tableau(cuts).run(); }

}  // namespace ff
